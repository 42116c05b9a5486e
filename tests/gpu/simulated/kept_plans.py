"""python -m gpu.simulated.kept_plans: run a program on a simulated device, and print what was compiled and launched.

Its kernels compute nothing: only Triton could have them do so, and it is to be seen that nobody asks for it.
"""

from __future__ import annotations

import json
import os
import sys

from gpu import simulated

simulated.install()

import torch  # noqa: E402  # behind the devices
import torch.nn.functional as F  # noqa: E402
from gpu.driver import StandIn  # noqa: E402
from gpu.simulated.images import image_for  # noqa: E402

import onegraph  # noqa: E402
from onegraph.base.events import DiskSearched  # noqa: E402
from onegraph.compile import EVENTS  # noqa: E402
from onegraph.compiler.triton import cubins  # noqa: E402
from onegraph.compiler.triton.cubins import Cubin  # noqa: E402
from onegraph.compiler.triton.gpu import Gpu  # noqa: E402
from onegraph.compiler.triton.sources import Source  # noqa: E402

COMPILED: list[tuple[str, bool]] = []


def compiled(source: Source, gpu: Gpu) -> Cubin:
    COMPILED.append((source.name, source.aligned))
    return image_for(source, gpu)


def main() -> None:
    cubins.compiled = compiled
    driver = StandIn()
    simulated.link(driver)
    driver.set(devices=2, capability=90, shared=232448)
    os.environ["ONEGRAPH_CUDA_DRIVER"] = driver.path
    searched: list[tuple[str, bool]] = []
    device, begin = sys.argv[1], int(sys.argv[2])
    x = torch.ones(404, device=device)[begin : begin + 400].requires_grad_()

    def note(event: object) -> None:
        if isinstance(event, DiskSearched):
            searched.append((event.stage, event.found))

    EVENTS.subscribe(note)
    y = onegraph.compile(lambda x: torch.dropout(torch.softmax(x.view(-1, 4) * 2, 1).sin(), 0.1, True))(x)
    y.sum().backward()
    captures = [is_found for stage, is_found in searched if stage == "capture"]
    plans, made = [is_found for stage, is_found in searched if stage == "plan"], [*COMPILED]
    launches = [launch.kernel for launch in driver.launches()]
    searched.clear()
    onegraph.compile(lambda x: F.interpolate(x, size=(9, 4), mode="bicubic"))(torch.ones(1, 2, 6, 7, device=device))
    found = {
        "compiled": made,
        "launches": launches,
        "triton": "triton" in sys.modules,
        "captures": captures,
        "plans": plans,
        "plans with tables": [is_found for stage, is_found in searched if stage == "plan"],
        "complaints": driver.complaints(),
    }
    print(json.dumps(found))


main()
