"""Kernels on a CUDA device, without one: loaded and launched through a stand-in of the driver that checks each call.

`stand_in/` is built when the tests start. A kernel there is a cubin, or text that says what its parameters are, and
computes what a test gives it as a function. Memory of tensors on the CPU stands for that of the device.
"""

from __future__ import annotations

import gc
import threading
import time
from ctypes import byref, c_void_p
from typing import Any

import pytest
import torch
from gpu.driver import Kind, StandIn, image_of

from onegraph import _C


def addresses(*tensors: torch.Tensor) -> tuple[int, ...]:
    return tuple(tensor.data_ptr() for tensor in tensors)


def test_a_launch_is_what_was_asked_for(driver: StandIn) -> None:
    x, y = driver.know(torch.ones(8)), driver.know(torch.ones(8))
    kernel = driver.kernel("add", "ppii", threads=64, shared=256)
    assert (kernel.name, kernel.threads, kernel.shared, kernel.registers, kernel.local) == ("add", 64, 256, 32, 0)
    _C.launch_cuda_kernel(kernel.address, (3, 2), addresses(x, y), (5, -(2**62)))
    (launch,) = driver.launches()
    assert (launch.kernel, launch.grid, launch.block, launch.shared, launch.stream) == (
        "add",
        (3, 2, 1),
        (64, 1, 1),
        256,
        0,
    )
    assert launch.parameters == (x.data_ptr(), y.data_ptr(), 5, 2**64 - 2**62, 0, 0)


def test_nothing_is_launched_without_programs(driver: StandIn) -> None:
    kernel = driver.kernel("k", "")
    for grid in [(0,), (5, 0), (1, 1, 0)]:
        _C.launch_cuda_kernel(kernel.address, grid, (), ())
    assert not driver.launches()
    for grid in [(-1,), (2**31,), (1, 65536), (1, 1, 2**40)]:
        with pytest.raises(RuntimeError, match="launching k: there is no grid of"):
            _C.launch_cuda_kernel(kernel.address, grid, (), ())
    _C.launch_cuda_kernel(kernel.address, (2**31 - 1, 65535, 65535), (), ())
    with pytest.raises(ValueError, match="k takes 0 pointers, 0 sizes"):
        _C.launch_cuda_kernel(kernel.address, (1,), (1,), ())


def test_kernels_follow_torch_s_stream_and_leave_the_context_as_it_was(driver: StandIn) -> None:
    kernel, stream = driver.kernel("k", ""), driver.stream()
    for current in (stream, 0):
        with driver.using(current):
            _C.launch_cuda_kernel(kernel.address, (1,), (), ())
    assert [launch.stream for launch in driver.launches()] == [stream, 0]
    driver.leave()
    _C.launch_cuda_kernel(kernel.address, (1,), (), ())  # it enters the context, and leaves it
    with pytest.raises(AssertionError, match="without a current context"):
        driver.call("cuCtxSynchronize")
    driver.forget()


def test_a_kernel_of_a_second_device_is_launched_in_its_context(driver: StandIn) -> None:
    driver.set(devices=2)
    first, second = driver.kernel("k", ""), driver.kernel("k", "", device=1)
    driver.enter()
    for kernel in (first, second, first):
        _C.launch_cuda_kernel(kernel.address, (1,), (), ())
    assert len(driver.launches()) == 3


def test_shared_memory_is_asked_for_where_a_block_needs_much(driver: StandIn) -> None:
    for shared, fixed in [
        (48 << 10, 0),
        (0, 48 << 10),
        ((48 << 10) + 1, 0),
        (1024, 48 << 10),
        (166912, 0),
        (100_000, 66912),
    ]:
        kernel = driver.kernel("k", "", shared=shared, fixed=fixed)
        _C.launch_cuda_kernel(kernel.address, (1,), (), ())
    for shared, fixed in [(166913, 0), (100_000, 66913), (2**31 - 1, 1)]:
        with pytest.raises(
            RuntimeError, match=f"loading k: a block needs {shared + fixed} bytes of shared memory, and has"
        ):
            driver.kernel("k", "", shared=shared, fixed=fixed)


def test_what_no_block_has_is_refused(driver: StandIn) -> None:
    with pytest.raises(RuntimeError, match="a block has 512 threads, and with 255 registers each at most 256"):
        _C.CudaKernel(image_of({"k": ("", {"registers": 255, "threads": 256})}), "k", 512, 0, 0, 0, driver.path)
    for numbers in [(0, 0, 0, 0), (32, -1, 0, 0), (32, 0, -1, 0), (32, 0, 0, -1)]:
        with pytest.raises(ValueError, match="no kernel has"):
            _C.CudaKernel(image_of({"k": ("", {})}), "k", *numbers, driver.path)


@pytest.mark.parametrize("types", ["pp", "pppi", "ppih", "hppi", ""])
def test_parameters_that_lie_otherwise_are_refused(driver: StandIn, types: str) -> None:
    with pytest.raises(RuntimeError, match="its parameters are not 2 pointers, 1 sizes of 64 bits and 2 pointers more"):
        _C.CudaKernel(image_of({"k": (types, {})}), "k", 32, 0, 2, 1, driver.path)


def test_errors_of_loading(driver: StandIn) -> None:
    loads = driver.alive(Kind.MODULE)
    with pytest.raises(
        RuntimeError, match=r"loading, on a device of compute capability 8.0, k: no kernel image .*, 209\)"
    ):
        _C.CudaKernel(image_of({"k": ("", {})}, arch=90), "k", 32, 0, 0, 0, driver.path)
    with pytest.raises(
        RuntimeError, match=r"loading k: device kernel image is invalid \(CUDA_ERROR_INVALID_IMAGE, 200\)"
    ):
        _C.CudaKernel(b"what is this?", "k", 32, 0, 0, 0, driver.path)
    with pytest.raises(RuntimeError, match=r"loading other: named symbol not found"):
        _C.CudaKernel(image_of({"k": ("", {})}), "other", 32, 0, 0, 0, driver.path)
    with pytest.raises(RuntimeError, match=r"taking CUDA device 5: invalid device ordinal"):
        driver.kernel("k", "", device=5)
    for number in (-1, 64):
        with pytest.raises(ValueError, match=f"there is no CUDA device {number}"):
            driver.kernel("k", "", device=number)
    driver.set(load_fails=2)
    with pytest.raises(torch.OutOfMemoryError, match=r"loading k: out of memory \(CUDA_ERROR_OUT_OF_MEMORY, 2\)"):
        driver.kernel("k", "")
    driver.set(load_fails=12345)
    with pytest.raises(RuntimeError, match=r"loading k: the driver does not know this error \(CUDA error, 12345\)"):
        driver.kernel("k", "")
    driver.kernel("k", "")
    driver.kernel("k", "")
    assert driver.alive(Kind.MODULE) <= loads + 2


def test_a_cubin_that_is_cut_off(driver: StandIn) -> None:
    header = b"\x7fELF" + bytes(36) + (64).to_bytes(8, "little") + bytes(10) + bytes([64, 0, 2, 0, 0, 0])
    section = bytes(24) + (192).to_bytes(8, "little") + (8).to_bytes(8, "little") + bytes(24)
    whole = header + bytes(64) + section + bytes(8)
    assert (len(header), len(section)) == (64, 64)
    for size in range(4, len(whole)):
        with pytest.raises(RuntimeError, match="loading k: the cubin is cut off"):
            _C.CudaKernel(whole[:size], "k", 32, 0, 0, 0, driver.path)
    with pytest.raises(RuntimeError, match="loading k: device kernel image is invalid"):
        _C.CudaKernel(whole, "k", 32, 0, 0, 0, driver.path)


def test_errors_of_launches(driver: StandIn) -> None:
    kernel = driver.kernel("k", "")
    for code, name in [(719, "CUDA_ERROR_LAUNCH_FAILED"), (700, "CUDA_ERROR_ILLEGAL_ADDRESS")]:
        driver.set(launch_fails=code)
        with pytest.raises(RuntimeError, match=rf"launching k: .* \({name}, {code}\)") as caught:
            _C.launch_cuda_kernel(kernel.address, (1,), (), ())
        assert not isinstance(caught.value, torch.OutOfMemoryError)
    driver.set(launch_fails=2)
    with pytest.raises(torch.OutOfMemoryError, match="launching k: out of memory"):
        _C.launch_cuda_kernel(kernel.address, (1,), (), ())


def test_memory_that_is_not_the_device_s_is_found(driver: StandIn) -> None:
    """That is what the stand-in is for."""
    x, kernel = driver.know(torch.ones(4)), driver.kernel("k", "p")
    for address in (x.data_ptr() + 16, x.data_ptr() - 1, 0):
        with pytest.raises(RuntimeError, match="launching k: invalid argument"):
            _C.launch_cuda_kernel(kernel.address, (1,), (address,), ())
        assert "is no memory of the device" in driver.complaints()[-1]
    driver.forget_memory(x)
    with pytest.raises(RuntimeError, match="launching k: invalid argument"):
        _C.launch_cuda_kernel(kernel.address, (1,), addresses(x), ())
    driver.forget()


def test_modules_are_unloaded_when_they_have_run(driver: StandIn) -> None:
    gc.collect()
    driver.kernel("k", "")
    driver.kernel("k", "")  # unloads what others have left
    before = driver.alive(Kind.MODULE)
    kernels = [driver.kernel("k", "") for _ in range(5)]
    for kernel in kernels:
        _C.launch_cuda_kernel(kernel.address, (1,), (), ())
    del kernel
    kernels.clear()
    assert driver.alive(Kind.MODULE) >= before + 5 - 1  # it is not the time
    last = driver.kernel("k", "")
    assert driver.alive(Kind.MODULE) <= before + 1
    _C.launch_cuda_kernel(last.address, (1,), (), ())


def test_what_was_captured_stays(driver: StandIn) -> None:
    """A graph of somebody else may launch it again, when nobody of ours knows it any more."""
    stream, graph, exec_ = driver.stream(), c_void_p(), c_void_p()
    kernel = driver.kernel("k", "")
    with driver.using(stream):
        driver.call("cuStreamBeginCapture_v2", c_void_p(stream), 0)
        _C.launch_cuda_kernel(kernel.address, (7,), (), ())
        gone = driver.kernel("gone", "")  # a load in a capture disturbs nothing
        del gone
        other = driver.kernel("other", "")
        driver.call("cuStreamEndCapture", c_void_p(stream), byref(graph))
    assert not driver.launches()
    driver.call("cuGraphInstantiateWithFlags", byref(exec_), graph, 0)
    del kernel, other
    driver.kernel("k", "")
    driver.kernel("k", "")
    driver.call("cuGraphLaunch", exec_, c_void_p(stream))
    assert [(launch.how, launch.grid[0]) for launch in driver.launches()] == [("replay", 7)]
    driver.call("cuGraphExecDestroy", exec_)
    driver.call("cuGraphDestroy", graph)


def test_a_launch_lets_other_threads_run(driver: StandIn) -> None:
    kernel = driver.kernel("k", "")
    driver.set(hold=1)
    thread = threading.Thread(target=_C.launch_cuda_kernel, args=(kernel.address, (1,), (), ()))
    thread.start()
    time.sleep(0.05)
    driver.set(hold=0)  # this thread has the lock of the interpreter meanwhile
    thread.join()
    assert len(driver.launches()) == 1


def test_pointers_that_are_not_aligned_have_a_kernel_of_their_own(driver: StandIn) -> None:
    """It is made by the first launch that needs it, without which a load of several elements would fail."""
    asked: list[_C.CudaKernel] = []

    def general() -> _C.CudaKernel:
        asked.append(driver.kernel("general", "pp"))
        return asked[-1]

    image = image_of({"wide": ("pp", {"aligned": 16})})
    kernel = _C.CudaKernel(image, "wide", 128, 0, 2, 0, driver.path, 0, general)
    x = driver.know(torch.ones(64))
    even, odd = x.data_ptr() + -x.data_ptr() % 16, x.data_ptr() + -x.data_ptr() % 16 + 4
    for pointers in [(even, even + 16), (even, odd), (odd, even), (odd, odd), (even, even), (even + 8, even)]:
        _C.launch_cuda_kernel(kernel.address, (1,), pointers, ())
    assert [launch.kernel for launch in driver.launches()] == ["wide", *["general"] * 3, "wide", "general"]
    assert len(asked) == 1
    _C.launch_cuda_kernel(kernel.address, (0,), (odd, odd), ())
    alone = _C.CudaKernel(image, "wide", 128, 0, 2, 0, driver.path)
    with pytest.raises(RuntimeError, match="launching wide: invalid argument"):
        _C.launch_cuda_kernel(alone.address, (1,), (even, odd), ())
    assert "is no multiple of 16" in driver.complaints()[-1]
    driver.forget()


def test_errors_of_making_a_kernel_for_other_pointers(driver: StandIn) -> None:
    answers: list[Any] = [7, driver.kernel("k", "ppp"), driver.kernel("k", "ppi"), driver.kernel("k", "pp")]

    def general() -> Any:
        if len(answers) == 4:
            answers.insert(0, None)
            raise OSError("the disk is full")
        return answers.pop(0) or answers.pop(0)

    kernel = _C.CudaKernel(image_of({"wide": ("pp", {})}), "wide", 128, 0, 2, 0, driver.path, 0, general)
    x = driver.know(torch.ones(64))
    pointers = (x.data_ptr(), x.data_ptr() + 1)
    with pytest.raises(OSError, match="the disk is full"):
        _C.launch_cuda_kernel(kernel.address, (1,), pointers, ())
    for _ in range(3):
        with pytest.raises(TypeError, match="does not take any pointers in the place of wide"):
            _C.launch_cuda_kernel(kernel.address, (1,), pointers, ())
    _C.launch_cuda_kernel(kernel.address, (1,), pointers, ())
    assert [launch.kernel for launch in driver.launches()] == ["k"]
