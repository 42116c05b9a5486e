"""Compiled models under the conditions of real programs: many calls, threads, forks, other numbers of threads."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import onegraph


def model() -> nn.Module:
    torch.manual_seed(0)
    features = [nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()]
    return nn.Sequential(*features, nn.Linear(256, 64), nn.GELU(), nn.Linear(64, 64), nn.LayerNorm(64)).eval()


def pair(calls: str = "packed") -> tuple[nn.Module, nn.Module, Tensor]:
    eager = model()
    return eager, onegraph.compile(eager, options={"library_calls": calls}), torch.randn(2, 3, 24, 24)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("calls", ["packed", "onednn"])
def test_a_thousand_calls_do_not_grow(calls: str) -> None:
    _, compiled, x = pair(calls)
    with torch.no_grad():
        for _ in range(100):
            compiled(x)
        gc.collect()
        before, kept = resident(), onegraph.kept_bytes()
        for _ in range(1000):
            compiled(x)
        gc.collect()
    assert resident() - before < 2 << 20
    assert onegraph.kept_bytes() == kept


def test_weights_that_change_in_every_call_do_not_grow() -> None:
    eager, compiled, x = pair()
    with torch.no_grad():
        compiled(x)
        kept = onegraph.kept_bytes()
        for _ in range(50):
            eager[5].weight.data.mul_(1.01)
            torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-4)
    assert onegraph.kept_bytes() == kept


def test_threads_call_at_the_same_time() -> None:
    eager, compiled, _ = pair()
    failures = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        try:
            with torch.no_grad():
                for _ in range(20):
                    x = torch.randn(2, 3, 24, 24, generator=generator)
                    torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-4)
        except AssertionError as error:
            failures.append(error)

    with torch.no_grad():
        compiled(torch.randn(2, 3, 24, 24))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_a_forked_child_calls_and_sees_its_own_weights() -> None:
    eager, compiled, x = pair()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the pool of threads of a parent does not live on in its child
    with torch.no_grad():
        compiled(x)
        child = os.fork()
        if child == 0:
            try:
                same = torch.allclose(compiled(x), eager(x), rtol=1e-4, atol=1e-4)
                eager[5].weight.zero_()
                os._exit(0 if same and torch.allclose(compiled(x), eager(x), rtol=1e-4, atol=1e-4) else 1)
            except BaseException:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-4)
    torch.set_num_threads(threads)


def test_the_number_of_threads_is_torchs() -> None:
    eager, compiled, x = pair()
    threads = torch.get_num_threads()
    with torch.no_grad():
        for number in (1, 2, 1):
            torch.set_num_threads(number)
            torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-4)
    torch.set_num_threads(threads)
