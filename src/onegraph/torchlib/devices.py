"""The accelerator that this torch has, if any, and which of its devices is the current one."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

accelerator: Any = torch.accelerator


def _functions(table: dict[Any, str]) -> list[Any]:
    found = [getattr(home, name, None) for home, names in table.items() for name in names.split()]
    return [each for each in found if isinstance(each, FunctionType)]


#: What programs ask of the devices of the process.
ASKED = _functions(
    {
        torch.cuda: "is_available device_count is_initialized is_bf16_supported is_tf32_supported get_arch_list",
        torch.xpu: "is_available device_count is_initialized is_bf16_supported",
        torch.mps: "is_available device_count",
        torch.mtia: "is_available device_count is_initialized",
        accelerator: "is_available device_count current_accelerator",
    }
)
#: What they ask of one device: of the current one, if they do not say which.
ASKED_OF_ONE = _functions(
    {
        torch.cuda: "get_device_capability get_device_name get_device_properties",
        torch.xpu: "get_device_capability get_device_name get_device_properties",
    }
)
#: Which device is the current one.
INDICES = _functions(
    {
        torch.cuda: "current_device",
        torch.xpu: "current_device",
        torch.mtia: "current_device",
        accelerator: "current_device_index current_device_idx",
    }
)
#: The index of the current device. To ask begins the use of the accelerator, as making a tensor on it does.
current_index: Callable[[], int] = accelerator.current_device_index


def accelerator_kind() -> str | None:
    """The kind of device that the process has besides its processor."""
    found = accelerator.current_accelerator(check_available=True)
    return None if found is None else str(found.type)


def index_in_use() -> int | None:
    """The index of the current device; None while no accelerator is in use."""
    found = accelerator.current_accelerator()
    if found is None or not torch.get_device_module(found).is_initialized():
        return None
    return current_index()


def choose_index(index: int | None) -> None:
    """Make this the current device, if it is not."""
    if index is not None and index != index_in_use():
        accelerator.set_device_index(index)


def with_index(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], current: Callable[[], int]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a function of torch, with the number of the device where only its kind is named.

    Without it, where a tensor is made depends on the device that is the current one when the call is made.
    """
    place = _PLACES.get(func)
    if place is None and kwargs.get("device") is None:
        return args, kwargs
    kind = accelerator_kind()
    if kind is None:
        return args, kwargs

    def numbered(value: Any) -> Any:
        return torch.device(kind, current()) if _is_named(value, kind) else value

    if place is not None and len(args) > place:
        args = (*args[:place], numbered(args[place]), *args[place + 1 :])
    elif func is torch.Tensor.cuda and kwargs.get("device") is None and kind == "cuda":
        kwargs = {**kwargs, "device": torch.device(kind, current())}
    if "device" in kwargs:
        kwargs = {**kwargs, "device": numbered(kwargs["device"])}
    return args, kwargs


def _is_named(value: Any, kind: str) -> bool:
    """Whether a value names a device of this kind without its number."""
    if type(value) is str:
        return value == kind
    return isinstance(value, torch.device) and value.index is None and value.type == kind


#: Functions that take a device by its position, and which.
_PLACES: dict[Any, int] = {torch.Tensor.to: 1, torch.Tensor.cuda: 1, torch.as_tensor: 2}
