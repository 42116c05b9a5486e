"""What the tracer does with process groups, meshes of devices, and what communicates."""

import torch.distributed as dist

if dist.is_available():
    from onegraph.capture.policy.distributed import collectives as collectives
    from onegraph.capture.policy.distributed import groups as groups
