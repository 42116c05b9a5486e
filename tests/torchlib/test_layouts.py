"""Fakes have eager's strides where the meta kernels of torch have others: images in every order of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

from onegraph.torchlib.fake import FakeMode
from onegraph.torchlib.layouts import RULES
from onegraph.torchlib.quick_meta import is_elementwise

aten = torch.ops.aten


def last(*shape: int) -> Tensor:
    return torch.randn(shape).contiguous(memory_format=torch.channels_last)


IMAGES = {
    "contiguous": torch.randn(2, 4, 4, 5),
    "channels last": last(2, 4, 4, 5),
    "one channel": last(2, 1, 4, 5),
    "one image": last(1, 4, 4, 5),
    "one pixel": last(2, 4, 1, 1),
    "some channels": last(2, 8, 4, 5)[:, :4],
    "every second row": last(2, 4, 8, 5)[:, :, ::2],
    "another order": torch.randn(5, 2, 4, 4).permute(1, 3, 2, 0),
    "one image, transposed": torch.randn(1, 4, 5, 4).permute(0, 3, 1, 2),
    "expanded": torch.randn(2, 4, 1, 1).expand(2, 4, 4, 5),
}
PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "roll": lambda x: [torch.roll(x, n, d) for n in (0, 1, -2) for d in range(4)],
    "roll of two dimensions": lambda x: (
        torch.roll(x, (1, 1), (1, 2)),
        torch.roll(x, (2, 0), (0, 3)),
        torch.roll(x, 3),
    ),
    "cat": lambda x: (torch.cat([x, x]), torch.cat([x, x], 1), torch.cat([x.contiguous(), x], 1)),
    "batch norm": lambda x: F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])),
    "batch norm in training": lambda x: F.batch_norm(x, None, None, training=True),
    "replicated": lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"),
    "reflected": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect") if x.shape[-1] > 1 else x,
    "rrelu": lambda x: (F.rrelu(x), F.rrelu(x, training=True)),
    "logsigmoid": F.logsigmoid,
    "poisson": lambda x: torch.poisson(x.abs()),
    "isin": lambda x: (torch.isin(x, x), torch.isin(x, 1.0)),
    "index_fill": lambda x: x.index_fill(1, torch.zeros(1, dtype=torch.long), 1.0),
    "roll of a result": lambda x: [torch.roll(f(x), 1, 3) for f in (torch.neg, torch.tanh, lambda x: x * 2)],
    "cat of results": lambda x: torch.cat([-x, x.abs()], 3),
    "cat of results with numbers": lambda x: [
        torch.cat([y, y], 3) for y in (x > 0, x.remainder(2), x / 3, torch.ones_like(x), F.hardtanh(x), x.deg2rad())
    ],
    "pixel_shuffle": lambda x: F.pixel_shuffle(torch.cat([x] * 4, 1), 2),
    "channel_shuffle": lambda x: F.channel_shuffle(torch.cat([x, x], 1), 2),
}


def described(x: Tensor) -> Any:
    return x.shape, x.dtype, [stride for stride, n in zip(x.stride(), x.shape, strict=True) if n > 1]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("image", IMAGES)
def test_fakes_of_images(image: str, program: str) -> None:
    x, mode = IMAGES[image], FakeMode()
    with torch.no_grad(), mode:
        fakes = PROGRAMS[program](mode.fakeify(x))
    assert list(map(described, tree_leaves(fakes))) == list(map(described, tree_leaves(PROGRAMS[program](x))))


@pytest.mark.parametrize("program", ["roll of a result", "cat of results", "cat of results with numbers"])
def test_strides_of_size_one_count(program: str) -> None:
    """Of one image, the first stride says nothing, and yet decides in which order results are laid out."""
    x, mode = torch.empty_strided((1, 17, 16, 8), (136, 1, 136, 17)).normal_(), FakeMode()
    with mode:
        fakes = PROGRAMS[program](mode.fakeify(x))
    assert list(map(described, tree_leaves(fakes))) == list(map(described, tree_leaves(PROGRAMS[program](x))))


def elementwise_calls(x: Tensor) -> Iterator[tuple[OpOverload, list[Any]]]:
    """Every element-wise operator on the tensor alone, and with a number in the place of the last tensor."""
    # The dispatcher knows all of them; `dir(torch.ops.aten)` only those that were asked for before.
    names = {name.removeprefix("aten::").partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    for packet in [getattr(torch.ops.aten, name) for name in sorted(names) if hasattr(torch.ops.aten, name)]:
        for func in [getattr(packet, overload) for overload in packet.overloads()]:
            if not is_elementwise(func):
                continue
            arguments = [a for a in func._schema.arguments if not a.kwarg_only and a.default_value is None]
            given = [x if "Tensor" in str(a.type) else 1.0 if str(a.type) == "float" else 1 for a in arguments]
            yield func, given
            if sum(value is x for value in given) > 1 and given[-1] is x:
                yield func, [*given[:-1], 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64], ids=str)
def test_elementwise_operators_of_one_image(dtype: torch.dtype) -> None:
    x = torch.empty_strided((1, 3, 8, 4), (1, 1, 12, 3)).uniform_(0.05, 0.95)
    x = x if dtype is torch.float32 else (x * 5 + 1).to(dtype)
    assert x.stride() == (1, 1, 12, 3)
    mode, wrong, count = FakeMode(), [], 0
    fake = mode.fakeify(x)
    for func, given in elementwise_calls(x):
        try:
            expected = func(*given)
        except (RuntimeError, TypeError):  # not for this type
            continue
        with mode:
            found = func(*[fake if value is x else value for value in given])
        count += 1
        if (found.stride(), found.dtype) != (expected.stride(), expected.dtype):
            wrong.append((str(func), expected.stride(), found.stride()))
    assert not wrong
    assert count > 60


def in_memory_reversed(*shape: int) -> torch.Tensor:
    return torch.randn(*shape[::-1]).permute(*range(len(shape))[::-1])


def backward_calls() -> Iterator[tuple[OpOverload, tuple[Any, ...]]]:
    """Operators of backward passes, with arguments that lie in memory in several ways."""
    for make in (torch.randn, in_memory_reversed):
        gradient, x, weight = make(2, 3, 4), make(2, 3, 4), torch.randn(4)
        _, mean, scale = aten.native_layer_norm(x, [4], weight, weight, 1e-5)
        for wanted in ([True] * 3, [False, True, True], [True, False, False]):
            arguments = (gradient, x, [4], mean, scale, weight, weight, wanted)
            yield aten.native_layer_norm_backward.default, arguments
        yield aten._softmax_backward_data.default, (gradient, x, -1, torch.float32)
        yield aten._log_softmax_backward_data.default, (gradient, x, 1, torch.float32)
        yield aten.select_backward.default, (make(2, 4), [2, 3, 4], -2, -1)
        for reduction in (0, 1, 2):
            scores, target = make(5, 7), torch.randint(7, (5,))
            losses, total = aten.nll_loss_forward(scores, target, None, reduction, -100)
            given = torch.ones_like(losses)
            yield aten.nll_loss_backward.default, (given, scores, target, None, reduction, -100, total)


def test_results_of_backward_operators() -> None:
    for op, args in backward_calls():
        found, layouts = op(*args), RULES[op](*args)
        pairs = zip(found, layouts, strict=True) if isinstance(found, tuple) else [(found, layouts)]
        for result, layout in pairs:
            if result is None or layout is None:
                assert result is layout
            else:
                assert (*map(tuple, layout[:2]), layout[2]) == (tuple(result.shape), result.stride(), result.dtype), op


def test_backward_operators_without_a_rule_for_their_arguments() -> None:
    x, weight = torch.randn(2, 4), torch.randn(4)
    _, mean, scale = aten.native_layer_norm(x, [4], weight, None, 1e-5)
    normalized = RULES[aten.native_layer_norm_backward.default]
    assert normalized(x.double(), x, [4], mean, scale, weight, None, [True, True, False]) is None
    assert normalized(x, x, [4], mean, scale, weight, None, [True, True, True]) is None
    assert RULES[aten.select_backward.default](torch.randn(2), [2, 3], 1, 3) is None
    assert RULES[aten._softmax_backward_data.default](x, x, 5, torch.float32) is None
