"""What entries of each kind hold, as text. Reading one is how it is checked, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from onegraph.base.text import columns, plural
from onegraph.capture.kept.entries import entry_text
from onegraph.compiler.codegen.elf import FUNCTION, symbols_of
from onegraph.compiler.kept_plans import OfGraph, plan_of
from onegraph.compiler.library.measure import times_of
from onegraph.ir.plan_text import format_plan

SHOWN = 512  # bytes of what is no text


def text_of(kind: str, content: bytes) -> str:
    """What an entry holds.

    Raises:
        ValueError: where it holds nothing of its kind.
    """
    return READERS.get(kind, _unknown)(content)


def _object(content: bytes) -> str:
    symbols = symbols_of(content)
    functions = [symbol.name for symbol in symbols if symbol.kind == FUNCTION and symbol.section]
    called = [symbol.name for symbol in symbols if symbol.name and not symbol.section]
    head = f"native code: {plural(len(functions), 'function')} in {plural(len(content), 'byte')}"
    return "\n".join([head, *(f"  {name}" for name in functions), *(f"  calls {name}" for name in called)])


def _plan(content: bytes) -> str:
    entry = plan_of(content)
    try:
        steps = format_plan(entry.plan)
    except IndexError:
        raise ValueError("this is no plan: it launches a kernel that it has not") from None
    head = f"what a graph was compiled to: {plural(entry.loops, 'loop kernel')}, {entry.kernels} after fusion"
    kernels = zip(entry.plan.kernels, entry.objects, strict=False)
    lines = [head, *(f"  {info.name} is in {key}" for info, key in kernels)]
    for name, constant in entry.constants:
        whose = f"of node {constant.node}" if isinstance(constant, OfGraph) else f"{constant.dtype} {constant.shape}"
        lines.append(f"  {name}: constant {whose}")
    lines += [f"  {each.operator} is left to a library: {each.reason}" for each in entry.left]
    return "\n".join([*lines, steps])


def _times(content: bytes) -> str:
    rows = [(f"  {way}", f"{1e6 * seconds:.1f} us") for way, seconds in times_of(content).items()]
    return "\n".join(["the time of each way to compute something", columns(rows)])


def _unknown(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"{plural(len(content), 'byte')}: {content[:SHOWN].hex(' ', 4)}"


READERS: Mapping[str, Callable[[bytes], str]] = MappingProxyType(
    {"objects": _object, "plans": _plan, "times": _times, "captures": entry_text}
)
