"""What strides say of memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from onegraph.torchlib.strides import is_dense

BLOCK = torch.empty(2, 3, 4, 5)


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (BLOCK, True),
        (BLOCK.permute(2, 0, 3, 1), True),
        (BLOCK.contiguous(memory_format=torch.channels_last), True),
        (BLOCK[1:], True),
        (BLOCK[:, :1, :1, :], False),
        (BLOCK[:, 1:], False),
        (BLOCK[..., ::2], False),
        (BLOCK[:1].expand(2, 3, 4, 5), False),
        (torch.empty(()), True),
        (torch.empty(1, 1).as_strided((1, 1), (7, 3)), True),
    ],
)
def test_dense_tensors_have_each_place_of_a_block_once(tensor: Tensor, expected: bool) -> None:
    assert is_dense(tensor.shape, tensor.stride()) is expected
