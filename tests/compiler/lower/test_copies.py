"""What only moves elements about is a copy in eager, also where it moves none."""

import pytest
import torch
import torch.nn.functional as F

import onegraph


def shared(results, x):
    return [[a.untyped_storage()._cdata == b.untyped_storage()._cdata for b in (x, *results)] for a in results]


PROGRAMS = {
    "flip": lambda x: (x.flip(0),),
    "roll": lambda x: (x.roll(0, 0), x.roll(3, 1)),
    "repeat": lambda x: (x.repeat(1, 1), x.tile((1,))),
    "rot90": lambda x: (torch.rot90(x, 4), torch.rot90(x, 0)),
    "resampled": lambda x: (F.interpolate(x[None], 3),),
    "squeezed": lambda x: (torch.squeeze_copy(x), x.squeeze()),
    "views of a result": lambda x: (y := x + 1, y.flip(0), y.view(-1), y.t(), y.roll(0, 0)),
    "copies before": lambda x: ((y := x + 1).flip(0), y, y.flip(0)),
    "parts of copies": lambda x: (x.flip(1)[0, 1:], x.roll(1, 1)[:, 2], (y := x.repeat(2, 1))[1], y.t()[1:]),
    "a part that is written to": lambda x: ((x + 1)[:, 1:].relu_(), torch.stack([x[0], x[0]])[1].relu_()),
    "times one": lambda x: (x * 1, x / 1.0, (y := x + 1) * 1.0, y, (x.t() * 1).t(), x.int() * 1, x.int() / 1),
    "a part times one that is written to": lambda x: ((y := x + 1)[:, 1:].mul(1).relu_(), y, (y * 1).mul_(1.0).neg_()),
    "constant": lambda x: (c := torch.tensor([1.0]), c.flip(0)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_share_memory_as_in_eager(name):
    program, x = PROGRAMS[name], torch.rand(1, 3)
    compiled = onegraph.compile(program, fullgraph=True)
    for _ in range(2):
        expected, results = program(x), compiled(x)
        assert shared(results, x) == shared(expected, x)
        for left, right in zip(results, expected, strict=True):
            assert torch.equal(left, right) and left.stride() == right.stride()
            assert left.storage_offset() == right.storage_offset()
            assert left.untyped_storage().nbytes() == right.untyped_storage().nbytes()


def test_results_of_two_calls_are_two_tensors():
    compiled = onegraph.compile(lambda: (torch.tensor([1.0]), torch.tensor([2.0]).flip(0)))
    first, second = compiled(), compiled()
    for left, right in zip(first, second, strict=True):
        left.zero_()
        assert right.item() != 0
