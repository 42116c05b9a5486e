"""When collectives are issued and waited for: text in, text out."""

from __future__ import annotations

from typing import Any

from onegraph.base import events as ev
from onegraph.base.context import Context
from onegraph.base.events import Events
from onegraph.compiler.schedule.overlap import overlap
from onegraph.ir.loop_check import check_program
from onegraph.ir.loop_text import format_program, parse_program

F = "_c10d_functional"


def program(inputs: str, buffers: str, *steps: str, outputs: str) -> str:
    """A program over buffers of 256 bytes; `b = f(a)` is a kernel."""
    lines = [f"program({inputs}):", *(f"  buffer {name}: f32[64] stride (1)" for name in buffers.split())]
    for step in steps:
        name, _, value = step.partition(" = ")
        if value.startswith("f("):
            lines += [f"  kernel k_{name}(i0: 64):"]
            operands = value[2:-1].split(", ")
            lines += [f"    t{n}: f32 = load {operand} @ i0" for n, operand in enumerate(operands)]
            lines += [f"    t{len(operands)}: f32 = {'add(t0, t1)' if len(operands) > 1 else 'sin(t0)'}"]
            lines += [f"    store {name} @ i0 = t{len(operands)}"]
        elif value.startswith("view"):
            lines += [f"  {name} = {value}"]
        else:
            called, _, operand = value.partition(" ")
            group = "" if called == "wait_tensor" else ", 'sum', '0'"
            lines += [f"  {name} = ordered extern {F}.{called}.default({operand}{group})"]
    return "\n".join([*lines, f"  return {outputs}", ""])


def order(text: str, bound: int = 1 << 20) -> tuple[str, Any]:
    """What each step defines, in the order in which the steps run; what is said of the collectives."""
    before, events, said = parse_program(text), Events(), []
    check_program(before)
    events.subscribe(said.append)
    after = overlap(before, Context(events=events), bound)
    check_program(after)
    assert sorted(map(repr, after.steps)) == sorted(map(repr, before.steps))
    names = [step.name.removeprefix("k_") if hasattr(step, "name") else step.outputs[0] for step in after.steps]
    return " ".join(str(name) for name in names), [
        event for event in said if isinstance(event, ev.CommunicationScheduled)
    ]


REDUCED = program(
    "x",
    "x a b y z c d",
    "a = f(x)",
    "b = f(x)",
    "y = all_reduce a",
    "z = wait_tensor y",
    "c = f(b)",
    "d = f(z, c)",
    outputs="d",
)


def test_a_collective_travels_as_long_as_it_can() -> None:
    found, (event,) = order(REDUCED)
    assert found == "a y b c z d"
    (transfer,) = event.transfers
    assert (transfer.operator, transfer.size) == (f"{F}.all_reduce.default", 512)
    assert transfer.kernels == ("k_b", "k_c") and transfer.operators == ()


GOLDEN = """\
program(x):
  buffer x: f32[64] stride (1)
  buffer a: f32[64] stride (1)
  buffer b: f32[64] stride (1)
  buffer y: f32[64] stride (1)
  buffer z: f32[64] stride (1)
  buffer c: f32[64] stride (1)
  buffer d: f32[64] stride (1)
  kernel k_a(i0: 64):
    t0: f32 = load x @ i0
    t1: f32 = sin(t0)
    store a @ i0 = t1
  y = ordered extern _c10d_functional.all_reduce.default(a, 'sum', '0')
  kernel k_b(i0: 64):
    t0: f32 = load x @ i0
    t1: f32 = sin(t0)
    store b @ i0 = t1
  kernel k_c(i0: 64):
    t0: f32 = load b @ i0
    t1: f32 = sin(t0)
    store c @ i0 = t1
  z = ordered extern _c10d_functional.wait_tensor.default(y)
  kernel k_d(i0: 64):
    t0: f32 = load z @ i0
    t1: f32 = load c @ i0
    t2: f32 = add(t0, t1)
    store d @ i0 = t2
  return d
"""


def test_the_text_of_the_program() -> None:
    assert format_program(overlap(parse_program(REDUCED), Context())) == GOLDEN.removesuffix("\n")


def test_what_travels_at_one_time_has_a_bound() -> None:
    steps = ["a = f(x)", "b = f(x)", "y = all_reduce a", "v = all_reduce b", "z = wait_tensor y", "w = wait_tensor v"]
    text = program("x", "x a b y v z w c", *steps, "c = f(z, w)", outputs="c")
    assert order(text)[0] == "a y b v z w c"
    assert order(text, bound=511)[0] == "a b y v z w c"
    assert order(REDUCED, bound=511)[0] == "a b y z c d"


def test_collectives_keep_their_order() -> None:
    steps = ["a = f(x)", "y = all_reduce a", "z = wait_tensor y", "v = all_reduce x", "w = wait_tensor v"]
    text = program("x", "x a y z v w c", *steps, "c = f(z, w)", outputs="c")
    assert order(text)[0] == "a y v z w c"


def test_a_collective_of_what_is_waited_for_is_behind_it() -> None:
    steps = ["y = all_reduce x", "z = wait_tensor y", "v = all_reduce z", "w = wait_tensor v", "a = f(x)"]
    text = program("x", "x y z v w a", *steps, outputs="w, a")
    assert order(text)[0] == "y z v a w"


def test_what_nobody_reads_is_waited_for_at_the_end() -> None:
    steps = ["y = all_reduce x", "z = wait_tensor y", "a = f(x)"]
    assert order(program("x", "x y z a", *steps, outputs="a"))[0] == "y a z"


def test_views_go_with_what_they_look_at() -> None:
    steps = ["a = f(x)", "b = f(x)", "p = view a offset 0", "y = all_reduce p", "z = wait_tensor y"]
    text = program("x", "x a b p y z q c d", *steps, "q = view z offset 0", "c = f(b)", "d = f(q, c)", outputs="d")
    assert order(text)[0] == "a p y b c z q d"


def test_a_view_of_what_travels_is_read_when_it_is_there() -> None:
    steps = ["y = all_reduce x", "p = view y offset 0", "z = wait_tensor y", "a = f(p)", "b = f(x)"]
    assert order(program("x", "x y p z a b", *steps, outputs="a, b"))[0] == "y p z a b"
