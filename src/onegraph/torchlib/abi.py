"""Tensors and torch's state as Python sees them. The C extension asks this module (by the names of its functions) where
libtorch does not answer, and compares libtorch with it before it is trusted: csrc/libtorch.c, csrc/tensor_make.c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onegraph.torchlib import private
from onegraph.torchlib.histories import gradients_of
from onegraph.torchlib.private import DeviceContext, DisableTorchDispatch, DisableTorchFunction

Numbers = tuple[int | None, ...]
#: dtype, device, layout, conj, neg, requires_grad; sizes; strides, or None. None among the numbers: any.
Description = tuple[tuple[Any, ...], Numbers, Numbers | None]

# ---- tensors ----


def described(tensor: torch.Tensor) -> Description:
    """ValueError: a nested tensor, whose sizes are no numbers; one whose dimensions have names."""
    with DisableTorchFunction():
        facts = tensor.dtype, tensor.device, tensor.layout, tensor.is_conj(), tensor.is_neg(), tensor.requires_grad
        nested = tensor.is_nested or not all(type(size) is int for size in tensor.shape)
        if nested:
            raise ValueError("a tensor without sizes that are numbers (a nested tensor) cannot be described")
        if private.has_names(tensor):
            raise ValueError("a tensor whose dimensions have names cannot be described")
        return facts, tuple(tensor.shape), tensor.stride() if tensor.layout is torch.strided else None


def spec(tensor: torch.Tensor, sizes: Sequence[int | None] | None, strides: Sequence[int | None] | None) -> Description:
    """The description of a tensor with these sizes and strides in the place of its own."""
    facts, own_sizes, own_strides = described(tensor)
    return (
        facts,
        given("sizes", sizes, own_sizes),
        None if own_strides is None else given("strides", strides, own_strides),
    )


def given(name: str, numbers: Sequence[int | None] | None, own: Numbers) -> Numbers:
    if numbers is None:
        return own
    if len(numbers) != len(own):
        raise ValueError(f"{name} has {len(numbers)} entries, but the tensor has {len(own)} dimensions")
    return tuple(numbers)


def matches(wanted: Description, tensor: torch.Tensor) -> bool:
    try:
        facts, sizes, strides = described(tensor)
    except ValueError:
        return False
    return facts == wanted[0] and fits(wanted[1], sizes) and fits(wanted[2] or (), strides or ())


def fits(wanted: Numbers, found: Numbers) -> bool:
    return len(wanted) == len(found) and all(a is None or a == b for a, b in zip(wanted, found, strict=True))


def place(tensor: torch.Tensor) -> tuple[int, int, Numbers, Numbers]:
    """Its address (0: it has none), its offset in its storage, its sizes and its strides."""
    with DisableTorchFunction():
        return tensor.data_ptr(), int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride()


def range_type() -> Any:
    """What makes a range of a profile, by its name, in `with`; None if this torch has not what the launcher uses."""
    return private.RANGES.record if private.RANGES.is_there else None


# ---- the state of the thread and the process ----

QUESTIONS: dict[str, Callable[[], Any]] = {
    "grad_mode": torch.is_grad_enabled,
    "inference_mode": torch.is_inference_mode_enabled,
    "default_dtype": torch.get_default_dtype,
    "autocast_cpu": lambda: torch.is_autocast_enabled("cpu"),
    "autocast_cpu_dtype": lambda: torch.get_autocast_dtype("cpu"),
    "autocast_cuda": lambda: torch.is_autocast_enabled("cuda"),
    "autocast_cuda_dtype": lambda: torch.get_autocast_dtype("cuda"),
    "deterministic": torch.are_deterministic_algorithms_enabled,
    "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled,
    "deterministic_fill": private.deterministic_fill,
    "function_modes": private.count_function_modes,
    "torch_functions": lambda: int(private.get_torch_function_state()),
    "dispatch_modes": private.count_dispatch_modes,
    "functorch_level": private.transform_level,
    "forward_level": private.forward_level,
    "tracing": private.is_jit_tracing,
}


def state() -> dict[str, Any]:
    return {**{name: ask() for name, ask in QUESTIONS.items()}, "default_device": devices()}


def devices() -> tuple[Any, ...]:
    """What the modes of torch functions give to new tensors, outermost first: a device, or what they are."""
    modes = map(private.function_mode_at, range(private.count_function_modes()))
    return tuple(mode.device if type(mode) is DeviceContext else mode for mode in modes)


# ---- whether libtorch is as expected ----


#: How many words a TensorImpl has at least: its dispatch keys are among them.
IMPL_WORDS = 22 if torch.__version__ >= (2, 12) else 23  # type: ignore[operator]


def keys_at(
    read_tensor: Callable[[torch.Tensor, int], tuple[Any, ...]], read_state: Callable[[], tuple[Any, ...]]
) -> int:
    """Where a tensor of libtorch has its dispatch keys among its words; -1 where libtorch reads anything else wrong."""
    with DisableTorchFunction(), DisableTorchDispatch():
        tensors = (
            (torch.empty_strided((2, 3), (3, 1), dtype=torch.float32), 6),
            (torch.empty_strided((4, 5), (1, 4), dtype=torch.int64).as_strided((2, 2), (3, 1), 5), 4),
            (torch.empty((), dtype=torch.bfloat16, device="meta"), 15),
            (torch.empty((7,), dtype=torch.float64).requires_grad_(), 7),
            (torch.empty((1, 0), dtype=torch.complex64).conj(), 9),
        )
        places: set[int] | None = None
        for tensor, dtype in tensors:
            *facts, words = read_tensor(tensor, IMPL_WORDS)
            shape, strides = tuple(tensor.shape), tensor.stride()
            where = tensor.storage_offset(), tensor.data_ptr()
            if facts != [dtype, 14 * tensor.is_meta, tensor.requires_grad, *where, shape, strides]:
                return -1
            keys = private.dispatch_keys(tensor).raw_repr()
            found = {index for index, word in enumerate(words) if word == keys}
            places = found if places is None else places & found
        now = state()
        names = "grad_mode", "inference_mode", "deterministic", "deterministic_warn_only", "deterministic_fill"
        expected = *(now[name] for name in (*names, "autocast_cpu")), private.count_function_modes()
        return places.pop() if places and len(places) == 1 and read_state() == expected else -1


def names_key() -> int:
    """The dispatch key of tensors whose dimensions have names, as a bit; 0 where torch has no such tensors.

    Backward passes of torch before 2.13 exclude it, and no tensor of a graph has names.
    """
    key = private.parse_dispatch_key("Named")
    return 0 if key is None else private.DispatchKeySet(key).raw_repr()


def key_sets() -> tuple[int, int, int]:
    """The dispatch keys of autograd, those of autocast, and those that the thread excludes now."""

    def bits(names: list[str]) -> int:
        keys = (getattr(private.DispatchKey, name) for name in names)
        return sum(private.DispatchKeySet(key).raw_repr() for key in keys)

    autograd = bits(["AutogradFunctionality", "AutogradOther", "AutogradNestedTensor", "ADInplaceOrView"])
    autocast = bits([name for name in dir(private.DispatchKey) if name.startswith("Autocast")])
    return autograd, autocast, private.excluded_keys().raw_repr()


def is_below_autograd() -> bool:
    """Whether operators run below autograd and autocast."""
    with DisableTorchFunction(), DisableTorchDispatch():
        product = torch.ones(2, requires_grad=True) * 2
        written = torch.ones(2).mul_(2)
        autocast = torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
        return not product.requires_grad and written._version == 0 and not autocast


def gradients_recorded() -> bool:
    return torch.is_grad_enabled()


def is_made_right(made: torch.Tensor, view: torch.Tensor) -> bool:
    """Whether they are a tensor of size (2, 3), strides (1, 2) and type float64, and each second element from 1."""
    wanted = (torch.float64, torch.device("cpu"), torch.strided, False, False, False), (2, 3), (1, 2)
    with DisableTorchFunction(), DisableTorchDispatch():
        made.fill_(7)
        return (
            type(made) is torch.Tensor
            and described(made) == wanted
            and private.dispatch_keys(made) == private.dispatch_keys(torch.empty(1))
            and view.tolist() == [7.0, 7.0]
            and view.storage_offset() == 1
            and view.untyped_storage().data_ptr() == made.untyped_storage().data_ptr()
        )


def ordinary_keys(read_autograd: Callable[[torch.Tensor], tuple[Any, ...]]) -> int:
    """The dispatch keys of an ordinary tensor; 0 where libtorch reads anything of autograd wrong."""

    def is_right() -> bool:
        hooks = private.top_saved_tensors_hooks(True) is not None
        state = private.count_dispatch_modes(), hooks, torch.is_anomaly_enabled(), private.is_graph_kept()
        return read_autograd(tensor) == (tensor._version, *state)

    with DisableTorchFunction(), DisableTorchDispatch(), torch.enable_grad():
        tensor = torch.zeros(2).add_(1).add_(1).requires_grad_()
        right = [is_right()]
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t), private.TorchDispatchMode():
            with torch.autograd.set_detect_anomaly(True):
                right.append(is_right())
        product = tensor * 2
        product.register_hook(lambda _: right.append(is_right()))
        gradients_of([product], [tensor], [torch.ones(2)], keep=False)
        return private.dispatch_keys(tensor).raw_repr() if right == [True] * 3 else 0
