"""The stand-in of CUDA's driver (`stand_in/`): how it is built, and what tests ask of it."""

from __future__ import annotations

import atexit
import ctypes
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import CDLL, c_char_p, c_int, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from onegraph import _C

SOURCES = Path(__file__).with_name("stand_in")
COMPUTES = ctypes.CFUNCTYPE(None, ctypes.POINTER(c_uint64), ctypes.POINTER(c_uint))


class Kind(IntEnum):
    """Of objects, as in stand_in.h."""

    CONTEXT, MODULE, FUNCTION, STREAM, EVENT, MEMORY, GRAPH, EXEC = range(8)


@dataclass(frozen=True)
class Launched:
    how: str
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    stream: int
    parameters: tuple[int, ...]

    @staticmethod
    def of(line: str) -> Launched:
        how, kernel, grid, block, shared, stream, *parameters = line.split()
        along = tuple(map(int, grid.split(","))), tuple(map(int, block.split(",")))
        return Launched(how, kernel, *along, int(shared), int(stream), tuple(map(int, parameters)))


def compile_library(name: str, sources: Sequence[Path], *options: str) -> Path:
    folder = mkdtemp(prefix="onegraph-stand-in-")
    atexit.register(rmtree, folder, ignore_errors=True)
    target = Path(folder) / name
    command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{name}", *options]
    subprocess.run([*command, *map(str, sources), "-o", str(target), "-lpthread"], check=True)
    return target


def driver_sources() -> list[Path]:
    return [SOURCES / name for name in ("libcuda.c", "kernels.c", "streams.c")]


class StandIn:
    """One driver: its library, which is opened by its path, and the stream that torch says is current."""

    def __init__(self, *options: str) -> None:
        self.torch = _torch_cuda()
        self.path = str(compile_library("libcuda.so.1", driver_sources(), *options))
        self.lib = CDLL(self.path)
        for name in ("stand_in_complaints", "stand_in_launches"):
            getattr(self.lib, name).restype = c_char_p
        for name in ("stand_in_register", "stand_in_unregister"):
            getattr(self.lib, name).argtypes = [c_uint64] * (2 if name == "stand_in_register" else 1)
        self.computes: list[Any] = []
        self.current = threading.local()

    def set(self, **settings: int) -> None:
        for name, value in settings.items():
            self.lib.stand_in_set(name.encode(), value)

    def call(self, name: str, *args: Any) -> None:
        code = getattr(self.lib, name)(*args)
        assert code == 0, f"{name} gives {code}: {self.complaints()}"

    def complaints(self) -> list[str]:
        return self.lib.stand_in_complaints().decode().splitlines()

    def lines(self) -> list[str]:
        return self.lib.stand_in_launches().decode().splitlines()

    def launches(self) -> list[Launched]:
        return [Launched.of(line) for line in self.lines() if line.startswith(("launch", "replay"))]

    def forget(self) -> None:
        self.lib.stand_in_forget()

    def alive(self, kind: Kind) -> int:
        return int(self.lib.stand_in_alive(int(kind)))

    def bind(self, kernel: str, compute: Callable[[Any, Any], None]) -> None:
        """Have the kernels of this name compute: the function is given the parameters and the grid."""
        self.computes.append(COMPUTES(compute))
        self.lib.stand_in_bind(kernel.encode(), self.computes[-1])

    # ---- memory and streams ------------------------------------------------------------------------------------------

    def know(self, tensor: Any) -> Any:
        """The tensor's memory is the device's."""
        self.lib.stand_in_register(tensor.data_ptr(), max(tensor.untyped_storage().nbytes(), 1))
        return tensor

    def forget_memory(self, tensor: Any) -> None:
        self.call("stand_in_unregister", tensor.data_ptr())

    def enter(self) -> None:
        """Make the context of device 0 this thread's, as torch does when it is first used."""
        device, context = c_int(), c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def leave(self) -> None:
        self.call("cuCtxSetCurrent", None)

    def capture_mode(self) -> int:
        """This thread's, 0 unless somebody has left another one."""
        mode = c_int(0)
        self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        return mode.value

    def stream(self) -> int:
        self.enter()
        made = c_void_p()
        self.call("cuStreamCreate", ctypes.byref(made), 1)
        return made.value or 0

    def use(self, stream: int) -> None:
        """This is torch's current stream in this thread."""
        self.torch.stand_in_use(c_void_p(stream))
        self.current.stream = stream

    @contextmanager
    def using(self, stream: int) -> Iterator[None]:
        outer = getattr(self.current, "stream", 0)
        self.use(stream)
        try:
            yield
        finally:
            self.use(outer)

    # ---- kernels -----------------------------------------------------------------------------------------------------

    def kernel(
        self, name: str, types: str = "ppi", threads: int = 128, shared: int = 0, device: int = 0, **facts: int
    ) -> _C.CudaKernel:
        """A kernel whose parameters have these types: p a pointer, i an integer."""
        image = image_of({name: (types, facts)})
        return _C.CudaKernel(image, name, threads, shared, types.count("p"), types.count("i"), self.path, device)


def image_of(kernels: dict[str, tuple[str, dict[str, int]]], arch: int = 80) -> bytes:
    """What the stand-in takes in the place of a cubin, see kernels.c."""
    lines = [f"STAND-IN arch={arch}"]
    for name, (types, facts) in kernels.items():
        known = {"registers": 32, "threads": 1024, "fixed": 0, "required": 0, "aligned": 1, **facts}
        lines.append(f"{name} types=-{types} {' '.join(f'{fact}={value}' for fact, value in known.items())}")
    return ("\n".join(lines) + "\n").encode()


@cache
def _torch_cuda() -> CDLL:
    """A library that is found where that of a torch with CUDA would be."""
    return CDLL(str(compile_library("libtorch_cuda.so", [SOURCES / "libtorch_cuda.c"])))
