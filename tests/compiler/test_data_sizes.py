"""Native code of graphs with sizes that only the data say."""

from __future__ import annotations

import re

import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch


def chosen(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    first, second = x[x > 0.5], y[y > 0.5]
    return torch.ones(first.shape[0]) * 3, (y * y).sin(), first + second, first[:2] * 2


def test_what_needs_a_size_stands_behind_the_call_that_gives_it_and_its_checks() -> None:
    torch.manual_seed(0)
    x = torch.rand(20)
    with Watch() as watch:
        compiled = onegraph.compile(chosen, fullgraph=True)
        torch.testing.assert_close(compiled(x, x), chosen(x, x))
    (fused,) = watch.of(ev.FusionDone)
    (planned,) = watch.of(ev.MemoryPlanned)
    steps = [line for line in fused.text().splitlines() if re.match(r"  (\S+ = |kernel )", line)]
    sizes = [n for n, line in enumerate(steps) if "extern aten.index.Tensor" in line]
    checks = [n for n, line in enumerate(steps) if "onegraph.is_expected" in line]
    users = [n for n, line in enumerate(steps) if line.startswith("  kernel") and "m0" in line]
    assert len(sizes) == 2 and checks and users and max(checks) < min(users)
    assert min(checks) > min(sizes) and any(n > max(sizes) for n in checks)  # the two sizes are to be equal
    assert fused.text().count("  size m") == 2 and len(re.findall(r"size of s\d+ along 0", planned.text())) == 2


def test_a_number_is_a_result_of_a_call() -> None:
    def made(n: torch.Tensor) -> torch.Tensor:
        return torch.arange(n.item()) * 2

    with Watch() as watch:
        compiled = onegraph.compile(made, fullgraph=True)
        for count in (3, 0, 1, 7):
            torch.testing.assert_close(compiled(torch.tensor(count)), made(torch.tensor(count)))
    (fused,) = watch.of(ev.FusionDone)
    assert "(u0) = extern aten._local_scalar_dense.default(" in fused.text()
