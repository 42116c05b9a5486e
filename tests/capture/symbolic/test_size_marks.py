"""Sizes that a program has marked as changing, or as constants."""

from __future__ import annotations

import pytest
import torch

import onegraph


def counted(function, **settings):
    """The function compiled, and the graphs that it was compiled to."""
    made = []

    def backend(module, examples):
        made.append(module)
        return module

    return onegraph.compile(function, backend=backend, **settings), made


def rows(n: int) -> torch.Tensor:
    return torch.rand(n, 3)


def test_a_marked_size_is_symbolic_from_the_first_call() -> None:
    compiled, made = counted(lambda x: x.sin() * x.shape[0])
    first = rows(4)
    onegraph.mark_dynamic(first, 0)
    for x in (first, rows(5), rows(6)):
        torch.testing.assert_close(compiled(x), x.sin() * len(x))
    assert len(made) == 1
    compiled(torch.rand(4, 2))
    assert len(made) == 2  # the other size is one as ever


@pytest.mark.parametrize("dynamic", [None, False])
@pytest.mark.parametrize("mark", [onegraph.mark_dynamic, onegraph.mark_unbacked, onegraph.maybe_mark_dynamic])
def test_marks_count_whatever_compile_was_told(mark, dynamic) -> None:
    compiled, made = counted(lambda x: x + 1, dynamic=dynamic)
    first = rows(4)
    mark(first, [0, -1])
    for x in (first, torch.rand(5, 2), rows(6)):
        torch.testing.assert_close(compiled(x), x + 1)
    assert len(made) == 1


def test_marks_of_torch_count() -> None:
    import torch._dynamo

    compiled, made = counted(lambda x: x + 1)
    first = rows(4)
    torch._dynamo.mark_dynamic(first, 0, min=2, max=8)
    compiled(first)
    compiled(rows(5))
    assert len(made) == 1


def test_a_size_within_bounds() -> None:
    compiled, made = counted(lambda x: x + 1 if x.shape[0] < 100 else x - 1)
    first = rows(4)
    onegraph.mark_dynamic(first, 0, min=3, max=8)
    compiled(first)
    compiled(rows(8))
    assert len(made) == 1
    compiled(rows(9))  # is not marked
    assert len(made) == 2


def test_a_size_outside_of_its_bounds() -> None:
    x = rows(4)
    with pytest.raises(onegraph.InvalidArgument, match="dimension 0 has size 4, which is not from 5 to 8"):
        onegraph.mark_dynamic(x, 0, min=5, max=8)
    onegraph.mark_dynamic(x, 0, min=3, max=8)
    x.resize_(9, 3)
    with pytest.raises(onegraph.ConstraintViolationError, match=r"size\(0\) is 9, and was marked to be from 3 to 8"):
        onegraph.compile(lambda x: x + 1)(x)


def test_a_program_that_needs_a_constant() -> None:
    def f(x):
        return x + 1 if x.shape[0] == 4 else x - 1

    x = rows(4)
    onegraph.maybe_mark_dynamic(x, 0)
    torch.testing.assert_close(onegraph.compile(f)(x), x + 1)
    onegraph.mark_dynamic(x, 0)
    with pytest.raises(onegraph.ConstraintViolationError, match=r"was marked as dynamic, .*to be 4 \(it holds"):
        onegraph.compile(f)(x)


def test_a_size_that_is_a_constant() -> None:
    compiled, made = counted(lambda x, y: (x + 1, y + 1), dynamic=True)
    for n in (4, 5):
        x, y = rows(n), rows(7 * n)
        onegraph.mark_static(x, 0)
        onegraph.mark_static(y)
        compiled(x, y)
    assert len(made) == 2


def test_the_last_mark_counts() -> None:
    compiled, made = counted(lambda x: x + 1)
    for n in (4, 5):
        x = rows(n)
        onegraph.mark_dynamic(x, 0)
        onegraph.mark_static(x, 0)
        compiled(x)
    assert len(made) == 2
    onegraph.mark_dynamic(x, 0)
    onegraph.reset()
    compiled(x)
    compiled(rows(9))
    assert len(made) == 3


def test_the_last_bounds_count() -> None:
    x = rows(4)
    onegraph.mark_dynamic(x, 0, min=2, max=5)
    onegraph.mark_dynamic(x, 0, min=3, max=9)
    x.resize_(8, 3).fill_(1)
    torch.testing.assert_close(onegraph.compile(lambda x: x + 1)(x), x + 1)
    onegraph.mark_dynamic(x, 0)
    x.resize_(20, 3).fill_(1)
    torch.testing.assert_close(onegraph.compile(lambda x: x + 1)(x), x + 1)


def test_what_was_a_constant_may_change_again() -> None:
    compiled, made = counted(lambda x: x + 1)
    x = rows(4)
    onegraph.mark_static(x)
    onegraph.maybe_mark_dynamic(x, 0)
    compiled(x)
    compiled(rows(5))
    assert len(made) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: onegraph.mark_dynamic(3, 0), "mark_dynamic expects a tensor, got int"),
        (lambda x: onegraph.mark_dynamic(x, 2), "mark_dynamic expects dimensions of a tensor of 2 dimensions, got 2"),
        (lambda x: onegraph.maybe_mark_dynamic(x, [0, -3]), "maybe_mark_dynamic expects dimensions"),
        (lambda x: onegraph.mark_static(x, "rows"), "mark_static expects dimensions"),
        (lambda x: onegraph.mark_dynamic(x, 0, min=-1), "mark_dynamic expects bounds of 0 or more, got -1"),
        (lambda x: onegraph.mark_static_address(None), "mark_static_address expects a tensor"),
    ],
)
def test_wrong_marks_are_refused(wrong, message: str) -> None:
    with pytest.raises(onegraph.InvalidArgument, match=message):
        wrong(rows(4))


def test_marks_are_made_outside_of_compiled_code() -> None:
    with pytest.raises(onegraph.ForbiddenCallError, match="mark_dynamic"):
        onegraph.compile(lambda x: onegraph.mark_dynamic(x, 0))(rows(4))
