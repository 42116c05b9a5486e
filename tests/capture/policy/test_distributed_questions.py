"""What a program asks of torch.distributed is answered in the graph, as long as the answer is the same."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist

import onegraph


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 5 if dist.is_available() and dist.is_initialized() else x + 1


def test_whether_there_is_a_process_group(tmp_path: Path) -> None:
    compiled, x = onegraph.compile(scaled, backend="eager", fullgraph=True), torch.ones(2)
    assert torch.equal(compiled(x), x + 1)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        assert torch.equal(compiled(x), x * 5)
    finally:
        dist.destroy_process_group()
    assert torch.equal(compiled(x), x + 1)
