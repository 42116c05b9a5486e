"""The checker of bounds proves what lies in its buffer, and nothing else."""

from __future__ import annotations

import pytest

from onegraph.ir.index import Index, Symbol
from onegraph.ir.loop_bounds import OutOfBounds, Reach, Unproven, check_bounds
from onegraph.ir.loop_text import parse_program


def checked(
    kernel: str, x: str = "f32[8] stride (1)", facts: tuple[Index, ...] = (), **held: tuple[int, int]
) -> tuple[Unproven, ...]:
    """Check a kernel that reads `x`, and `p: i64[8]`, and writes `y` of 8 elements."""
    lines = "\n    ".join(kernel.strip().splitlines())
    text = f"""program(x, p, q, n, m):
  buffer x: {x}
  buffer p: i64[8] stride (1)
  buffer q: u8[8] stride (1)
  buffer y: f32[8] stride (1)
  {lines}
  return y
"""
    return check_bounds(parse_program(text), facts, held)


def body(*lines: str) -> str:
    return "\n".join(("kernel k0(i0: 8):", *lines, "store y @ i0 = v"))


@pytest.mark.parametrize(
    ("x", "place", "fits"),
    [
        ("f32[8] stride (1)", "x @ i0", True),
        ("f32[8] stride (1)", "x @ i0 + 1", False),
        ("f32[8] stride (1)", "x @ i0 - 1", False),
        ("f32[8] stride (1)", "x @ -i0 + 7", True),
        ("f32[8] stride (1)", "x @ (i0 // 2) + 4", True),
        ("f32[8] stride (1)", "x @ (i0 // 2) + 5", False),
        ("f32[8] stride (1)", "x @ (i0 % 3) * 4 ", False),
        ("f32[8] stride (1)", "x @ min(i0 * 2, 7)", True),
        ("f32[2, 4] stride (16, 1)", "x @ (i0 // 4) * 16 + (i0 % 4)", True),
        ("f32[2, 4] stride (8, 1)", "x @ (i0 // 4) * 16 + (i0 % 4)", False),
        ("f32[2, 4] stride (16, 1)", "x[(i0 // 4), (i0 % 4)]", True),
        ("f32[2, 4] stride (16, 1)", "x[(i0 // 2), (i0 % 4)]", False),
        ("f32[n, 8] stride (8, 1)", "x[0, i0]", False),  # there may be no row
        ("f32[n + 1, 8] stride (8, 1)", "x[n, i0]", True),
        ("f32[n + 1, 8] stride (8, 1)", "x @ n * 8 + i0", True),
        ("f32[n + 1, 8] stride (8, 1)", "x @ n * 8 + i0 + 1", False),
    ],
)
def test_an_index_lies_in_its_buffer(x: str, place: str, fits: bool) -> None:
    kernel = body(f"v: f32 = load {place}")
    if fits:
        assert checked(kernel, x) == ()
    else:
        with pytest.raises(OutOfBounds, match="in kernel k0: x at"):
            checked(kernel, x)


@pytest.mark.parametrize(
    ("lines", "fits"),
    [
        (["v: f32 = load x @ t"], False),
        (["a: bool = ge(t, 0)", "v: f32 = load x @ t if a"], False),
        (["a: bool = ge(t, 0)", "b: bool = lt(t, 8)", "c: bool = and(a, b)", "v: f32 = load x @ t if c"], True),
        (["a: bool = ge(t, 0)", "b: bool = le(t, 8)", "c: bool = and(a, b)", "v: f32 = load x @ t if c"], False),
        (["a: bool = ge(t, 0)", "b: bool = lt(t, 8)", "c: bool = or(a, b)", "v: f32 = load x @ t if c"], False),
        (["a: bool = lt(t, 0)", "b: bool = ge(t, 8)", "c: bool = or(a, b)", "d: bool = not(c)",
          "v: f32 = load x @ t if d"], True),
        (["a: bool = ge(t, 0)", "b: bool = lt(t, 8)", "c: bool = and(a, b)",
          "check c else IndexError 'outside'", "v: f32 = load x @ t"], True),
        (["a: i64 = maximum(t, 0)", "b: i64 = minimum(a, 7)", "v: f32 = load x @ b"], True),
        (["a: i64 = maximum(t, 0)", "b: i64 = minimum(a, 8)", "v: f32 = load x @ b"], False),
        (["a: bool = lt(t, 0)", "b: i64 = add(t, 8)", "c: i64 = where(a, b, t)", "d: bool = ge(c, 0)",
          "e: bool = lt(c, 8)", "f: bool = and(d, e)", "check f else IndexError ''", "v: f32 = load x @ c"], True),
        (["a: i64 = remainder(t, 8)", "v: f32 = load x @ a"], True),
        (["a: i64 = remainder(t, 9)", "v: f32 = load x @ a"], False),
    ],
)  # fmt: skip
def test_what_was_read_is_known_by_what_it_was_compared_with(lines: list[str], fits: bool) -> None:
    kernel = body("t: i64 = load p @ i0", *lines)
    if fits:
        assert checked(kernel) == ()
    else:
        with pytest.raises(OutOfBounds):
            checked(kernel)


def test_element_types_and_constants_bound_what_is_read() -> None:
    kernel = body("s: u8 = load q @ i0", "t: i64 = cast s", "v: f32 = load x @ t")
    assert checked(kernel, "f32[256] stride (1)") == ()
    with pytest.raises(OutOfBounds):
        checked(kernel, "f32[255] stride (1)")
    kernel = body("t: i64 = load p @ i0", "v: f32 = load x @ t")
    assert checked(kernel, p=(0, 7)) == ()
    with pytest.raises(OutOfBounds):
        checked(kernel, p=(0, 8))


def test_stores_and_inner_loops_are_checked() -> None:
    text = """kernel k0(i0: 2):
  for r0: {}:
    v: f32 = load x @ r0 + i0 * 4
    store y @ r0 + i0 * 4 = v"""
    assert checked(text.format(4)) == ()
    with pytest.raises(OutOfBounds, match="x at"):
        checked(text.format(5))
    with pytest.raises(OutOfBounds, match="y at"):
        checked(text.format(5), "f32[9] stride (1)")
    local = "kernel k0():\n  local m: f32[4]\n  store m @ {} = 1.0\n  v: f32 = load m @ 0\n  store y @ 0 = v"
    assert checked(local.format(3)) == ()
    with pytest.raises(OutOfBounds, match="m at 4"):
        checked(local.format(4))


def test_facts_about_sizes_are_used() -> None:
    kernel, x = body("v: f32 = load x @ i0"), "f32[n] stride (1)"
    with pytest.raises(OutOfBounds):
        checked(kernel, x)
    assert checked(kernel, x, (Index.of(Symbol("n")) - 8,)) == ()
    with pytest.raises(OutOfBounds):
        checked(kernel, x, (Index.of(Symbol("n")) - 7,))


def test_facts_about_steps_are_used() -> None:
    """Images of symbolic sides: the step from one to the next is not negative where a fact says so."""
    area = Index.of(Symbol("n")) * Index.of(Symbol("m")) - Index.of(Symbol("n")) * 2 - Index.of(Symbol("m")) * 2 + 4
    kernel = body("v: f32 = load x @ i0 * 4 - i0 * n * 2 + i0 * n * m - i0 * m * 2")
    x = "f32[8, n * m - n * 2 - m * 2 + 4] stride (n * m - n * 2 - m * 2 + 4, 1)"
    assert checked(kernel, x, (area - 1,)) == ()
    with pytest.raises(OutOfBounds):
        checked(kernel, x)


def test_squares_are_compared_with_what_they_are_multiples_of() -> None:
    kernel, n = "kernel k0(i0: n):\n  v: f32 = load x @ i0 + n\n  store y @ 0 = v", Index.of(Symbol("n"))
    assert checked(kernel, "f32[n, n] stride (n, 1)", (n - 2,)) == ()  # the second row
    with pytest.raises(OutOfBounds):
        checked(kernel, "f32[n, n] stride (n, 1)", (n - 1,))


def test_products_of_sizes_are_divided_by_what_they_share() -> None:
    """The rows of a batch, but for the last three of each."""
    n, m = Index.of(Symbol("n")), Index.of(Symbol("m"))
    kernel = "kernel k0(i0: n, i1: m - 3, i2: m):\n  v: f32 = load x @ i0 * m * m - i0 * m * 3 + i1 * m + i2"
    assert checked(kernel, "f32[n, m - 3, m] stride (-m * 3 + m * m, m, 1)", (n - 1, m - 4)) == ()
    with pytest.raises(OutOfBounds, match="may lie beyond"):
        checked(kernel + " + 1", "f32[n, m - 3, m] stride (-m * 3 + m * m, m, 1)", (n - 1, m - 4))


def test_products_of_sizes_are_known_by_the_least_sizes() -> None:
    """The rows but the last, and the columns but the first, of squares."""
    n, m = Index.of(Symbol("n")), Index.of(Symbol("m"))
    kernel = (
        "kernel k0(i0: n, i1: m - 1, i2: m - 1):\n  v: f32 = load x @ i0 - i0 * m * 2 + i0 * m * m - i1 + i1 * m + i2"
    )
    rows = "f32[n, m - 1, m - 1] stride (-m * 2 + m * m + 1, m - 1, 1)"
    assert checked(kernel, rows, (n - 1, m - 2)) == ()
    with pytest.raises(OutOfBounds, match="may lie beyond"):
        checked(kernel + " + 1", rows, (n - 1, m - 2))


def test_facts_about_quotients_bound_what_is_divided() -> None:
    m = Index.of(Symbol("m"))
    kernel = "kernel k0(i0: 5):\n  v: f32 = load x @ i0 * 2"
    assert checked(kernel, "f32[m] stride (1)", ((m + 1) // 2 - 5,)) == ()
    with pytest.raises(OutOfBounds, match="may lie beyond"):
        checked(kernel, "f32[m] stride (1)", ((m + 1) // 2 - 4,))


def test_offsets_with_quotients_of_quotients_are_out_of_reach() -> None:
    """Minima are no quotients."""
    found = checked(body("v: f32 = load x @ (((i0 + 3) // 4) + i0) % 9"))
    assert {each.reach for each in found} == {Reach.QUOTIENTS}
    with pytest.raises(OutOfBounds):
        checked(body("v: f32 = load x @ min(max(i0 - 1, 0), 9) + 2"))


def test_a_search_by_halves_is_out_of_reach() -> None:
    lines, low, high = ["w: f32 = load x @ i0"], "0", "256"
    for step in range(8):
        lines += [
            f"d{step}: i64 = sub({high}, {low})",
            f"h{step}: i64 = shr(d{step}, 1)",
            f"m{step}: i64 = add({low}, h{step})",
            f"o{step}: bool = lt({low}, {high})",
            f"e{step}: f32 = load x @ m{step} if o{step}",
            f"b{step}: bool = lt(e{step}, w)",
            f"n{step}: i64 = add(m{step}, 1)",
            f"a{step}: bool = and(o{step}, b{step})",
            f"k{step}: bool = not(b{step})",
            f"c{step}: bool = and(o{step}, k{step})",
            f"l{step}: i64 = where(a{step}, n{step}, {low})",
            f"u{step}: i64 = where(c{step}, m{step}, {high})",
        ]
        low, high = f"l{step}", f"u{step}"
    lines.append("v: f32 = load x @ 0")
    found = checked(body(*lines), "f32[256] stride (1)")
    assert found and {each.reach for each in found} == {Reach.CHOICES}
