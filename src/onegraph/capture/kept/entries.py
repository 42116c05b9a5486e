"""A capture and what was compiled of its graph as one piece of data, and back to a capture for a call.

Capture ──► rows ──► compressed JSON                             stored by its frame, see `store`
JSON ──► rows, read for a call ──► Capture whose guards hold     Stale where something is another than it was
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from onegraph import _C
from onegraph.base import events as ev
from onegraph.base.codec import LARGEST_TEXT, Unkept
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.late import late_module
from onegraph.capture.assumptions import Assumptions, Conditions
from onegraph.capture.calls.libraries import is_library
from onegraph.capture.captured import FROM_DISK, GRAPH, Capture, FrameStart
from onegraph.capture.graph.fallback import Fallback
from onegraph.capture.graph.late_guards import Backwards
from onegraph.capture.guards.guard import GuardSet, ShapeCondition
from onegraph.capture.guards.source import Source, describe
from onegraph.capture.kept.checks import MOST
from onegraph.capture.kept.codes import Codes
from onegraph.capture.kept.contents import NATIVE, content
from onegraph.capture.kept.guards import places_of, read_guards, write_guard
from onegraph.capture.kept.rows import Reader, Stale, Writer, check_named, moved
from onegraph.capture.symbolic.generator_states import SavedStates
from onegraph.capture.symbolic.shape_policy import History, Learnt
from onegraph.torchlib.aten import OpOverload, OpOverloadPacket

if TYPE_CHECKING:
    from onegraph.capture.kept.break_checks import check_continuation
    from onegraph.capture.resume.continuation import Continuation
else:
    check_continuation = late_module("onegraph.capture.kept.break_checks").check_continuation

FORMAT = 1
#: The namespaces of torch's own operators.
OF_TORCH = frozenset({"aten", "prims", "prim", "mkldnn", "onednn", "_c10d_functional"})
FORMAT_NAME = "onegraph"  # whose hash tells processes apart in which sets have other orders
NO_BACKWARDS = Backwards((), frozenset())
#: Of a fallback, what is the same in each process.
TOLD = (type(None), ev.GraphBroken)
PARTS = (
    "grad_enabled", "grad_after", "repeatable", "written", "random", "opening", "settings", "collectives", "outputs",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Loaded:
    """A capture from disk, what was known of its sizes, and what is told of it. If it has a graph: what can be done
    where that fails, and the bytes of what it was compiled to."""

    capture: Capture
    fallback: Fallback | None
    made: bytes | None
    learnt: Learnt
    events: tuple[ev.Event, ...]


def entry_of(captured: Capture, of: tuple[str, str], start: FrameStart, history: History, made: bytes | None) -> bytes:
    """The bytes of an entry. `of` says of which frame it is, and under which settings.

    Raises:
        Unkept: something in it is known in this process alone.
    """
    assumed, seen = captured.assumptions, captured.seen
    if seen is None or assumed.backwards.functions:
        raise Unkept("the backward of a custom function")
    if seen.unkept:
        raise Unkept(seen.unkept)
    if captured.graph is not None:
        check_operators(captured.graph.module)
    guards = [*assumed.facts, *assumed.guards]
    codes = Codes(captured.code)
    writer = Writer(codes, places_of(guards), start.function.__globals__)
    functions = [number for each, place in seen.functions for number in function_rows(writer, start, each, place)]
    values = [[writer.add(place), writer.add(value)] for place, value in seen.values]
    graph = captured.graph
    if graph is not None and graph.fallback.generators.sources:
        raise Unkept("draws of Python's random numbers")
    conditions = assumed.conditions()
    parts = {
        "of": of,
        "hashes": hash(FORMAT_NAME) if seen.order else None,
        "functions": functions,
        "values": values,
        "state": [writer.mapping(assumed.state.values), assumed.state.lenient, assumed.state.unhandled],
        "facts": len(assumed.facts),
        "conditions": writer.add(conditions.each),
        "symbols": [conditions.symbols, conditions.text],
        "body": list(captured.body),
        "nonlocals": list(captured.nonlocals),
        "consts": writer.add_all(captured.consts),
        "continuation": writer.add(shifted(captured.continuation, -1)),
        "levels": captured.levels,
        "effects": list(captured.effects),
        "fallback": None if graph is None else writer.add_all(getattr(graph.fallback, name) for name in PARTS),
        "history": writer.add(history.learnt()),
        "broken": writer.add(captured.broken),
        "size": None if graph is None else size_of(graph.module),
        "made": None if made is None else base64.b64encode(made).decode(),
    }
    parts["guards"] = [write_guard(writer, guard) for guard in guards]
    return compressed({"format": FORMAT, "rows": writer.rows, **parts})


def compressed(parts: dict[str, Any]) -> bytes:
    """The bytes of an entry with these parts.

    Raises:
        Unkept: they are more than a reader takes.
    """
    text = json.dumps(parts).encode()
    if len(text) > LARGEST_TEXT:
        raise Unkept(f"a text of {len(text)} bytes")
    return zlib.compress(text, 1)


def parts_of(data: bytes) -> Any:
    """What an entry holds.

    Raises:
        ValueError, zlib.error, RecursionError: nobody has written such an entry.
    """
    opened = zlib.decompressobj()
    text = opened.decompress(data, LARGEST_TEXT)
    if not opened.eof:
        raise ValueError("it is cut, or longer than any entry")
    return json.loads(text)


def size_of(module: torch.fx.GraphModule) -> tuple[int, int]:
    """How many operations and inputs a graph has."""
    nodes = [node.op for node in module.graph.nodes]
    return sum(op.startswith("call") for op in nodes), nodes.count("placeholder")


def check_operators(module: torch.fx.GraphModule) -> None:
    """What is compiled of an operator or a function of the program depends on code that was not looked at.

    Raises:
        Unkept: the graph has one.
    """
    for node in module.graph.nodes:
        target = node.target
        if node.op != "call_function" or type(target) in NATIVE:
            continue
        if isinstance(target, OpOverload | OpOverloadPacket):
            known = str(target).partition(".")[0] in OF_TORCH
        else:
            known = isinstance(target, FunctionType) and is_library(target.__module__)
        if not known:
            raise Unkept(f"what {target} does, which is code of the program")


def checked_parts(found: dict[str, Any], reader: Reader) -> tuple[list[Any], Continuation | None]:
    """The constants of the residual code, and how it goes on.

    Raises:
        ValueError: a part is not what it is in each capture.
    """
    for name in ("body", "nonlocals", "effects"):
        if type(found[name]) is not list or not all(type(line) is str for line in found[name]):
            raise ValueError(f"{name} is no list of texts")
    continuation = reader.values[found["continuation"]]
    if continuation is not None:
        check_continuation(continuation)
    if type(found["levels"]) is not int or not 0 < found["levels"] < MOST:
        raise ValueError("there are no such frames")
    if type(reader.values[found["history"]]) is not Learnt or type(reader.values[found["broken"]]) not in TOLD:
        raise ValueError("it is told of something else")
    conditions = reader.values[found["conditions"]]
    if type(conditions) is not tuple or not all(type(each) is ShapeCondition for each in conditions):
        raise ValueError("there are no such conditions")
    consts = reader.all(found["consts"])
    if any(value is GRAPH for value in consts) and (found["fallback"] is None or found["made"] is None):
        raise ValueError("there is no graph")
    return consts, continuation


def shifted(continuation: Continuation | None, sign: int) -> Continuation | None:
    """With lines that count from the first one of its function, or from that of the file again."""
    if continuation is None:
        return None
    lines = sign * continuation.code.co_firstlineno
    instruction = continuation.instruction
    return replace(continuation, instruction=replace(instruction, position=moved(instruction.position, lines)))


def entry_text(data: bytes) -> str:
    """What an entry holds, for people.

    Raises:
        ValueError: it is no entry.
    """
    try:
        found = parts_of(data)
        made = base64.b64decode(found["made"] or "", validate=True)
        counts = [len(found[name]) for name in ("guards", "functions", "values", "consts")]
        body = [*found["body"]]
    except (zlib.error, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"this is no capture: {type(error).__name__}: {error}") from None
    guards, functions, values, consts = counts
    head = f"what a frame was captured to: {guards} guards, {functions} functions and {values} values to compare"
    return "\n".join(
        [f"{head}; {consts} constants, {len(made)} bytes of compiled graph", *(f"  {line}" for line in body)]
    )


def made_of(data: bytes) -> bytes | None:
    """The bytes of what the graph of an entry was compiled to."""
    made = parts_of(data)["made"]
    return None if made is None else base64.b64decode(made, validate=True)


def check_functions(data: bytes) -> None:
    """Compare the functions and the like that an entry has by name with those of this process, whose modules are
    imported.

    Raises:
        Stale: one of them is missing, or another than it was.
    """
    for tag, *fields in parts_of(data)["rows"]:
        if tag == "named":
            check_named(*fields)


def with_made(data: bytes, made: bytes) -> bytes:
    """The entry with other bytes for what was compiled.

    Raises:
        Unkept: it would be too large.
    """
    found = parts_of(data)
    found["made"] = base64.b64encode(made).decode()
    return compressed(found)


def function_rows(writer: Writer, start: FrameStart, function: FunctionType, place: Any) -> list[list[int]]:
    """What to compare of a function whose code was followed; nothing of those of libraries, which have their version,
    and of those whose code is in other code."""
    if writer.codes.knows(function.__code__):
        return []
    writer.codes.add(function)
    if writer.codes.is_resuming(function):  # its code is found where it is found itself
        if place is None:
            raise Unkept("a resume function that comes from nowhere")
        return [[writer.at(place, function)]]
    if is_library(str(function.__globals__.get("__name__"))):
        return []
    try:
        return [[writer.add(function)]]
    except Unkept:
        if place is None:
            raise
        return [[writer.at(place, function)]]


def capture_of(data: bytes, of: tuple[str, ...], start: FrameStart, history: History, cx: Context) -> Loaded:
    """The capture of an entry, for a call. `of` is what is known of what it must be of.

    Raises:
        Stale: it does not hold for this call, or for this program.
        ValueError, LookupError, TypeError, AttributeError: nobody has written such an entry.
    """
    found = parts_of(data)
    if found["format"] != FORMAT:
        raise Stale("it has another format")
    if found["of"][: len(of)] != [*of]:
        raise ValueError("it is of another frame, or of other settings")
    if found["hashes"] not in (None, hash(FORMAT_NAME)):
        raise Stale("sets have another order in this process")
    codes = Codes(start.code)
    reader = Reader(found["rows"], codes, start, history)
    for place, value in found["values"]:
        check_seen(reader, reader.values[place], reader.values[value])
    state = state_of(reader, *found["state"])
    rows, facts = found["guards"], found["facts"]
    every = read_guards(reader, rows)
    guards = GuardSet.of(every[facts:])
    consts, continuation = checked_parts(found, reader)
    number, text = found["symbols"]
    conditions = Conditions(reader.values[found["conditions"]], number, text)
    home = start.function.__globals__
    assumed = Assumptions(guards, tuple(every[:facts]), state, lambda: conditions, NO_BACKWARDS, home)
    fallback = None if found["fallback"] is None else fallback_of(reader, found["fallback"], history, cx)
    made = None if found["made"] is None else base64.b64decode(found["made"], validate=True)
    captured = Capture(
        start.code, None, assumed, tuple(found["body"]), tuple(found["nonlocals"]), tuple(consts),
        shifted(continuation, 1), found["levels"], tuple(found["effects"]), FROM_DISK,
    )  # fmt: skip
    told: list[ev.Event] = [] if found["size"] is None else [ev.GraphCaptured(cx.frame, *found["size"])]
    broken = reader.values[found["broken"]]
    told += [] if broken is None else [replace(broken, frame=cx.frame)]
    return Loaded(captured, fallback, made, reader.values[found["history"]], tuple(told))


def check_seen(reader: Reader, place: Source, value: Any) -> None:
    """What a library had without a guard is as it was.

    Raises:
        Stale: it is not.
    """
    now = reader.value_at(place)
    same = (
        type(now) is value if isinstance(value, type) else type(now) is type(value) and content(now) == content(value)
    )
    if not same:
        raise Stale(f"{describe(place)} is another")


def state_of(reader: Reader, values: int, lenient: bool, unhandled: bool) -> Any:
    now = _C.GlobalState()
    if now.values != reader.values[values]:
        raise Stale("the state of the process is another")
    now.lenient, now.unhandled = lenient, unhandled
    return now


def fallback_of(reader: Reader, parts: list[int], history: History, cx: Context) -> Fallback:
    facts = dict(zip(PARTS, reader.all(parts), strict=True))
    return Fallback(cx=cx, unexpected=history.note_unexpected, generators=SavedStates(), **facts)
