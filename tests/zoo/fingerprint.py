"""What tracing must leave alone: the module, and the state of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """`identities` holds the objects themselves: an identity is only worth something while its object lives."""

    identities: dict[str, Any]
    values: dict[str, Any]


def fingerprint(model: nn.Module) -> Fingerprint:
    identities: dict[str, Any] = {}
    values: dict[str, Any] = torch_state()
    for path, part in model.named_modules():
        for name, value in vars(part).items():
            record(f"{path}.{name}", value, identities, values)
    for name, tensor in model.state_dict(keep_vars=True).items():
        values[f"state_dict[{name}]"] = (tensor.detach().clone(), tensor._version, tensor.requires_grad)
    config = getattr(model, "config", None)
    if config is not None:
        values["config"] = config.to_dict()
    return Fingerprint(identities, values)


def record(path: str, value: Any, identities: dict[str, Any], values: dict[str, Any]) -> None:
    """An attribute: the object, and where it is a container or a tensor, what it holds."""
    identities[path] = value
    match value:
        case dict():
            values[f"keys({path})"] = [repr(key) for key in value]
            for key, item in value.items():
                record(f"{path}[{key!r}]", item, identities, values)
        case list() | tuple():
            values[f"len({path})"] = len(value)
            for index, item in enumerate(value):
                record(f"{path}[{index}]", item, identities, values)
        case Tensor():
            values[f"tensor({path})"] = (value.detach().clone(), value._version, value.requires_grad)


def torch_state() -> dict[str, Any]:
    return {
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "autocast": [(torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")],
        "autocast cache": torch.is_autocast_cache_enabled(),
        "random state": (torch.get_rng_state(), 0, False),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "function modes": _get_current_function_mode_stack(),
        "dispatch modes": _get_current_dispatch_mode_stack(),
    }


def changes(before: Fingerprint, after: Fingerprint) -> list[str]:
    """What differs, by path."""
    found = [f"{path} came or went" for path in before.identities.keys() ^ after.identities.keys()]
    for path in before.identities.keys() & after.identities.keys():
        if before.identities[path] is not after.identities[path]:
            found.append(f"{path} is another object")
    found += [f"{path} came or went" for path in before.values.keys() ^ after.values.keys()]
    for path in before.values.keys() & after.values.keys():
        if not same(before.values[path], after.values[path]):
            found.append(f"{path} has another value")
    return sorted(found)


def same(one: Any, two: Any) -> bool:
    match one, two:
        case (Tensor() as a, *rest), (Tensor() as b, *others):
            return rest == others and a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    return bool(one == two)
