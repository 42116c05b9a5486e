"""How tensors lie to each other in memory: the pairs that have common bytes, of which one is written to."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from native.guarding import check

from onegraph import _C


@pytest.fixture(params=["libtorch", "python"], autouse=True)
def abi(request: pytest.FixtureRequest) -> Iterator[str]:
    yield _C.tensor_abi(request.param)
    _C.tensor_abi("libtorch")


def memory(*tensors: torch.Tensor, written: tuple[int, ...] = (0,), varying: bool = False) -> _C.Memory:
    return _C.Memory(tensors, tuple(index in written for index in range(len(tensors))), tuple(varying for _ in tensors))


def addresses(tensor: torch.Tensor) -> set[int]:
    """The addresses of the bytes of the elements."""
    places = {0}
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        places = {place + step * stride for place in places for step in range(size)}
    size = tensor.element_size()
    return {tensor.data_ptr() + place * size + byte for place in places for byte in range(size)}


def random_tensor(rng: random.Random, buffer: torch.Tensor) -> torch.Tensor:
    """Elements of the buffer at random strides."""
    whole = buffer.view(rng.choice([torch.uint8, torch.int16, torch.int32]))
    while True:
        shape = [rng.randint(0 if rng.random() < 0.05 else 1, 4) for _ in range(rng.randint(0, 4))]
        strides = [rng.choice([0, 1, 2, 3, 4, 6, 8, 12, 16]) for _ in shape]
        offset = rng.randint(0, 30)
        if offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) < whole.numel():
            return whole.as_strided(shape, strides, offset)


def test_tensors_meet_if_they_have_a_byte_in_common() -> None:
    rng = random.Random(0)
    buffer = torch.zeros(256, dtype=torch.uint8)
    answers = []
    for _ in range(400):
        a, b = random_tensor(rng, buffer), random_tensor(rng, buffer)
        expected = bool(a.numel() and b.numel() and addresses(a) & addresses(b))
        assert memory(a, b, varying=rng.random() < 0.5).meetings == (((0, 1),) if expected else ())
        answers.append(expected)
    assert 0.2 < sum(answers) / len(answers) < 0.9


def test_slices_of_one_buffer_are_as_good_as_tensors_apart() -> None:
    buffer = torch.zeros(4, 12)
    q, k, v = buffer[:, :4], buffer[:, 4:8], buffer[:, 8:]
    apart = memory(q, k, v, written=(0, 1))
    assert apart.meetings == () and apart.written == (True, True, False)
    assert apart.holds((q, k, v)) and apart.holds((v, q, k)) and apart.holds((q, torch.zeros(4, 4), v))
    assert not apart.holds((q, q, v)) and not apart.holds((q, k, buffer[:, 3:7])) and not apart.holds((q, k, q))
    assert memory(q, k, v, written=(0,)).holds((q, k, k)), "what is only read may be one"


def test_tensors_that_meet_have_to_meet_in_the_same_way() -> None:
    buffer = torch.zeros(20)
    shifted = memory(buffer[:8], buffer[1:9])
    assert shifted.meetings == ((0, 1),)
    assert shifted.holds((buffer[4:12], buffer[5:13]))
    assert not shifted.holds((buffer[:8], buffer[2:10])) and not shifted.holds((buffer[1:9], buffer[:8]))
    assert not shifted.holds((buffer[:8], torch.zeros(8)))


def test_of_sizes_that_change_the_ends_decide() -> None:
    buffer = torch.zeros(20)
    same = memory(buffer[:8], buffer[:8].view(-1), varying=True)
    assert same.holds((buffer[:5], buffer[:5].view(-1))) and not same.holds((buffer[:5], buffer[:4]))
    apart = memory(buffer[:8], buffer[8:], varying=True)
    assert apart.holds((buffer[:4], buffer[4:])) and not apart.holds((buffer[:9], buffer[8:]))


def test_arrays_of_another_library_may_share_memory_too() -> None:
    array = torch.zeros(8).numpy()
    a, b = torch.from_numpy(array[:6]), torch.from_numpy(array[2:])
    assert a.untyped_storage()._cdata != b.untyped_storage()._cdata and memory(a, b).meetings == ((0, 1),)


def test_empty_tensors_are_nowhere() -> None:
    x = torch.zeros(4, 4)
    nothing = memory(x, x[:0], x[:, 2:2], torch.zeros(0), written=(0, 1, 2, 3))
    assert nothing.meetings == () and nothing.holds((x, x[1:1], x[:, :0], torch.zeros(0)))


def test_the_order_of_addresses_may_change() -> None:
    buffer = torch.zeros(64)
    parts = list(buffer.split(4))
    apart = memory(*parts, written=(3, 7))
    for seed in range(20):
        random.Random(seed).shuffle(parts)
        assert apart.holds(tuple(parts))
        assert not apart.holds((*parts[:7], buffer[parts[3].storage_offset() :][:4], *parts[8:]))


def test_the_instruction() -> None:
    x, y = torch.zeros(4), torch.zeros(4)
    apart = memory(x, y)
    instructions = (("ITEM", 1, 0, 0), ("ITEM", 2, 0, 1), ("MEMORY", 2))
    assert check((x, y), *instructions, consts=(0, 1, (apart, 1, 2)))
    assert not check((x, x[1:]), *instructions, consts=(0, 1, (apart, 1, 2)))
    assert not check((x, 1), *instructions, consts=(0, 1, (apart, 1, 2)))
    for others in ((apart, 1), (apart,), (apart, 1, 2, 1)):
        assert not check((x, y), *instructions, consts=(0, 1, others))
    for wrong in ((), (1, 2), (apart, 1, 9)):
        with pytest.raises(ValueError, match="is expected"):
            check((x, y), *instructions, consts=(0, 1, wrong))
    with pytest.raises(ValueError, match="is expected"):
        check((x, y), *instructions, consts=(0, 1, apart))


def test_what_is_no_tensor_is_refused() -> None:
    x = torch.zeros(2)
    with pytest.raises(TypeError, match="a tensor is expected"):
        _C.Memory((1,), (True,), (False,))
    with pytest.raises(ValueError, match="must be said of each"):
        _C.Memory((x,), (True, False), (False,))
    for wrong in ((x,), (x, 1), x):
        with pytest.raises(TypeError, match="2 tensors"):
            memory(x, x).holds(wrong)  # type: ignore[arg-type]
