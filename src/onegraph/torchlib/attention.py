"""What chooses among the kernels of attention, and how it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch

from onegraph.torchlib.private import SDPA_ORDER, feature, is_sdpa_ordered, sdpa_order

_SETTING = "compiled code neither chooses among kernels of attention nor puts the choice back"
#: Setters, and the functions that answer what is set.
ATTENTION_CHOICES: dict[Callable[..., Any], Callable[..., Any]] = {
    chosen.set: chosen.get
    for chosen in (
        *(
            feature(_SETTING, set=f"torch._C._set_sdp_use_{name}", get=f"torch._C._get_{name}_sdp_enabled")
            for name in ("flash", "mem_efficient", "math", "cudnn", "overrideable")
        ),
        feature(_SETTING, set="torch._C._set_sdp_priority_order", get="torch._C._get_sdp_priority_order"),
    )
    if chosen.is_there
}

sdpa_kernel = torch.nn.attention.sdpa_kernel


def set_ordered(ordered: bool) -> None:
    sdpa_order.set(ordered)


class Setting:
    """A context variable that is put back by its value: a token could not be made again behind a graph break."""

    def __init__(self, choose: Callable[[Any], None], ask: Callable[[], Any]) -> None:
        self.choose = choose
        self.ask = ask

    def get(self) -> Any:
        return self.ask()

    def set(self, value: Any) -> Any:
        before = self.ask()
        self.choose(value)
        return before

    def reset(self, before: Any) -> None:
        self.choose(before)


#: `sdpa_kernel` as it is traced.
traced_sdpa_kernel = sdpa_kernel
if sdpa_order is not None:
    ATTENTION_CHOICES[set_ordered] = is_sdpa_ordered
    _written: FunctionType = sdpa_kernel.__wrapped__  # type: ignore[attr-defined]
    _names = {**_written.__globals__, SDPA_ORDER: Setting(set_ordered, is_sdpa_ordered)}
    traced_sdpa_kernel = contextmanager(
        FunctionType(_written.__code__, _names, _written.__name__, _written.__defaults__, _written.__closure__)
    )
