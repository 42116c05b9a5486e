"""Models of `fully_shard` and `FullyShardedDataParallel`: blocks are compiled, and not what torch does around them."""

from __future__ import annotations

import tempfile
import warnings
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.fsdp import (
    FSDPModule,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.utils.checkpoint import checkpoint

import onegraph
from tests.distributed.models import (
    Block,
    Compile,
    Model,
    compared,
    compile_shared,
    eagerly,
    import_what_children_need,
    model,
    same,
    train,
    whole,
)
from tests.distributed.processes import two_processes

STEPS = 2


def shard(sharded: Model, **options: Any) -> Model:
    for block in sharded.blocks:
        fully_shard(block, **options)
    fully_shard(sharded, **options)
    return sharded


def compile_blocks(changed: Model, compile: Compile) -> Model:
    for number, block in enumerate(changed.blocks):
        changed.blocks[number] = compile(block)
    return changed


# ---- programs --------------------------------------------------------------------------------------------------------


def blocks_before(compile: Compile, steps: int = STEPS, **options: Any) -> Any:
    sharded = shard(compile_blocks(model(), compile), **options)
    return train(sharded, sharded, steps)


def blocks_after(compile: Compile, steps: int = STEPS) -> Any:
    sharded = compile_blocks(shard(model()), compile)
    return train(sharded, sharded, steps)


def blocks_in_place(compile: Compile, steps: int = STEPS) -> Any:
    made = model()
    for block in made.blocks:
        if compile is not eagerly:
            block.compile(backend="onegraph")
    sharded = shard(made)
    return train(sharded, sharded, steps)


def whole_after(compile: Compile, steps: int = STEPS, **options: Any) -> Any:
    sharded = shard(model(), **options)
    return train(compile(sharded), sharded, steps)


def whole_before(compile: Compile, steps: int = STEPS) -> Any:
    made = model()
    run = compile(made)
    return train(run, shard(made), steps)


def checkpointed(compile: Compile, steps: int = STEPS) -> Any:
    """The wrapper inside of what is compiled: it is a part of the graph."""
    made = model()
    for number, block in enumerate(made.blocks):
        made.blocks[number] = compile(checkpoint_wrapper(block))
    sharded = shard(made)
    return train(sharded, sharded, steps)


class Checkpointing(Model):
    def forward(self, x: Tensor) -> Tensor:
        x = self.into(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.out(x)


def checkpointed_outside(compile: Compile, steps: int = STEPS) -> Any:
    torch.manual_seed(5)
    sharded = shard(compile_blocks(Checkpointing(), compile))
    return train(sharded, sharded, steps)


def accumulated(compile: Compile, steps: int = STEPS) -> Any:
    """Gradients of two batches, clipped by their norm."""
    sharded = shard(compile_blocks(model(), compile))
    optimizer = torch.optim.SGD(sharded.parameters(), 0.05)
    torch.manual_seed(dist.get_rank())
    norms = []
    for _ in range(steps):
        for is_last in (False, True):
            sharded.set_requires_gradient_sync(is_last)
            sharded(torch.randn(4, 8)).square().mean().backward()
        norms.append(nn.utils.clip_grad_norm_(sharded.parameters(), 0.1).full_tensor())
        optimizer.step()
        optimizer.zero_grad()
    return [*norms, *map(whole, sharded.parameters())]


def unsharded_ahead(compile: Compile, steps: int = STEPS) -> Any:
    """Parameters are gathered before they are needed, as the program says."""
    sharded = shard(compile_blocks(model(3), compile))
    first, second, third = [each for each in sharded.modules() if isinstance(each, FSDPModule)][1:]
    first.set_modules_to_forward_prefetch([second, third])
    third.set_modules_to_backward_prefetch([second])

    def run(x: Tensor) -> Tensor:
        sharded.unshard(async_op=True).wait()
        return sharded(x)

    return train(run, sharded, steps)


def steps_compiled(compile: Compile, kind: Any, steps: int = STEPS, **options: Any) -> Any:
    sharded = shard(model())
    optimizer = kind(sharded.parameters(), 1e-2, **options)
    optimizer.step = compile(optimizer.step)
    return train(sharded, sharded, steps, optimizer)


def evaluated(compile: Compile) -> Any:
    """Weights that a library is given in an order of its own change between two evaluations."""
    torch.manual_seed(5)
    made = nn.Sequential(nn.Linear(8, 512), nn.ReLU(), compile(nn.Sequential(nn.Linear(512, 512), nn.ReLU())))
    fully_shard(made[2], reshard_after_forward=False)
    fully_shard(made, reshard_after_forward=False)
    optimizer = torch.optim.SGD(made.parameters(), 10.0)
    results = []
    for _ in range(2):
        with torch.no_grad():
            results += [made(torch.ones(64, 8)) for _ in range(2)]
        made(torch.ones(64, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return results


def flat(compile: Compile, is_whole: bool, steps: int = STEPS, **options: Any) -> Any:
    """With `FullyShardedDataParallel`."""
    made = model() if is_whole else compile_blocks(model(), compile)
    policy = ModuleWrapPolicy({Block})
    cpu = torch.device("cpu")
    sharded = FullyShardedDataParallel(made, auto_wrap_policy=policy, device_id=cpu, **options)
    losses = train(compile(sharded) if is_whole else sharded, sharded, steps)
    with FullyShardedDataParallel.summon_full_params(sharded):
        return [*losses[:steps], *map(whole, sharded.parameters())]


BLOCKS = {
    "before": blocks_before,
    "after": blocks_after,
    "in place": blocks_in_place,
    "kept whole": partial(blocks_before, reshard_after_forward=False),
    "resharded to less": partial(blocks_before, reshard_after_forward=1),
    "unsharded ahead": unsharded_ahead,
    "checkpointed": checkpointed,
    "accumulated": accumulated,
    "checkpointed outside": checkpointed_outside,
}
WHOLE = {
    "after": whole_after,
    "before": whole_before,
    "kept whole": partial(whole_after, reshard_after_forward=False),
}
FLAT = {
    "blocks": partial(flat, is_whole=False, use_orig_params=True),
    "blocks, flat": partial(flat, is_whole=False, use_orig_params=False),
    "whole": partial(flat, is_whole=True, use_orig_params=True),
    "whole, flat": partial(flat, is_whole=True, use_orig_params=False),
    "whole, kept": partial(flat, is_whole=True, use_orig_params=True, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP),
}
#: Under autocast of parameters, kernels round less often than eager does.
ROUNDED = {
    "blocks": partial(blocks_before, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32)),
    "flat": partial(
        flat, is_whole=False, use_orig_params=True, mixed_precision=MixedPrecision(torch.bfloat16, torch.float32)
    ),
}


# ---- tests -----------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def _imported() -> None:
    import_what_children_need()


def test_blocks_are_one_graph_each() -> None:
    quick = ("before", "kept whole", "unsharded ahead", "checkpointed", "accumulated")
    for counts in two_processes(compared, {name: BLOCKS[name] for name in quick}):
        for name, (graphs, breaks) in counts.items():
            assert graphs == 1, name
            assert set(breaks) <= {"communication"}, name


def test_models_break_at_their_hooks() -> None:
    for counts in two_processes(compared, {"after": whole_after}):
        for name, (graphs, breaks) in counts.items():
            assert graphs == 3, name  # what is in front of the blocks, a block, and what is behind them
            assert set(breaks) <= {"communication", "outside-iterator"}, name


def test_flat_parameters() -> None:
    for counts in two_processes(compared, {name: FLAT[name] for name in ("blocks", "whole, flat")}):
        for name, (graphs, _) in counts.items():
            assert graphs == (3 if "whole" in name else 1), name


def many_blocks() -> int:
    onegraph.reset()
    onegraph.counters.clear()
    sharded = shard(compile_blocks(model(24), compile_shared))
    sharded(torch.ones(4, 8)).sum().backward()
    graphs: int = onegraph.counters["stats"]["unique_graphs"]
    return graphs


def test_equal_blocks_are_compiled_once() -> None:
    assert two_processes(many_blocks) == [1, 1]


def test_steps_of_optimizers_are_one_graph() -> None:
    programs = {
        "SGD": partial(steps_compiled, kind=torch.optim.SGD),
        "momentum": partial(steps_compiled, kind=torch.optim.SGD, momentum=0.9),
    }
    for counts in two_processes(compared, programs):
        assert counts["SGD"] == (1, {})
        assert counts["momentum"][1] == {}


def test_weights_that_change_between_evaluations() -> None:
    two_processes(compared, {"evaluated": evaluated})


def rounded() -> list[tuple[float, int]]:
    found = []
    for program in ROUNDED.values():
        wanted = program(eagerly)
        onegraph.reset()
        onegraph.counters.clear()
        results = program(compile_shared)
        far = max(float((one - other).abs().max()) for one, other in zip(results, wanted, strict=True))
        found.append((far, onegraph.counters["stats"]["unique_graphs"]))
    return found


def test_mixed_precision() -> None:
    for found in two_processes(rounded):
        for far, graphs in found:
            assert far < 2e-3
            assert graphs == 1


def test_names_in_checkpoints() -> None:
    two_processes(names_are_those_of_eager)


def names_are_those_of_eager() -> None:
    wanted = sorted(get_model_state_dict(shard(model())))
    for compile_whole in (False, True):
        sharded = shard(model() if compile_whole else compile_blocks(model(), onegraph.compile))
        run = onegraph.compile(sharded) if compile_whole else sharded
        assert sorted(get_model_state_dict(run)) == wanted
        assert sorted(get_state_dict(run, torch.optim.Adam(sharded.parameters()))[0]) == wanted


def test_checkpoints_are_loaded_both_ways() -> None:
    with tempfile.TemporaryDirectory() as folder:
        two_processes(saved_and_loaded, folder)


def saved_and_loaded(folder: str) -> None:
    warnings.simplefilter("ignore")
    for first, second in ((onegraph.compile, eagerly), (eagerly, onegraph.compile)):
        saved = shard(compile_blocks(model(), first))
        optimizer = torch.optim.Adam(saved.parameters(), 1e-2)
        train(saved, saved, 2, optimizer)
        where = f"{folder}/{first is eagerly}"
        parts = get_state_dict(saved, optimizer)
        dcp.save({"model": parts[0], "optimizer": parts[1]}, checkpoint_id=where)
        loaded = shard(compile_blocks(model(), second))
        for parameter in loaded.parameters():
            parameter.data.zero_()
        other = torch.optim.Adam(loaded.parameters(), 1e-2)
        parts = get_state_dict(loaded, other)
        given = {"model": parts[0], "optimizer": parts[1]}
        dcp.load(given, checkpoint_id=where)
        set_state_dict(loaded, other, model_state_dict=given["model"], optim_state_dict=given["optimizer"])
        same(train(loaded, loaded, 2, other), train(saved, saved, 2, optimizer))


class Raising(Block):
    def forward(self, x: Tensor) -> Tensor:
        if dist.get_rank() == 1:
            raise ValueError("rank 1 cannot")
        return super().forward(x)


def raises_in_one_rank() -> None:
    made = model()
    made.blocks[1] = Raising()
    sharded = shard(compile_blocks(made, onegraph.compile))
    train(sharded, sharded, 1)


def test_error_in_one_process() -> None:
    with pytest.raises(AssertionError, match="rank [01] has raised"):
        two_processes(raises_in_one_rank, group_timeout=5.0)


@pytest.mark.slow
def test_twenty_steps() -> None:
    two_processes(compared, {name: partial(program, steps=20) for name, program in {**BLOCKS, **FLAT}.items()})
    two_processes(compared, {name: partial(program, steps=20) for name, program in WHOLE.items()})
    two_processes(compared, {"adam": partial(steps_compiled, kind=torch.optim.Adam, steps=20, foreach=False)})
