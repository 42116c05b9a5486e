"""Moments and times of day: immutable, and known by what they hold, so another call may bring an equal one."""

from __future__ import annotations

from datetime import datetime, time, timezone
from typing import Any
from zoneinfo import ZoneInfo

from onegraph.capture.guards.source import Item, Source, Through
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, admit_opaque, rule_for
from onegraph.capture.heap.types.objects import rebuild_object
from onegraph.capture.heap.world import World

#: Zones that say the same in every call.
FIXED_ZONES = (type(None), timezone, ZoneInfo)


@rule_for(datetime, time)
class Moments(TypeRule):
    """Equal ones may be of different zones, or be the first and the second of one hour: the parts are compared.

    A zone written in Python may say something else in each call, and native code asks it out of our sight.
    """

    def admit(self, world: World, real: datetime | time, source: Source, guarded: bool) -> Any:
        if type(real.tzinfo) not in FIXED_ZONES:
            return admit_opaque(world, real, source, guarded)
        if guarded:
            world.guard(source, "type", type(real))
            for index, part in enumerate(parts_of(real)):
                world.guard(Item(Through(source, parts_of), index), "is" if index else "equal", part)
        world.adopt_value(real, source)
        return real

    def rebuild(self, rebuild: Rebuilding, value: datetime | time) -> str:
        zone = value.tzinfo
        return rebuild.const(value) if zone is None or type(zone) is timezone else rebuild_object(rebuild, value)


def parts_of(moment: datetime | time) -> tuple[bytes, Any]:
    """All that the clock shows, with the fold, and the zone."""
    held: Any = moment.__reduce_ex__(4)
    state, *zone = held[1]
    return state, zone[0] if zone else None
