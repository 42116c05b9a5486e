"""Process state of torch that a trace may change: taken before, and put back behind it, also behind an aborted one."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.torchlib import private
from onegraph.torchlib.attention import ATTENTION_CHOICES

AUTOCAST_DEVICES = ("cpu", "cuda")
accelerator: Any = torch.accelerator
#: The index of the current device. To ask begins the use of the accelerator, as making a tensor on it does.
current_index: Callable[[], int] = accelerator.current_device_index


def accelerator_kind() -> str | None:
    """The kind of device that the process has besides its processor."""
    found = accelerator.current_accelerator(check_available=True)
    return None if found is None else str(found.type)


def index_in_use() -> int | None:
    """The index of the current device; None while no accelerator is in use."""
    found = accelerator.current_accelerator()
    is_used = None if found is None else getattr(torch.get_device_module(found), "is_initialized", lambda: True)
    return current_index() if is_used is not None and is_used() else None


def choose_index(index: int | None) -> None:
    """Make this the current device, if it is not; the first one, if none was in use."""
    if index_in_use() not in (None, index or 0):
        accelerator.set_device_index(index or 0)


class Entered(threading.local):
    """The inference modes that graphs have entered in this thread."""

    def __init__(self) -> None:
        self.modes: list[Any] = []


_ENTERED = Entered()


def enter_inference(enabled: bool) -> Any:
    """Enter inference mode, or leave it for a while, until `exit_inference` is called with what this gives."""
    _ENTERED.modes.append(private.enter_inference(enabled))
    return _ENTERED.modes[-1]


def exit_inference(entered: Any) -> None:
    _ENTERED.modes.remove(entered)
    private.exit_inference(entered)


@dataclass(frozen=True, slots=True)
class GlobalState:
    """Grad mode, autocast, default dtype, determinism, kernels of attention, and the mode stacks."""

    grad_enabled: bool
    autocast: tuple[tuple[bool, torch.dtype], ...]
    autocast_cache: bool
    autocast_nesting: int
    default_dtype: torch.dtype
    deterministic: tuple[bool, bool]
    attention: tuple[Any, ...]
    torch_function: Any
    device: torch.device | None
    function_modes: tuple[Any, ...]
    dispatch_modes: tuple[Any, ...]
    functorch_depth: int
    forward_recorded: bool
    inference: int
    device_index: int | None

    @classmethod
    def snapshot(cls) -> GlobalState:
        return cls(
            torch.is_grad_enabled(),
            tuple((torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in AUTOCAST_DEVICES),
            torch.is_autocast_cache_enabled(),
            autocast_nesting(),
            torch.get_default_dtype(),
            (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
            tuple(ask() for ask in ATTENTION_CHOICES.values()),
            private.get_torch_function_state(),
            private.default_device(),
            tuple(private.function_mode_stack()),
            tuple(private.dispatch_mode_stack()),
            private.transforms_depth(),
            private.is_forward_recorded(),
            len(_ENTERED.modes),
            index_in_use(),
        )

    def restore(self) -> None:
        """Put everything back; modes and transforms that were left open are closed."""
        surely(
            self._leave_inference,
            self._restore_modes,
            partial(private.set_grad_enabled, self.grad_enabled),
            self._restore_autocast,
            self._restore_choices,
            partial(choose_index, self.device_index),
        )

    def _leave_inference(self) -> None:
        while len(_ENTERED.modes) > self.inference:
            exit_inference(_ENTERED.modes[-1])

    def _restore_modes(self) -> None:
        private.leave_transforms(self.functorch_depth)
        leave_dual_numbers()
        private.record_forward(self.forward_recorded)
        private.set_torch_function_state(self.torch_function)
        private.set_default_device(self.device)
        if tuple(private.function_mode_stack()) != self.function_modes:
            while private.count_function_modes():
                private.pop_function_mode()
            for mode in self.function_modes:
                private.push_function_mode(mode)
        while private.count_dispatch_modes() > len(self.dispatch_modes):
            private.pop_dispatch_mode(getattr(private.dispatch_mode_stack()[-1], "_mode_key", None))

    def _restore_autocast(self) -> None:
        for device, (enabled, dtype) in zip(AUTOCAST_DEVICES, self.autocast, strict=True):
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self.autocast_cache)
        while autocast_nesting() > self.autocast_nesting:
            torch.autocast_decrement_nesting()

    def _restore_choices(self) -> None:
        if torch.get_default_dtype() is not self.default_dtype:
            torch.set_default_dtype(self.default_dtype)
        deterministic, warn_only = self.deterministic
        if deterministic != torch.are_deterministic_algorithms_enabled():
            torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        for (choose, ask), value in zip(ATTENTION_CHOICES.items(), self.attention, strict=True):
            if ask() != value:
                choose(value)


def leave_dual_numbers() -> None:
    """Close the level of dual numbers that was entered natively only: there is one at most, and a second is refused."""
    if private.forward_level() < 0:
        with contextlib.suppress(RuntimeError):
            private.enter_dual_level()
        private.leave_dual_level(level=0)


def surely(*steps: Callable[[], object]) -> None:
    """Take all of the steps, also where one fails: it is tried again, as memory or room for frames may have been short.

    Raises:
        BaseException: what the last one that failed twice has raised, or an interrupt.
    """
    failed = None
    for step in steps:
        try:
            step()
        except BaseException as error:
            failed = failed if isinstance(error, Exception) else error
            try:
                step()
            except BaseException as again:
                failed = again
    if failed is not None:
        raise failed


@contextlib.contextmanager
def tracing_suspended() -> Iterator[None]:
    """No function mode and no dispatch mode sees what happens in here."""
    with private.DisableTorchFunction(), private.disable_current_modes():
        yield


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """No mode sees what happens in here, no transform of `torch.func` is open, and no batch of gradients."""
    nesting = private.enter_batch_of_gradients()
    for _ in range(nesting):
        private.leave_batch_of_gradients()
    try:
        with tracing_suspended(), private.without_transforms():
            yield
    finally:
        for _ in range(nesting - 1):
            private.enter_batch_of_gradients()


def function_modes() -> list[Any]:
    """The modes that see torch functions in this thread, outermost first."""
    return list(private.function_mode_stack())


class Faking:
    """What the mode of a trace is, in which operators run on fakes."""


def is_faking() -> bool:
    """Whether operators that are called now run on fakes of ours, as a part of a trace."""
    return isinstance(private.get_dispatch_mode(private.FAKE_MODE_KEY), Faking)


def saves_through_hooks() -> bool:
    """Whether hooks see each tensor that autograd saves."""
    return private.top_saved_tensors_hooks(False) is not None


def saves_for_hooks() -> bool:
    """Whether hooks of the program see each tensor that autograd saves. Those of torch itself look at none of them."""
    hooks = private.top_saved_tensors_hooks(False)
    return hooks is not None and not (hooks[0].__module__ or "").startswith("torch.")


@contextmanager
def saving_plainly() -> Iterator[None]:
    """Hooks that see each tensor that autograd saves see none of a trace: its fakes must not reach them."""
    taken = []
    while (hooks := private.top_saved_tensors_hooks(False)) is not None:
        taken.append(hooks)
        private.pop_saved_tensors_hooks()
    try:
        yield
    finally:
        for hooks in reversed(taken):
            private.push_saved_tensors_hooks(*hooks)


@contextmanager
def autocast_uncached() -> Iterator[None]:
    """Autocast keeps the casts of weights: those of a trace's fakes must not be met by the next one."""
    enabled = torch.is_autocast_cache_enabled()
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(enabled)


@contextmanager
def without_autocast() -> Iterator[None]:
    """Operators run in the types of their arguments, as backward passes do."""
    enabled = [torch.is_autocast_enabled(device) for device in AUTOCAST_DEVICES]
    try:
        for device in AUTOCAST_DEVICES:
            torch.set_autocast_enabled(device, False)
        yield
    finally:
        for device, value in zip(AUTOCAST_DEVICES, enabled, strict=True):
            torch.set_autocast_enabled(device, value)


#: What sees operators, and the transforms that are open.
WATCHING = ("torch_function", "device", "function_modes", "dispatch_modes", "functorch_depth", "inference")


@contextmanager
def under(state: GlobalState) -> Iterator[None]:
    """Run as in this state, but for what sees operators and for the transforms that are open now."""
    now = GlobalState.snapshot()
    open_now = {name: getattr(now, name) for name in WATCHING}
    dataclasses.replace(state, **open_now, autocast_nesting=now.autocast_nesting).restore()
    try:
        yield
    finally:
        now.restore()


def autocast_nesting() -> int:
    """How many autocast contexts are open (torch offers only increment and decrement)."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


@contextmanager
def untraced() -> Iterator[None]:
    """In the midst of a trace, run something for real: no mode sees what happens within."""
    with private.DisableTorchFunction(), private.DisableTorchDispatch():
        yield


def without_modes() -> AbstractContextManager[Any]:
    """Within, no dispatch mode sees the operators that run."""
    return private.disable_current_modes()
