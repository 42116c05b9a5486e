"""What programs ask of devices, the current device, streams and events."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gpu.simulated.compare import BACKENDS, check, on_cuda, same

import onegraph

LOG: Any = getattr(sys.modules.get("gpu.simulated.__main__"), "LOG", None)


def asked(x: torch.Tensor) -> Any:
    cuda = torch.cuda
    answers = cuda.is_available(), cuda.device_count(), cuda.current_device(), cuda.is_initialized()
    answers += cuda.get_device_capability(), cuda.get_device_capability(device=1), cuda.get_device_name("cuda:1")
    answers += (
        cuda.is_bf16_supported(),
        torch.accelerator.current_accelerator(),
        torch.accelerator.current_device_index(),
    )
    return x * cuda.get_device_properties(0).multi_processor_count, cuda.get_device_properties(x.device).major, answers


def in_another(x: torch.Tensor) -> Any:
    with torch.cuda.device(1):
        y = torch.ones(3, device="cuda")
        z = x.cpu().cuda(), x.to("cuda"), torch.cuda.current_device(), torch.cuda.get_device_name()
    with torch.cuda.device_of(y), torch.accelerator.device_index(1), torch.cuda.device(None):
        w = torch.as_tensor([1.0], device="cuda")
    return y, z, w, torch.ones(3, device="cuda"), torch.cuda.current_device()


def raising(x: torch.Tensor) -> Any:
    try:
        with torch.cuda.device(1):
            y = torch.ones(3, device="cuda")
            raise ValueError
    except ValueError:
        return y, torch.ones(3, device="cuda"), x


def left_by_an_error(x: torch.Tensor) -> Any:
    with torch.cuda.device(1):
        if x.dim() == 1:
            raise ValueError("left")


def without_stream(x: torch.Tensor) -> Any:
    with torch.cuda.stream(None):
        return x + 1


@pytest.mark.parametrize("function", [asked, in_another, raising, left_by_an_error, without_stream])
def test_one_graph(function: Callable[..., Any]) -> None:
    check(function, lambda: (on_cuda(3),))


def broken(x: torch.Tensor) -> Any:
    with torch.cuda.device(1):
        y = torch.ones(3, device="cuda")
        onegraph.graph_break()
        z = torch.ones(3, device="cuda") + 1
    return y, z, torch.ones(3, device="cuda"), torch.cuda.current_device()


def chosen(x: torch.Tensor) -> Any:
    torch.cuda.set_device(1)
    y = torch.ones(2, device="cuda")
    torch.cuda.set_device(0)
    return y, torch.ones(2, device="cuda"), x


def asked_elsewhere(x: torch.Tensor) -> Any:
    with torch.cuda.device(1):
        return x + torch.cuda.is_bf16_supported()


@pytest.mark.parametrize("function", [broken, chosen, asked_elsewhere])
def test_graph_breaks(function: Callable[..., Any]) -> None:
    check(function, lambda: (on_cuda(3),), fullgraph=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_current_device_is_guarded(backend: str) -> None:
    def made(x: torch.Tensor) -> Any:
        return x + torch.cuda.current_device(), torch.ones(2, device="cuda"), x.cuda(), x.to("cuda")

    def made_in_context(x: torch.Tensor) -> Any:
        with torch.device("cuda"):
            return torch.ones(2), x

    for function in (made, made_in_context):
        onegraph.reset()
        compiled = onegraph.compile(function, backend=backend, fullgraph=True)
        for index in (0, 1, 0, 1):
            with torch.cuda.device(index):
                x = torch.ones(2)
                same(compiled(x), function(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_context_from_outside_is_left_as_eager_mode_leaves_it(backend: str) -> None:
    def made(device: Any) -> Any:
        with device:
            return torch.ones(3, device="cuda"), device.idx

    onegraph.reset()
    compiled = onegraph.compile(made, backend=backend)
    for _ in range(2):
        ours, theirs = torch.cuda.device(1), torch.cuda.device(1)
        same(compiled(ours), made(theirs))
        assert vars(ours) == vars(theirs)


# ---- streams and events ----------------------------------------------------------------------------------------------

STREAM = torch.cuda.Stream()


def on_stream(x: torch.Tensor) -> Any:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = (x + 1).relu()
    torch.cuda.current_stream().wait_stream(stream)
    y.record_stream(torch.cuda.current_stream())
    return y * 2


def with_events(x: torch.Tensor) -> Any:
    with torch.cuda.stream(STREAM):
        y = x + 1
    event = STREAM.record_event()
    event.wait()
    z = y * 2
    other = torch.cuda.Event(enable_timing=True)
    other.record()
    other.synchronize()
    return z + 1


def of_any_device(x: torch.Tensor) -> Any:
    stream = torch.Stream("cuda")
    event = stream.record_event()
    y = x + 1
    torch.cuda.current_stream().wait_event(event)
    with stream:
        y = y * 2
    torch.accelerator.synchronize()
    return y + 1


def waiting(x: torch.Tensor) -> Any:
    y = x + 1
    torch.cuda.synchronize()
    STREAM.synchronize()
    return y * 2


def changing(x: torch.Tensor) -> Any:
    before = torch.cuda.current_stream()
    torch.cuda.set_stream(STREAM)
    y = x + 1
    torch.cuda.set_stream(before)
    return y * 2


def logged(function: Callable[..., Any], x: torch.Tensor) -> list[str]:
    """What a call does on which stream, in order; streams and events are numbered as they come."""
    LOG(True)
    try:
        function(x)
    finally:
        lines = LOG(False)
    known = {"stream 0": "stream 0"}

    def renamed(match: re.Match[str]) -> str:
        return known.setdefault(match[0], f"{match[1]} {len(known)}")

    return [re.sub(r"(stream|event) \d+", renamed, line) for line in lines if "empty" not in line]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [on_stream, with_events, of_any_device, waiting, changing])
def test_work_is_on_the_stream_and_in_the_order_of_the_program(function: Callable[..., Any], backend: str) -> None:
    onegraph.reset()
    compiled, x = onegraph.compile(function, backend=backend), on_cuda(3)
    same(compiled(x), function(x))
    expected = logged(function, x)
    assert len(expected) > 1 and logged(compiled, x) == expected
    with pytest.raises(onegraph.GraphBreakError, match="device-work|outside-native-object"):
        onegraph.compile(function, backend=backend, fullgraph=True)(x)


# ---- on disk ---------------------------------------------------------------------------------------------------------

ELSEWHERE = """
import pathlib, torch, onegraph
from gpu.simulated.kept import answers
options = {{"cache_dir": pathlib.Path({folder!r}), "verify": False}}
compiled = onegraph.compile(answers, backend="eager", options=options)
print([str(each) for each in compiled(torch.ones(2))])
"""


def test_answers_that_are_kept_hold_for_other_processes(tmp_path: Path) -> None:
    from gpu.simulated.kept import answers

    onegraph.reset()
    options = {"cache_dir": tmp_path, "verify": False}
    compiled = onegraph.compile(answers, backend="eager", options=options)
    assert [str(each) for each in compiled(torch.ones(2))] == ["tensor([2., 2.])", "True", "2"]
    assert list(tmp_path.rglob("captures/*"))
    command = [sys.executable, "-c", ELSEWHERE.format(folder=str(tmp_path))]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.stdout.strip() == "['tensor([2., 2.])', 'False', '0']", run.stderr
