"""Ranks of one machine share what is on disk: one compiles, the others wait for it."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import onegraph
from tests.capture.kept.children import listening
from tests.distributed.processes import two_processes


def compiled_once(folder: Path, within: bool) -> list[str]:
    with onegraph.config.patch(verify=False, raise_compiler_errors=False, cache_dir=folder):
        torch.manual_seed(0)
        hidden = [layer for _ in range(3) for layer in (nn.Linear(16, 16), nn.GELU())]
        model = nn.Sequential(*hidden)
        ddp = DistributedDataParallel(onegraph.compile(model) if within else model, bucket_cap_mb=0.001)
        run = ddp if within else onegraph.compile(ddp)
        dist.barrier()
        said = listening()
        x = torch.ones(4, 16)
        run(x).sum().backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        wanted = torch.autograd.grad(nn.Sequential(*hidden)(x).sum(), tuple(model.parameters()))
        torch.testing.assert_close(gradients, list(wanted))
        return said


def test_one_rank_compiles_for_all(tmp_path: Path) -> None:
    for within in (False, True):
        folder = tmp_path / str(within)
        said = two_processes(compiled_once, folder, within)
        print(said, file=sys.stderr)
        assert sorted(said) == [["CaptureKept"], ["CaptureLoaded"]]
        assert two_processes(compiled_once, folder, within) == [["CaptureLoaded"], ["CaptureLoaded"]]
