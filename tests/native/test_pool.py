"""Large memory that calls have made and nobody knows any more serves what is allocated next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from native.planning import alloc, both, plan_of
from torch import Tensor

import onegraph
from onegraph import _C
from onegraph.ir.plan import ExecPlan, Free, Launch, Pointer, Return, Slot, ViewOf
from onegraph.ir.types import F32

FEW, SIZE = 4, 1 << 20
BYTES = 4 * SIZE


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    _C.release_memory()
    yield
    _C.release_memory()


def through(size: int, ours: bool = True) -> ExecPlan:
    """A plan that computes the first elements of its result by way of a tensor of this size."""
    return plan_of(
        alloc(1, F32, (size,), (1,)),
        ViewOf(3, 1, (FEW,), (1,), 0),
        Launch(0, (Pointer(0), Pointer(1)), (FEW,)),
        alloc(2, F32, (size,), (1,)),
        Launch(0, (Pointer(3), Pointer(2)), (FEW,)),
        Free((1, 3), ours=ours),
        Return((Slot(2), Slot(0))),
    )


def test_memory_waits_for_the_next_call_and_results_do_not() -> None:
    run = both(through(SIZE))[0]
    x = torch.arange(float(SIZE))
    results: list[Tensor] = []
    for _ in range(4):
        result, _ = run(x)
        assert result._version == 0 and result.untyped_storage().nbytes() == BYTES
        results.append(result)
    assert len({result.data_ptr() for result in results}) == 4
    assert all(torch.equal(result[:FEW], x[:FEW] + 2) for result in results)
    assert _C.release_memory() == BYTES
    assert _C.release_memory() == 0


def test_what_others_know_or_is_small_does_not_wait() -> None:
    both(through(SIZE, ours=False))[0](torch.randn(SIZE))
    both(through(1000))[0](torch.randn(1000))
    assert _C.release_memory() == 0


def test_no_more_waits_than_a_call_has_asked_for() -> None:
    for size in (SIZE, SIZE + 8, SIZE + 16, SIZE + 24, SIZE + 32):
        both(through(size))[0](torch.randn(size))
    assert 0 < _C.release_memory() <= 2 * (BYTES + 128)


def test_another_layout_of_as_many_elements_takes_it() -> None:
    both(through(SIZE))[0](torch.randn(SIZE))
    plan = plan_of(
        alloc(1, F32, (1024, SIZE // 1024), (1, 1024)),
        Launch(0, (Pointer(0), Pointer(1)), (FEW,)),
        Return((Slot(1), None)),
    )
    x = torch.randn(SIZE)
    result, _ = both(plan)[0](x)
    assert torch.equal(result[:FEW, 0], x[:FEW] + 1) and result.stride() == (1, 1024)
    assert _C.release_memory() == 0


def test_steps_of_training_keep_their_memory_and_reset_gives_it_back() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024))
    twin = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024))
    twin.load_state_dict(model.state_dict())

    def step_of(model: torch.nn.Module):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Tensor) -> Tensor:
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return step

    ours = onegraph.compile(
        step_of(model), options={"verify": False, "check_unchanged": False, "library_calls": "aten"}
    )
    theirs = step_of(twin)
    for _ in range(4):
        x = torch.randn(64, 1024)
        torch.testing.assert_close(ours(x), theirs(x))
    for left, right in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(left, right)
    assert _C.release_memory() > 0
    ours(x)
    onegraph.reset()
    assert _C.release_memory() == 0


@pytest.mark.parametrize(("for_good", "waiting"), [(False, 8 * BYTES), (True, 0)])
def test_a_large_workspace_waits_unless_it_is_released(for_good: bool, waiting: int) -> None:
    plan = plan_of(
        alloc(1, F32, (8 * SIZE,), (1,), workspace=True),
        Launch(0, (Pointer(0), Pointer(1)), (FEW,)),
        alloc(2, F32, (FEW,), (1,)),
        Launch(0, (Pointer(1), Pointer(2)), (FEW,)),
        Free((1,), for_good=for_good),
        Return((Slot(2), None)),
    )
    x = torch.randn(FEW)
    result, _ = both(plan)[0](x)
    assert torch.equal(result, x + 2)
    assert _C.release_memory() == waiting
