"""State of the process."""

from __future__ import annotations

import atexit
import contextvars
import gc
import signal
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from onegraph.capture import breaks as b
from tests.capture.breaks.table import breaks

SCALE = contextvars.ContextVar("scale", default=2)


@breaks(b.DEFAULT_DEVICE)
def default_device(x):
    with torch.device("cpu"):
        torch.set_default_device("cpu")
        y = x + torch.ones(4)
        torch.set_default_device(None)
    return y


@default_device.fixed("pass device=")
def given_device(x):
    return x + torch.ones(4, device="cpu")


@breaks(b.STATE_CHANGE)
def setting(x):
    torch.set_num_threads(torch.get_num_threads())
    return x + 1


@setting.fixed("call it outside")
def setting_outside(graph, x):
    torch.set_num_threads(torch.get_num_threads())
    return graph(lambda x: x + 1)(x)


@breaks(b.DEVICE_WORK)
def emptied(x):
    torch.cuda.empty_cache()
    return x + 1


@emptied.fixed("do it outside")
def emptied_outside(graph, x):
    torch.cuda.empty_cache()
    return graph(lambda x: x + 1)(x)


class Doubled(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {})) * 2


@breaks(b.TORCH_CONTEXT)
def mode(x):
    with Doubled():
        y = x + 1
    return y * 2


@mode.fixed("use it outside")
def mode_outside(graph, x):
    with Doubled():
        y = x + 1
    return graph(lambda y: y * 2)(y)


@breaks(b.ANOMALY_MODE)
def anomalies(x):
    with torch.autograd.set_detect_anomaly(False):
        return x + 1


@anomalies.fixed("put it around")
def anomalies_around(graph, x):
    with torch.autograd.set_detect_anomaly(False):
        return graph(lambda x: x + 1)(x)


@breaks(b.CONTEXT_VARIABLE)
def scaled(x):
    return x * SCALE.get()


@scaled.fixed("read and set it outside")
def scaled_by_argument(graph, x):
    return graph(lambda x, scale: x * scale)(x, SCALE.get())


@breaks(b.SIGNALS)
def handles(x):
    return x + (signal.getsignal(signal.SIGINT) is None)


@handles.fixed("call it outside")
def handles_outside(graph, x):
    return graph(lambda x, free: x + free)(x, signal.getsignal(signal.SIGINT) is None)


def farewell() -> None:
    """Nothing is left to do."""


@breaks(b.EXIT_HANDLER)
def registers(x):
    atexit.register(farewell)
    return x + 1


@registers.fixed("register it outside")
def registers_outside(graph, x):
    atexit.register(farewell)
    return graph(lambda x: x + 1)(x)


@breaks(b.GARBAGE_COLLECTOR)
def collects(x):
    gc.collect(0)
    return x + 1


@collects.fixed("call it outside")
def collects_outside(graph, x):
    gc.collect(0)
    return graph(lambda x: x + 1)(x)


@breaks(b.INTERPRETER_STATE)
def traced(x):
    return x + (sys.gettrace() is None) * 0


@traced.fixed("call it outside")
def traced_outside(graph, x):
    return graph(lambda x, free: x + free * 0)(x, sys.gettrace() is None)
