"""Admission: how a real object enters the shadow world, by the rule of its type.

In order: exact types that have a rule; classes, enum members and modules (used as they are, guarded by identity);
instances of Python classes by the rule of their native base, if it takes them; objects of Python classes (a shadow with
a lazy `__dict__`). Everything else is opaque: usable by identity only.
"""

from __future__ import annotations

import enum
import types
from typing import Any

from onegraph.capture.calls.registry import is_outside_class
from onegraph.capture.directives.skipped_code import is_machinery
from onegraph.capture.guards.source import Source
from onegraph.capture.heap.type_rules import RULES, admit_opaque, rule_of
from onegraph.capture.heap.types import (  # noqa: F401  where the rules are declared
    buffers,
    cells,
    constants,
    deques,
    dicts,
    exceptions,
    functions,
    handles,
    iterators,
    lists,
    moments,
    objects,
    references,
    sets,
    tuples,
)
from onegraph.capture.heap.world import World
from onegraph.capture.interp.defects import Defect
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.layout import hides_slots


def admit_object(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """The shadow of any object that is neither an atom nor a tensor."""
    cls = type(real)
    if is_machinery(cls.__dict__.get("__module__")):
        raise Defect from AssertionError(f"a {cls.__qualname__} of the tracer has come into the program that it traces")
    if cls in RULES:
        return RULES[cls].admit(world, real, source, guarded)
    if cls.__module__.startswith("triton."):  # kernels: what they remember of their launches is nobody's business
        return constants.admit_identity(world, real, source, guarded)
    if is_outside_class(cls):
        return admit_opaque(world, real, source, guarded)
    if isinstance(real, type | enum.Enum | types.ModuleType):
        return constants.admit_identity(world, real, source, guarded)
    if hides_slots(cls):
        return admit_opaque(world, real, source, guarded)
    rule = rule_of(cls)
    return (rule if rule.admits_subclasses else RULES[object]).admit(world, real, source, guarded)
