"""A torch with two CUDA devices in ordinary memory, for a process of its own: see `device.cpp`."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.abc
import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SOURCE = Path(__file__).with_name("device.cpp")


def built() -> Path:
    """The library of the devices. It is built once for each text of its source and each torch, which it loads where it
    lies: a second copy of torch ends the process."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    torch = Path(spec.origin).parent
    sources = [SOURCE, *sorted(SOURCE.parent.glob("*.h")), torch / "version.py"]
    text = b"".join(path.read_bytes() for path in sources) + f"{sys.version} {torch}".encode()
    folder = Path(tempfile.gettempdir(), f"onegraph-simulated-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not library.exists():
        made = library.with_suffix(f".{os.getpid()}")
        includes = [f"-I{torch / 'include'}", f"-I{sysconfig.get_path('include')}"]
        links = [f"-L{torch / 'lib'}", f"-Wl,-rpath,{torch / 'lib'}", "-lc10", "-ltorch_cpu"]
        command = ["g++", "-O0", "-shared", "-fPIC", "-std=c++20", *includes, str(SOURCE), "-o", str(made), *links]
        subprocess.run(command, check=True)
        made.rename(library)
    return library


class BeforeCuda(importlib.abc.MetaPathFinder):
    """Puts the devices into `torch._C` when `torch.cuda` is about to be imported, which then finds them as in a build
    with CUDA."""

    take_log: Any = None

    def __init__(self, library: ctypes.PyDLL) -> None:
        self.install = library.install
        self.install.restype, self.install.argtypes = ctypes.py_object, [ctypes.py_object]

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name != "torch.cuda" or self.take_log is not None:
            return
        native: Any = sys.modules["torch._C"]
        self.take_log = self.install(native)
        native._has_cuda, native._cudart = True, SimpleNamespace()
        native._CudaDeviceProperties = Properties
        native._CudaStreamBase, native._CudaEventBase = bases(native)
        native._MemPool = pools(native)
        native._CUDAGraph, native._graph_pool_handle = type("_CUDAGraph", (), {}), None  # there are none


class Properties:
    """What a device says of itself: those of an H200."""

    def __init__(self, index: int) -> None:
        self.name = f"simulated device {index}"
        self.major, self.minor = 9, 0
        self.total_memory = 139 << 30
        self.multi_processor_count = 132
        self.warp_size = 32
        self.regs_per_multiprocessor = 65536
        self.max_threads_per_multi_processor = 2048
        self.shared_memory_per_block = 48 << 10
        self.shared_memory_per_block_optin = 227 << 10
        self.L2_cache_size = 60 << 20


def bases(native: Any) -> tuple[type, type]:
    """The native classes below `torch.cuda.Stream` and `torch.cuda.Event`."""

    class CudaStreamBase(native.Stream):  # type: ignore[misc]
        def __new__(cls, priority: int = 0, stream_ptr: int = 0, **place: int) -> Any:
            if place:
                return super().__new__(cls, **place)
            return super().__new__(cls, device=native._cuda_getDevice(), priority=priority)

        @property
        def cuda_stream(self) -> int:
            return int(self.stream_id)

    class CudaEventBase(native.Event):  # type: ignore[misc]
        def __new__(
            cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
        ) -> Any:
            return super().__new__(cls, device="cuda", enable_timing=enable_timing, blocking=blocking)

    return CudaStreamBase, CudaEventBase


def pools(native: Any) -> type:
    """The native class below `torch.cuda.MemPool`."""

    class MemPool:
        def __init__(self, *options: Any) -> None:
            self.number = native._cuda_makePool()

        @property
        def id(self) -> int:
            return self.number

        def __del__(self) -> None:
            native._cuda_dropPool(self.number)

    return MemPool


def install() -> Any:
    """Import torch, with the devices. Gives the function that takes the log of what ran on which stream: it is told
    whether to go on with it."""
    assert "torch" not in sys.modules, "the simulated devices must be there before torch is imported"
    finder = BeforeCuda(ctypes.PyDLL(str(built())))  # its hooks are registered with this, before torch looks for them
    sys.meta_path.insert(0, finder)
    import torch

    sys.meta_path.remove(finder)
    devices = [Properties(index) for index in range(torch._C._cuda_getDeviceCount())]
    torch.cuda._get_device_properties = devices.__getitem__  # as `_cuda_init` does
    torch.cuda.default_generators = tuple(torch._C.Generator(f"cuda:{n}") for n in range(len(devices)))
    torch.UntypedStorage.clone = cloned  # of a build without CUDA, they cannot be made on a device by themselves
    return finder.take_log


def link(driver: Any) -> None:
    """Streams and memory of the simulated devices are those that the driver knows."""
    devices = ctypes.CDLL(str(built()))
    for setter, answer in [
        (devices.make_streams, driver.lib.stand_in_stream),
        (driver.torch.stand_in_ask_stream, devices.current_stream),
        (driver.lib.stand_in_ask_memory, devices.has_memory),
    ]:
        setter.argtypes, setter.restype = [ctypes.c_void_p], None
        setter(ctypes.cast(answer, ctypes.c_void_p))


def cloned(storage: Any) -> Any:
    import torch

    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).clone().untyped_storage()
