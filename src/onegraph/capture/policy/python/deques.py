"""What only appends to a deque from outside does not look at it."""

from __future__ import annotations

import collections
from typing import Any

from onegraph.capture.calls.registry import policy


def _adding(method: Any, single: Any) -> None:
    @policy(method)
    def add(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        shadow, *values = args
        tracer.world.refuse_opaque(shadow)
        tracer.world.touch(shadow)
        entry = tracer.world.records.get(id(shadow))
        if entry is None or entry.complete or len(values) != 1:
            return tracer.run_native(method, args, kwargs)
        for value in values if method is single else list(tracer.iterate(values[0])):
            single(shadow, value)
            entry.snapshot.append((single, tracer.world.keep(value)))


_adding(collections.deque.append, collections.deque.append)
_adding(collections.deque.appendleft, collections.deque.appendleft)
_adding(collections.deque.extend, collections.deque.append)
_adding(collections.deque.extendleft, collections.deque.appendleft)
