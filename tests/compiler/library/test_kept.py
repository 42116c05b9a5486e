"""Values made of parameters: never stale, shared, counted, and released."""

from __future__ import annotations

import gc
import threading

import pytest
import torch
from torch import Tensor, nn

import onegraph
from onegraph import _C
from onegraph.compiler.library.recipe import Check, Recipe, keeping, kept_bytes


def doubled(weight: Tensor, other: Tensor | None) -> Tensor:
    return weight * 2 if other is None else weight * 2 + other


RECIPE = Recipe(doubled, (), (4, 4))

by_contents = pytest.mark.parametrize("check", ["digest", "watch"])


@by_contents
@pytest.mark.parametrize("size", [0, 1, 7, 127, 128, 129, 1000, 100_000])
def test_every_change_of_one_element_is_seen(size: int, check: Check) -> None:
    keep = keeping(RECIPE, check)
    weight = torch.arange(float(size))
    first = keep(weight, None)
    assert keep(weight, None) is first
    for place in {0, size // 3, size - 1} if size else ():
        weight.data[place] += 1
        assert torch.equal(keep(weight, None), weight * 2)
    assert keep(weight, None) is keep(weight, None)


@by_contents
def test_writes_that_bump_no_version_are_seen(check: Check) -> None:
    keep = keeping(RECIPE, check)
    weight = nn.Parameter(torch.ones(100))
    keep(weight, None)
    weight.data.mul_(3)
    assert torch.equal(keep(weight, None), torch.full((100,), 6.0))
    weight.detach().numpy()[5] = 9
    assert keep(weight, None)[5] == 18
    weight.data = torch.zeros(100)
    assert keep(weight, None).sum() == 0


def test_trusting_compares_identity_memory_and_version() -> None:
    keep = keeping(RECIPE, "version")
    weight = nn.Parameter(torch.ones(100))
    first = keep(weight, None)
    assert keep(weight, None) is first
    with torch.no_grad():
        weight.add_(1)
    assert keep(weight, None)[0] == 4
    weight.data = torch.zeros(100)
    assert keep(weight, None)[0] == 0
    assert keep(nn.Parameter(torch.full((100,), 5.0)), None)[0] == 10


def test_tensors_without_a_version_are_checked_by_their_contents() -> None:
    with torch.inference_mode():
        weight = torch.ones(100)
        keep = keeping(RECIPE, "version")
        keep(weight, None)
        weight.add_(1)
        assert keep(weight, None)[0] == 4


@pytest.mark.parametrize("check", ["digest", "watch", "version"])
def test_what_is_made_of_several_weights_in_turn_is_kept(check: Check) -> None:
    calls: list[float] = []

    def counted(weight: Tensor) -> Tensor:
        calls.append(weight[0].item())
        return weight.detach() * 2

    keep = _C.KeptForEach(lambda _, weight: counted(weight), (4,), check)
    weights = [nn.Parameter(torch.full((100,), float(number))) for number in range(12)]
    for _ in range(3):
        for number, weight in enumerate(weights):
            assert keep(weight)[0] == 2 * number
    assert calls == [*range(12)] and len(keep.all) == 12
    with torch.no_grad():
        weights[3].add_(100)
    assert keep(weights[3])[0] == 206 and len(calls) == 13
    del weight, weights[5]
    gc.collect()
    assert sum(each.value is None for each in keep.all) == 1
    assert keep(nn.Parameter(torch.full((100,), 50.0)))[0] == 100 and len(keep.all) == 12


def test_thousands_of_weights_take_turns() -> None:
    keep = _C.KeptForEach(lambda _, weight: weight * 2, (4,), "version")
    weights = [torch.full((1,), float(number)) for number in range(3000)]
    for _ in range(2):
        assert all(keep(weight) == 2 * number for number, weight in enumerate(weights))
    assert len(keep.all) == 1024


def test_one_for_each_checks_what_it_is_given() -> None:
    keep = _C.KeptForEach(lambda _, weight: weight * 2, (4,), "digest")
    for wrong in ((), (torch.ones(1), torch.ones(1)), (3,)):
        with pytest.raises(TypeError, match="expected"):
            keep(*wrong)
    with pytest.raises(ValueError, match="check is"):
        _C.KeptForEach(len, (4,), "never")  # type: ignore[arg-type]


@by_contents
def test_none_and_a_tensor_are_different(check: Check) -> None:
    keep = keeping(RECIPE, check)
    weight, other = torch.ones(10), torch.ones(10)
    assert keep(weight, None)[0] == 2
    assert keep(weight, other)[0] == 3
    assert keep(weight, None)[0] == 2


@by_contents
def test_equal_contents_share_what_was_made(check: Check) -> None:
    weight = torch.randn(50)
    a, b = keeping(RECIPE, check), keeping(RECIPE, check)
    assert a(weight, None) is b(weight.clone(), None)


@by_contents
def test_what_was_made_of_a_tensor_dies_with_it(check: Check) -> None:
    keep = keeping(RECIPE, check)
    weight = torch.randn(1000)
    gc.collect()
    before = kept_bytes()
    keep(weight, None)
    assert kept_bytes() == before + 4000
    del weight
    gc.collect()
    assert all(each.value is None for each in keep.all) and kept_bytes() == before


def test_an_error_of_the_recipe_is_raised_and_nothing_is_kept() -> None:
    keep = _C.Kept(lambda digests, tensor: 1 / 0, (4,), "digest")
    weight = torch.ones(3)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            keep(weight)
    with pytest.raises(TypeError):
        keep(3)
    with pytest.raises(TypeError):
        keep(weight, weight)
    with pytest.raises(ValueError, match="'digest', 'watch' or 'version', not 'never'"):
        _C.Kept(doubled, (4,), "never")  # type: ignore[arg-type]


@by_contents
def test_threads_that_change_and_use_a_weight_end_with_the_last_value(check: Check) -> None:
    keep = keeping(RECIPE, check)
    weight = torch.zeros(200_000)

    def work() -> None:
        for _ in range(20):
            weight.data.add_(1)
            keep(weight, None)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(keep(weight, None), weight * 2)


@pytest.mark.parametrize("checked", ["freeze_parameters", "watch_parameters", "neither"])
def test_a_compiled_model_follows_its_parameters(checked: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 36, 160)).eval()
    x = torch.randn(2, 3, 8, 8)
    options = {option: option == checked for option in ("freeze_parameters", "watch_parameters")}
    compiled = onegraph.compile(model, options={"library_calls": "packed"} | options)

    def agrees() -> None:
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)

    agrees()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(x).square().sum().backward()
    optimizer.step()
    agrees()
    model.load_state_dict(
        {name: torch.rand_like(value) for name, value in model.state_dict().items() if value.dim()}, False
    )
    agrees()
    model[0].weight.data = torch.randn(8, 3, 3, 3)
    agrees()
    model[3].weight = nn.Parameter(torch.randn(160, 8 * 36))
    agrees()
    model[1].running_var.mul_(3)
    agrees()
    if checked != "freeze_parameters":
        model[0].weight.data.mul_(2)
        model[1].running_mean.numpy()[1] = 3
        model[3].weight.data.zero_()
        agrees()
    onegraph.reset()


def test_packed_weights_are_released_with_the_model() -> None:
    gc.collect()
    before = kept_bytes()
    model = nn.Linear(64, 64)
    compiled = onegraph.compile(model, options={"library_calls": "packed"})
    with torch.no_grad():
        compiled(torch.randn(8, 64))
    assert kept_bytes() == before + 64 * 64 * 4
    del model, compiled
    gc.collect()
    assert kept_bytes() == before


@pytest.mark.parametrize(
    ("training", "trained", "packed"), [(True, True, False), (True, False, True), (False, True, True)]
)
def test_where_gradients_are_recorded_weights_are_packed_that_no_step_changes(
    training: bool, trained: bool, packed: bool
) -> None:
    gc.collect()
    before = kept_bytes()
    model = nn.Linear(64, 64).train(training)
    model.weight.requires_grad_(trained)
    compiled = onegraph.compile(model, options={"library_calls": "packed"})
    x = torch.randn(8, 64, requires_grad=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), model(x))
        compiled(x).sum().backward()
        with torch.no_grad():
            model.weight += 1
    assert (kept_bytes() > before) is packed


def test_a_weight_that_is_a_variable_is_trained() -> None:
    gc.collect()
    before = kept_bytes()
    weight = nn.Parameter(torch.randn(64, 64))
    compiled = onegraph.compile(lambda x: x @ weight, options={"library_calls": "packed"})
    compiled(torch.randn(8, 64))
    assert kept_bytes() == before
