"""Plain values are pickled while tracing; what is told by its identity, or has methods of its own, breaks the graph."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

CACHE: dict[Any, torch.Tensor] = {}


class Named:
    pass


def remembered(x: torch.Tensor, name: str, **options: Any) -> Any:
    key = (name, pickle.dumps(options))
    if key not in CACHE:
        CACHE[key] = x * len(options)
    return CACHE[key] + 1, key


WHOLE: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "options": lambda x, n: remembered(x, "a", n=n, flag=None, pair=(1.5, b"b")),
    "none": lambda x, n: remembered(x, "b"),
    "nested": lambda x, n: (x + 1, pickle.dumps([{"a": [n, ()]}, (), "b"], 4)),
}
BROKEN: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "a text twice": lambda x, n: (x + 1, pickle.dumps(["a", "".join(["a"])])),
    "a container twice": lambda x, n: (x + 1, pickle.dumps([[n]] * 2)),
    "an object": lambda x, n: (x + 1, pickle.loads(pickle.dumps(Named())).__class__),
    "a class": lambda x, n: (x + 1, pickle.dumps(Named)),
    "a tensor": lambda x, n: (x + 1, pickle.loads(pickle.dumps(x)) * 2),
}


@pytest.mark.parametrize("program", [*WHOLE.values(), *BROKEN.values()], ids=[*WHOLE, *BROKEN])
def test_pickles_are_those_of_eager_mode(program: Callable[[torch.Tensor, Any], Any]) -> None:
    def run(function: Callable[[torch.Tensor, Any], Any]) -> str:
        CACHE.clear()
        return repr([function(torch.ones(2), n) for n in (1, 1, "m", 2, 300)])

    onegraph.reset()
    with Watch() as watch:
        assert run(onegraph.compile(program, backend="eager")) == run(program)
    assert bool(watch.of(ev.GraphBroken)) == (program in BROKEN.values())
