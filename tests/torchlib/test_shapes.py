from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from onegraph.torchlib.composites import call_composite
from onegraph.torchlib.fake import FakeMode
from onegraph.torchlib.shapes import Sizes


def texts(sizes: Sizes) -> list[str]:
    return [str(condition) for condition in sizes.guards]


def text(size: Any) -> str:
    """Symbolic numbers as expressions: their own text is that of the number that they are in the trace."""
    if isinstance(size, tuple):
        return f"({', '.join(map(text, size))})"
    return str(size.node if isinstance(size, torch.SymInt) else size)


def test_arithmetic_is_that_of_integers() -> None:
    sizes = Sizes()
    a, b = sizes.new(6, "a"), sizes.new(4, "b")
    for value, expected in [
        (a + b * 2 - 1, 13),
        (a * b // 4, 6),
        (a % 4, 2),
        (-a, -6),
        (torch.sym_max(a, b), 6),
        (torch.sym_min(a, b), 4),
        (a**2, 36),
        (2 + a, 8),
        (13 - a, 7),
    ]:
        assert sizes.value(value.node.value) == expected
    assert texts(sizes) == []


def test_division_gives_a_float() -> None:
    sizes = Sizes()
    a = sizes.new(16, "a")
    for value, expected in [(a / 2, 8.0), (a**-0.5, 0.25), (1 / torch.sym_sqrt(a), 0.25), (a * 0.5, 8.0)]:
        assert isinstance(value, torch.SymFloat)
        assert sizes.value(value.node.value) == expected
    assert texts(sizes) == []


def test_rounding_gives_an_integer() -> None:
    sizes, facts = Sizes(), []
    sizes.note = facts.append
    a = sizes.new(16, "a")
    floor = math.floor(a * 0.3)
    assert isinstance(floor, torch.SymInt) and sizes.value(floor.node.value) == 4
    assert floor * 2 < a and floor + 1 == 5
    text = "floor((sym_float(a) * 0.3))"
    said = [fact.text({symbol: str(symbol) for symbol in fact.symbols}) for fact in facts]
    assert said == [f"type({text}) is int", f"(({text} * 2) < a)", f"(({text} + 1) == 5)"]
    assert str(floor.node.index) == "c0 - 2"  # where a size is wanted, it is a symbol, known not to be negative
    assert floor >= 0 and floor < a and len(facts) == 3
    assert texts(sizes) == ["0 <= c0 - 2", "c0 - 2 < 2147483648", "c0 - 2 < a"]


def test_what_holds_for_every_size_needs_no_guard() -> None:
    sizes = Sizes()
    a, b = sizes.new(4, "a"), sizes.new(5, "b")
    assert a >= 2 and a * b > 3 and a + 1 != 1 and not a < 2 and a * 2 == a + a and a != 0
    assert bool(torch.sym_max(a, 1) == a)
    assert texts(sizes) == []


def test_what_does_not_is_guarded_once() -> None:
    sizes = Sizes()
    a = sizes.new(4, "a")
    assert a > 3 and a > 3 and not a <= 3 and a < 100
    assert texts(sizes) == ["3 < a", "a < 100"]


def test_equal_sizes_become_one() -> None:
    sizes = Sizes()
    a, b = sizes.new(4, "a"), sizes.new(4, "b")
    assert a == b
    assert str((b + 1).node) == "a + 1" and (b * 2 == a + a)
    assert texts(sizes) == ["a == b"] or texts(sizes) == ["b == a"]


def test_needing_the_number_specializes() -> None:
    sizes = Sizes()
    a = sizes.new(4, "a")
    assert list(range(a)) == [0, 1, 2, 3]
    assert texts(sizes) == ["a == 4"]
    assert type(a + 1) is int and a + 1 == 5


def test_zero_and_one_stay_numbers() -> None:
    for hint in (0, 1):
        with pytest.raises(ValueError):
            Sizes().new(hint, "a")


def test_fakes_with_symbolic_sizes() -> None:
    mode = FakeMode()
    a, b, c = mode.sizes.new(4, "a"), mode.sizes.new(8, "b"), mode.sizes.new(8, "c")
    x = mode.fakeify(torch.randn(4, 8, 16), {0: a, 1: b})
    y = mode.fakeify(torch.randn(8, 16), {0: c})
    assert text(x.stride()) == "(b * 16, 16, 1)"
    with mode:
        z = call_composite(mode, torch.matmul, F.layer_norm(F.softmax(x + y, -1), (16,)), torch.ones(16, 4))
        assert text(z.shape) == "(a, b, 4)"
        assert text(z.view(-1, 4).shape[0]) in ("a * b", "b * a")
        assert text(torch.cat([x, x], 1).shape[1]) == "b * 2"
        assert text(x[:, 1:].shape[1]) == "b - 1"
        assert text(torch.arange(y.shape[0]).shape[0]) == "b"
    assert texts(mode.sizes) == ["b == c"]


def test_symbolic_inputs_share_storage_as_their_tensors_do() -> None:
    mode = FakeMode()
    real = torch.randn(6)
    a, b, c = mode.sizes.new(6, "a"), mode.sizes.new(5, "b"), mode.sizes.new(6, "c")
    x, y, z = mode.fakeify(real, {0: a}), mode.fakeify(real[1:], {0: b}), mode.fakeify(torch.randn(6), {0: c})
    storage = x.untyped_storage()._cdata
    assert y.untyped_storage()._cdata == storage != z.untyped_storage()._cdata
    assert (text(y.shape), y.storage_offset()) == ("(b)", 1)
    assert texts(mode.sizes) == ["b * 4 + 4 <= a * 4"]
    with mode, pytest.raises(RuntimeError, match="shares memory"):
        x.copy_(y[0].expand(6)).add_(x[0])


def test_transposed_symbolic_inputs_keep_their_order() -> None:
    mode = FakeMode()
    a, b = mode.sizes.new(3, "a"), mode.sizes.new(5, "b")
    x = mode.fakeify(torch.randn(5, 3).t(), {0: a, 1: b})
    assert text(x.stride()) == "(1, a)"
    assert not x.is_contiguous() and x.t().is_contiguous()


def test_text_is_that_of_the_number() -> None:
    sizes = Sizes()
    a = sizes.new(4, "a")
    assert str(a) == repr(a) == "4" and f"{[a]}" == "[4]" and texts(sizes) == ["a == 4"]


def test_symbolic_inputs_without_elements() -> None:
    mode = FakeMode()
    a = mode.sizes.new(5, "a")
    x = mode.fakeify(torch.randn(0, 5, 0), {1: a})
    with mode:
        assert text((x + 1).shape) == "(0, a, 0)"
    assert texts(mode.sizes) == []
