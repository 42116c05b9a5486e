"""What a Triton kernel looks like from outside, without Triton: the same modules, classes and ways to launch.

A kernel here is a Python function that is called for each program with its number. It works on real tensors only.
"""

from __future__ import annotations

import types
from typing import Any

JIT = types.ModuleType("triton.runtime.jit")
exec(
    """
class KernelInterface:
    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

class JITFunction(KernelInterface):
    def __init__(self, fn):
        self.fn = fn
        self.__name__ = fn.__name__
        self.arg_names = list(fn.__code__.co_varnames[1 : fn.__code__.co_argcount])
        self.launches = []

    def run(self, *args, grid, warmup, **kwargs):
        bound = dict(zip(self.fn.__code__.co_varnames[1:], args)) | kwargs
        size = grid(bound) if callable(grid) else grid
        self.launches.append(size)
        for program in range(size[0]):
            self.fn(program, **bound)

def jit(fn):
    return JITFunction(fn)
""",
    JIT.__dict__,
)
AUTOTUNER = types.ModuleType("triton.runtime.autotuner")
AUTOTUNER.__dict__["KernelInterface"] = JIT.KernelInterface
exec(
    """
class Config:
    pre_hook = None

    def __init__(self, kwargs):
        self.kwargs = kwargs

    def all_kwargs(self):
        return self.kwargs

class Autotuner(KernelInterface):
    reset_to_zero = restore_value = ()
    user_defined_pre_hook = user_defined_post_hook = False

    def __init__(self, fn, configs):
        self.fn = fn
        self.arg_names = fn.arg_names
        self.configs = [Config(each) for each in configs]

    def run(self, *args, **kwargs):
        return self.fn.run(*args, **kwargs, **self.configs[-1].all_kwargs())
""",
    AUTOTUNER.__dict__,
)
jit: Any = JIT.jit
Autotuner: Any = AUTOTUNER.Autotuner
