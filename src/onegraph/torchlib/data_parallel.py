"""DistributedDataParallel around a module that is captured: what is done before the graph, and behind it.

    prepared(ddp) ──► graph of ddp.module ──► finished(ddp) ──► ... backward pass, in which torch's reducer
    buffers of the first rank, buckets                          reduces the gradients, bucket by bucket

Both are torch's own code; nothing of it computes with what the graph computes.
"""

from __future__ import annotations

import weakref
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from onegraph.base.dataclass import dataclass
from onegraph.torchlib.private import DATA_PARALLEL

MEBIBYTE = 1 << 20
#: What torch calls the size of the first bucket, in bytes: it is small, so that something travels early.
FIRST_BUCKET = getattr(torch.distributed, "_DEFAULT_FIRST_BUCKET_BYTES", MEBIBYTE)
#: Attributes of a DistributedDataParallel that are set where it does something that is not known here.
UNKNOWN = ("_use_python_reducer", "_delay_all_reduce_params", "device_ids", "mixed_precision")
#: The one that says whether the gradients of a static graph will be reduced behind its first backward pass.
DELAYED = "_static_graph_delay_allreduce_enqueued"
#: Those that say how large buckets are.
BUCKETS = ("bucket_bytes_cap", "bucket_bytes_cap_default")


@dataclass(frozen=True, slots=True)
class Buckets:
    """How gradients are put together for their way: bytes at which a bucket is full, of the first one and so on; those
    behind the last one are as it is."""

    limits: tuple[int, ...]


#: Some gradients are reduced behind that of one parameter, so that they must come one by one, in eager's order.
DELAYING = Buckets(())


def forward(ddp: Any, *inputs: Any, **kwargs: Any) -> Any:
    """`DistributedDataParallel.forward`, as it is traced."""
    prepare(ddp)
    return finish(ddp, ddp.module(*inputs, **kwargs))


def prepare(ddp: Any) -> None:
    """What is done before the forward pass: buckets are built again, buffers are those of the first rank. Where it is
    traced, `prepared` does it, before the graph."""
    DATA_PARALLEL.before(ddp)


def finish(ddp: Any, output: Any) -> Any:
    """The output of the module as its caller sees it. Where it is traced, `finished` does the rest behind the graph."""
    return DATA_PARALLEL.behind(ddp, output)


def prepared(ddp: DistributedDataParallel, sync: bool | None, recording: bool) -> None:
    """`sync` is what `no_sync` chooses, and `recording` whether gradients are recorded, where the program calls it.
    None is what is chosen outside of the program."""
    with torch.set_grad_enabled(recording), Synchronizing(ddp, sync):
        DATA_PARALLEL.before(ddp)


def finished(ddp: DistributedDataParallel, sync: bool | None, recording: bool, *outputs: Tensor) -> None:
    """What is done behind the forward pass. `outputs` are those with gradients, where the backward pass asks for them:
    to find the parameters without gradients, or to reduce all of them behind the first one of a static graph."""
    with torch.set_grad_enabled(recording), Synchronizing(ddp, sync):
        delayed = ddp.static_graph and not getattr(ddp, DELAYED)
        DATA_PARALLEL.behind(ddp, outputs)
    if delayed:  # the node of the outputs would see to it, on whose way the gradients do not come
        told = SimpleNamespace(ddp_weakref=weakref.ref(ddp))
        for output in outputs:
            output.register_hook(lambda gradient: DATA_PARALLEL.sink.backward(told, gradient)[1])


class Synchronizing:
    """Within it, the backward pass that comes reduces gradients, or does not."""

    def __init__(self, ddp: DistributedDataParallel, sync: bool | None) -> None:
        self.ddp, self.sync = ddp, sync

    def __enter__(self) -> None:
        self.before = self.ddp.require_backward_grad_sync
        if self.sync is not None:
            self.ddp.require_backward_grad_sync = self.sync

    def __exit__(self, *_: object) -> None:
        self.ddp.require_backward_grad_sync = self.before


def buckets_of(ddp: Any) -> Buckets:
    """How the gradients of the parameters of a DistributedDataParallel travel."""
    if getattr(ddp, "_delay_all_reduce_params", ()):
        return DELAYING
    if given := getattr(ddp, "bucket_bytes_cap_list", None):
        return Buckets(tuple(given))
    each: int = ddp.bucket_bytes_cap
    return Buckets((FIRST_BUCKET, each) if ddp.bucket_bytes_cap_default else (each,))


def cut_for(buckets: Buckets) -> AbstractContextManager[None]:
    """Within it, backward passes of what is captured are cut as if a DistributedDataParallel with these buckets held
    the module. Nothing travels."""
    cutting: AbstractContextManager[None] = DATA_PARALLEL.inside(SimpleNamespace(bucket_bytes_cap_list=buckets.limits))
    return cutting


def active_buckets() -> Buckets | None:
    """Those of the DistributedDataParallel whose forward pass runs now."""
    active = DATA_PARALLEL.active() if DATA_PARALLEL.is_there else None
    return None if active is None else buckets_of(active)
