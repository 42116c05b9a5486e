"""What kernels that draw random numbers ask of a device's generator, as operators.

The generators of GPUs are Philox's: a seed and an offset, which each draw moves on. Draws go in the program's order.
"""

from __future__ import annotations

import torch
from torch import Tensor

from onegraph.torchlib.aten import define

NUMBERS = 1 << 64
CAPTURED = (
    "a compiled graph draws random numbers in a CUDA graph of the program's own, where the generator's offset cannot be"
    " read: compile it with options={'fallback_random': True}, and torch's operators draw"
)
REACH = 1 << 31
TOO_LARGE = (
    "eager mode draws a tensor of 2 GiB or more in parts, and a graph for sizes that change does not: compile it with"
    " dynamic=False, or with options={'fallback_random': True}, and torch's operators draw"
)
_STATE = "philox_state(int moves, int largest, *, Device device) -> Tensor"


def generator_of(device: torch.device) -> torch.Generator:
    """The default generator of the device."""
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.cuda.default_generators[index]


def philox_state(moves: int, largest: int, *, device: torch.device) -> Tensor:
    """Move the generator's offset on. Gives the seed and the offset before, in memory of the device, in its order.

    Nobody waits for the device: both are arguments of kernels that fill memory.

    Raises:
        RuntimeError: for a tensor of `largest` bytes that eager draws in parts, and while a CUDA graph is captured.
    """
    if largest >= REACH:
        raise RuntimeError(TOO_LARGE)
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(CAPTURED)
    generator = generator_of(device)
    seed, offset = generator.initial_seed(), generator.get_offset()
    generator.set_offset(offset + moves)
    state = torch.full((2,), seed - NUMBERS if seed >= NUMBERS >> 1 else seed, dtype=torch.int64, device=device)
    state[1:].fill_(offset)
    return state


def address(x: Tensor) -> int:
    """Where the first element is in memory."""
    return x.data_ptr()


define(_STATE, (torch.Tag.nondeterministic_seeded,), BackendSelect=philox_state)
define("address(Tensor x) -> int", CompositeExplicitAutograd=address)
