"""What the stand-in of the driver is given in the place of code."""

from __future__ import annotations

from gpu.driver import image_of

from onegraph.compiler.triton.cubins import Cubin
from onegraph.compiler.triton.gpu import Gpu
from onegraph.compiler.triton.sources import Source


def image_for(source: Source, gpu: Gpu) -> Cubin:
    types = "".join("p" if kind[0] == "*" else "i" for kind in source.signature.values())
    facts = {"aligned": 16 if source.aligned else 1}
    return Cubin(image_of({source.name: (types, facts)}, gpu.capability), 32 * source.blocks.warps, 0)
