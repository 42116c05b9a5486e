"""Settings of torch that compiled code may change: how each is chosen and asked for.

A graph chooses them where the program does, and puts back at its end what was chosen before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.torchlib import private
from onegraph.torchlib.attention import ATTENTION_CHOICES
from onegraph.torchlib.private import feature


@dataclass(frozen=True, slots=True)
class Setting:
    """What `choose(*about, value)` sets, and `ask(*about)` tells.

    Fields:
        when_run: whether operators ask for it when they run, so that it has to be chosen then too.
        compared: whether calls of compiled code compare it, so that nobody has to guard what is told.
    """

    choose: Callable[..., Any]
    ask: Callable[..., Any]
    about: tuple[Any, ...] = ()
    when_run: bool = False
    compared: bool = False

    def value(self) -> Any:
        return self.ask(*self.about)

    def put(self, value: Any) -> None:
        self.choose(*self.about, value)


_WITHOUT = "compiled code does not choose it"
#: Those that a native function sets and another one tells, which kernels ask for when they run.
_OF_KERNELS = """float32_matmul_precision cudnn_enabled cudnn_allow_tf32 cudnn_benchmark cudnn_deterministic
mkldnn_enabled mkldnn_deterministic onednn_allow_tf32 nnpack_enabled cublas_allow_tf32
cpu_allow_fp16_reduced_precision_reduction math_sdp_allow_fp16_bf16_reduction""".split()
_PAIRS = [
    feature(_WITHOUT, set=f"torch._C._set_{name}", get=f"torch._C._get_{name}")
    for name in (*_OF_KERNELS, "deterministic_fill_uninitialized_memory")
]


def set_deterministic(chosen: tuple[bool, bool]) -> None:
    """Whether algorithms are to be deterministic, and whether operators that are not only warn."""
    private.set_deterministic(chosen[0], warn_only=chosen[1])


def is_deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


DEFAULT_DTYPE = Setting(torch.set_default_dtype, torch.get_default_dtype, when_run=True, compared=True)
DETERMINISTIC = Setting(set_deterministic, is_deterministic, when_run=True, compared=True)
#: By the native function that sets it: those of one value.
PLAIN_SETTINGS: dict[Callable[..., Any], Setting] = {
    **{choose: Setting(choose, ask) for choose, ask in ATTENTION_CHOICES.items()},
    **{pair.set: Setting(pair.set, pair.get, when_run=True) for pair in _PAIRS if pair.is_there},
    private.set_default_dtype: DEFAULT_DTYPE,
    torch.set_autocast_cache_enabled: Setting(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled),
}


def autocast_setting(device: str) -> Setting:
    """Whether operators on a kind of device are cast."""
    return Setting(torch.set_autocast_enabled, torch.is_autocast_enabled, (device,), compared=True)


def autocast_dtype_setting(device: str) -> Setting:
    """What they are cast to."""
    return Setting(torch.set_autocast_dtype, torch.get_autocast_dtype, (device,), compared=True)


_FLOATS = feature(_WITHOUT, set="torch._C._set_fp32_precision_setter", get="torch._C._get_fp32_precision_getter")
choose_precision, tell_precision = _FLOATS.set, _FLOATS.get


def precision_setting(backend: str, operators: str) -> Setting:
    """In which precision a library computes with numbers of 32 bits."""
    return Setting(choose_precision, tell_precision, (backend, operators), when_run=True)


_OF_DEVICES = {torch.set_autocast_enabled: autocast_setting, torch.set_autocast_dtype: autocast_dtype_setting}
_OF_NODES = {setting.choose: setting for setting in (*PLAIN_SETTINGS.values(), DETERMINISTIC)}
#: What the nodes of settings call.
CHOOSING = frozenset({*_OF_NODES, *_OF_DEVICES, choose_precision})
#: Those of settings that operators ask for when they run.
CHOOSING_KERNELS = frozenset({choose_precision, *(choose for choose in _OF_NODES if _OF_NODES[choose].when_run)})


def setting_of(choose: Callable[..., Any], args: tuple[Any, ...]) -> Setting:
    """The setting that a node changes."""
    if choose is choose_precision:
        return precision_setting(*args[:2])
    return _OF_NODES[choose] if choose in _OF_NODES else _OF_DEVICES[choose](args[0])
