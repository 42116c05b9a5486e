"""Loop programs as text: what is printed is read back the same, and a broken program is refused."""

from __future__ import annotations

import pytest

from onegraph.ir.loop_check import InvalidProgram, check_program
from onegraph.ir.loop_text import ParseError, format_kernel, format_program, parse_kernel, parse_program

PROGRAM = """\
program(x, ids, n):
  size s = x[0]
  buffer x: f32[s, 8] stride (8, 1)
  buffer ids: i64[s] stride (1)
  buffer w: bf16[100] stride (1) constant
  buffer y: f32[s, 8] stride (8, 1)
  buffer m: f32[s] stride (1)
  buffer z: f32[8, s] stride (1, 8)
  buffer q: f32[8, s] stride (1, 8)
  buffer c: f32[8, s] stride (1, 8) on cuda:1
  kernel k0(i0: s) vector r0 by 8:
    local keep: f32[8]
    t0: i64 = load ids @ i0
    t1: bool = lt(t0, 100)
    check t1 else IndexError 'index out of range in self'
    t2: bf16 = load w @ t0 if t1
    t3: f32 = cast t2
    for r0: 8:
      t4: f32 = load x @ i0 * 8 + r0
      t5: f32 = mul(t4, -inf)
      t6: f32 = where(t1, t5, nan)
      t7: f32 = max over t6
      store keep @ r0 = t6
    for r0: 8:
      t8: f32 = load keep @ r0
      t9: i64 = index (r0 // 2) + i0 * 8
      t10: i64 = argmax over t8, t9
      store y @ i0 * 8 + r0 = t8
    store m @ i0 = t7
  z = view y offset 0
  q, None, = extern aten.foo.default(z, [1, index(s * 2)], 0.5, alpha=-1, dtype=dtype('float32'), other=None)
  None = ordered extern aten.bar.default(q)
  c = extern aten._to_copy.default(q, device=device('cuda:1'))
  (k) = extern aten._local_scalar_dense.default(m)
  None = extern onegraph.is_expected(index(k), index(s), '<=')
  kernel k1(i0: 8, i1: 9) vector i0 by 4 across i1:
    add q[i0, 0] += 1.0
  return q, (s * 2), None
"""


def test_round_trip() -> None:
    program = parse_program(PROGRAM)
    assert format_program(program) == PROGRAM.rstrip()
    check_program(program)
    assert parse_program(format_program(program)) == program


def test_kernels_alone() -> None:
    kernel = parse_program(PROGRAM).kernels[0]
    text = format_kernel(kernel).replace(": s)", ": 4)")
    assert format_kernel(parse_kernel(text)) == text


@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        ("t3: f32 = cast t2", "t3: f32 = cast t9", "t9 is not in scope"),
        ("t5: f32 = mul(t4, -inf)", "t5: f32 = mul(t4, t3, t3)", "mul with 3 operands"),
        ("t5: f32 = mul(t4, -inf)", "t5: f32 = frob(t4, -inf)", "unknown operation frob"),
        ("t5: f32 = mul(t4, -inf)", "t5: f32 = mul(t4, t0)", "t0 is i64 where f32 is needed"),
        ("t5: f32 = mul(t4, -inf)", "t4: f32 = mul(t4, -inf)", "two values are called t4"),
        ("store m @ i0 = t7", "store m @ i0 = t6", "t6 is not in scope"),
        ("store m @ i0 = t7", "store m[i0, 0] = t7", "m has 1 dimensions"),
        ("store m @ i0 = t7", "store m @ r0 = t7", None),
        ("t2: bf16 = load w @ t0 if t1", "t2: f32 = load w @ t0 if t1", "w has elements of bf16"),
        ("t7: f32 = max over t6", "t7: f32 = max over t6, t6", "max with 2 operands"),
        ("z = view y offset 0", "z = view z offset 0", "z is read before it is written"),
        ("return q", "return nothing, q", "the output nothing is never written"),
        ("buffer m: f32[s] stride (1)", "buffer m: f32[s] stride (1) on cpu", "k0 uses m, which lies on cpu"),
        (
            "buffer x: f32[s, 8] stride (8, 1)",
            "buffer x: f32[s, 8] stride (8, 1) on cpu",
            "k0 uses x, which lies on cpu",
        ),
        ("z: f32[8, s] stride (1, 8)", "z: f32[8, s] stride (1, 8) on cpu", "z lies elsewhere than its base"),
    ],
)
def test_the_checker_names_what_is_wrong(line: str, instead: str, message: str | None) -> None:
    assert line in PROGRAM
    program = parse_program(PROGRAM.replace(line, instead))
    if message is None:
        check_program(program)  # an unknown symbol counts as a size
        return
    with pytest.raises(InvalidProgram, match=message.replace("(", r"\(")):
        check_program(program)


def test_what_is_not_a_program_is_refused() -> None:
    with pytest.raises(ParseError, match="expected program"):
        parse_program("kernel k(i0: 4):")
    with pytest.raises(ParseError, match="t0 = what"):
        parse_program("program(x):\n  kernel k():\n    t0 = what")
