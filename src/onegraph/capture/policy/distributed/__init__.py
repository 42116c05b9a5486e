"""What the tracer does with process groups, meshes of devices, and what communicates, and DistributedDataParallel.

It is imported where the process belongs to a group: elsewhere such calls are errors, which they say themselves.
"""

from onegraph.capture.policy.distributed import collectives, data_parallel, groups, sharded_tensors

POLICIES = (collectives, data_parallel, groups, sharded_tensors)


def prepare() -> None:
    """There are rows when this module is there."""
