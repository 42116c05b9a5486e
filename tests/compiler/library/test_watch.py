"""Parameters whose memory the kernel watches: where it can, no write is missed; where it cannot, they are read."""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from onegraph import _C
from onegraph.base.config import Config
from onegraph.compiler.library.recipe import Recipe, check_of, keeping

PAGE = mmap.PAGESIZE
PAGES = 64
SIZE = PAGES * PAGE // 4  # elements
WATCHED = int(_C.can_watch())


def copied(weight: Tensor) -> Tensor:
    return weight.clone()


def kept() -> _C.KeptForEach:
    keep = keeping(Recipe(copied, (), (4,)), "watch")
    assert isinstance(keep, _C.KeptForEach)
    return keep


def watched(keep: _C.KeptForEach) -> int:
    return sum(each.watched for each in keep.all)


def private(size: int = SIZE) -> tuple[mmap.mmap, Tensor]:
    """Numbers in pages of their own, from the first byte on."""
    memory = mmap.mmap(-1, size * 4, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return memory, torch.frombuffer(memory, dtype=torch.float32).fill_(1)


def test_how_parameters_are_checked() -> None:
    assert check_of(Config()) == ("watch" if WATCHED else "digest")
    assert check_of(Config(watch_parameters=False)) == "digest"
    assert check_of(Config(freeze_parameters=True)) == "version"


def test_a_watched_weight_is_made_once() -> None:
    memory, weight = private()
    keep = kept()
    first = keep(weight)
    assert watched(keep) == WATCHED
    assert all(keep(weight) is first for _ in range(100))


@pytest.mark.parametrize("start", [0, 1, PAGE // 4 - 1])
@pytest.mark.parametrize("place", [0, 1, PAGE // 4, SIZE // 2, SIZE - PAGE // 4 - 1, SIZE - 2])
def test_a_write_to_any_page_is_seen(start: int, place: int) -> None:
    """Those before the first whole page and behind the last one are read."""
    memory, whole = private()
    weight = whole[start : SIZE - 1]
    keep = kept()
    keep(weight)
    assert watched(keep) == WATCHED
    for number in range(1, 20):  # it is watched again after a while
        weight.data[place - start if place > start else 0] = number
        for _ in range(number):
            assert torch.equal(keep(weight), weight)


def test_it_is_watched_again_less_and_less_often() -> None:
    """A write to a watched page takes a fault: who writes all the time should not pay for it."""
    memory, weight = private()
    keep = kept()
    waits = []
    for _ in range(4 * WATCHED):
        keep(weight)
        weight.data[0] += 1
        keep(weight)
        assert watched(keep) == 0
        waits.append(0)
        while not watched(keep):
            keep(weight)
            waits[-1] += 1
    assert waits == sorted(set(waits))


def test_what_the_kernel_writes_is_seen(tmp_path: Path) -> None:
    memory, weight = private()
    keep = kept()
    keep(weight)
    file = tmp_path / "numbers"
    file.write_bytes(np.full(10, 5, np.float32).tobytes())
    with file.open("rb", buffering=0) as stream:
        stream.readinto(memoryview(memory)[PAGE * 3 : PAGE * 3 + 40])
    assert torch.equal(keep(weight), weight) and weight[PAGE * 3 // 4] == 5


@pytest.mark.parametrize("length", [PAGE, PAGES * PAGE])
def test_pages_that_are_given_back_are_seen(length: int) -> None:
    """They are zero when they are read again, without a write."""
    memory, weight = private()
    keep = kept()
    keep(weight)
    memory.madvise(mmap.MADV_DONTNEED, 0, length)
    assert torch.equal(keep(weight), weight) and weight[0] == 0


def test_huge_pages_are_watched() -> None:
    memory = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    weight = torch.frombuffer(memory, dtype=torch.float32).fill_(1)
    keep = kept()
    first = keep(weight)
    assert keep(weight) is first and watched(keep) == WATCHED
    for place in (0, 1 << 20, (2 << 20) - 1):
        weight.data[place] = 2
        assert torch.equal(keep(weight), weight)


def test_shared_memory_is_read() -> None:
    """Another process may write to it, which this one's pages do not show."""
    weight = torch.ones(SIZE).share_memory_()
    keep = kept()
    keep(weight)
    keep(weight)
    assert watched(keep) == 0
    weight.data[7] = 3
    assert torch.equal(keep(weight), weight)


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_memory_of_a_file_is_read(tmp_path: Path, mode: str) -> None:
    """Another process may write to the file; also pages of a private mapping show that, until they are written to."""
    file = tmp_path / "weight"
    file.write_bytes(np.ones(SIZE, np.float32).tobytes())
    array: np.memmap = np.memmap(file, np.float32, mode)  # type: ignore[call-overload, type-arg]
    weight = torch.from_numpy(array)
    keep = kept()
    keep(weight)
    assert watched(keep) == 0
    with file.open("r+b") as stream:
        stream.write(np.full(1, 9, np.float32).tobytes())
    assert torch.equal(keep(weight), weight) and weight[0] == 9


def test_two_that_watch_the_same_see_the_same_write() -> None:
    memory, weight = private()
    one, other = kept(), kept()
    one(weight)
    other(weight)
    weight.data[SIZE // 2] = 2
    assert torch.equal(one(weight), weight)
    for _ in range(3):
        one(weight)  # begins to watch anew
    assert torch.equal(other(weight), weight)


def test_what_overlaps_with_a_watched_weight_hides_no_write() -> None:
    memory, weight = private(2 * SIZE)
    whole, half = kept(), kept()
    whole(weight)
    weight.data[SIZE // 2] = 2
    half(weight[:SIZE])  # protects the page that was written to
    assert torch.equal(whole(weight), weight)
    weight.data[3] = 3
    whole(weight)
    assert torch.equal(half(weight[:SIZE]), weight[:SIZE])


def test_who_stops_watching_leaves_others_watching() -> None:
    memory, weight = private()
    one, other = kept(), kept()
    one(weight)
    first = other(weight)
    del one
    assert other(weight) is first and watched(other) == WATCHED
    weight.data[SIZE // 2] = 2
    assert torch.equal(other(weight), weight)


def test_other_memory_at_the_same_address_is_seen() -> None:
    weight = torch.ones(8 << 20)
    keep = kept()
    for number in range(5):
        keep(weight)
        address = weight.data_ptr()
        weight.data = torch.empty(0)
        weight.data = torch.full((8 << 20,), float(number))  # large: it is mapped anew, mostly at the same address
        assert torch.equal(keep(weight), weight), address


def test_a_fork_watches_its_own_memory() -> None:
    memory, weight = private()
    keep = kept()
    first = keep(weight)
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # the threads of the parent are not in its child
        right = True
        for number in range(2, 8):
            weight.numpy()[number] = number
            right = right and bool((keep(weight).numpy() == weight.numpy()).all())
            for _ in range(1 << number):
                keep(weight)
        right = right and watched(keep) == WATCHED
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert keep(weight) is first and watched(keep) == WATCHED
    weight.data[5] = 9
    assert torch.equal(keep(weight), weight)


def test_what_is_watched_is_not_read_but_named() -> None:
    """Its name is what graphs share by that was made of it."""
    memory, weight = private()
    equal = weight.clone()
    names = [_C.Kept(lambda name, tensor: name, (4,), "watch")(each) for each in (weight, weight, equal, equal[1:])]
    assert names[0] == names[1]
    assert len({*names}) == (3 if WATCHED else 2)
    one, other = kept(), kept()
    first = one(weight)
    assert other(weight) is first
    weight.data[SIZE // 2] = 2
    assert other(weight) is not first
    assert one(weight) is other(weight)


def test_memory_that_was_given_back_is_not_read_before_a_fork() -> None:
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        weight, keep = torch.ones(8 << 20), kept()  # large: what is mapped for it goes with it
        keep(weight)
        weight.data = torch.empty(0)
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(0)
        os._exit(os.waitpid(grandchild, 0)[1])
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("place", [0, SIZE // 2, SIZE - 2])
def test_a_fork_keeps_what_was_made_until_something_changes(place: int) -> None:
    """What is the same as before the fork is not made again: it would have memory of its own."""
    memory, whole = private()
    weight = whole[1:]
    keep, other = kept(), kept()
    first = keep(weight)
    assert other(weight) is first
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        right = keep(weight) is first and keep(weight) is first and watched(keep) == WATCHED
        weight.data[place] += 0  # written to, and equal
        right = right and keep(weight) is first and other(weight) is first
        weight.data[place] = 7
        right = right and all(torch.equal(each(weight), weight) for each in (keep, other, keep, other))
        grandchild = os.fork()
        if grandchild == 0:
            right = right and torch.equal(keep(weight), weight)
            weight.data[place] = 8
            right = right and all(torch.equal(each(weight), weight) for each in (keep, other))
            os._exit(0 if right else 1)
        os._exit(0 if os.waitpid(grandchild, 0)[1] == 0 and right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert keep(weight) is first
    weight.data[place] = 9
    assert torch.equal(keep(weight), weight) and torch.equal(other(weight), weight)


SANDBOX = """
import ctypes, struct
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
allow_all = Program(1, struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, ctypes.byref(allow_all)) == 0
from onegraph import _C
assert not _C.can_watch()
"""
CLOSED = """
import os
from onegraph import _C
_C.can_watch()
os.closerange(3, 50)
files = [os.open(os.devnull, os.O_RDONLY) for _ in range(40)]
child = os.fork()
if child == 0:
    [os.fstat(file) for file in files]
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("program", [SANDBOX, CLOSED], ids=["system calls are filtered", "files are closed"])
def test_processes_of_other_kinds(program: str) -> None:
    """A filter might end a process that asks; a program may give the numbers of the descriptors to other files."""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("seed", range(4))
def test_no_change_is_missed_whatever_is_watched(seed: int) -> None:
    """Weights and parts of them, kept by several at once, while any of them is written to, freed or made anew."""
    chance = random.Random(seed)
    memory, pool = private(8 * SIZE)
    weights = [pool[start:end] for start, end in pairwise(sorted(chance.sample(range(8 * SIZE), 12)))]
    weights += [pool, pool[5 : 4 * SIZE], torch.ones(SIZE + 3), torch.ones(3 * SIZE)]
    keeps = [(kept(), chance.randrange(len(weights))) for _ in range(24)]
    for _ in range(600):
        number = chance.randrange(len(weights))
        match chance.randrange(12):
            case 0:
                weights[number].data[chance.randrange(len(weights[number]))] += 1
            case 1:
                weights[number].numpy()[chance.randrange(len(weights[number])) :] = chance.random()
            case 2:
                memory.madvise(
                    mmap.MADV_DONTNEED, PAGE * chance.randrange(8 * PAGES), PAGE * chance.randrange(1, PAGES)
                )
            case 3:
                weights[-1] = torch.full((chance.choice([SIZE, 3 * SIZE]),), chance.random())
            case 4:
                keeps[chance.randrange(len(keeps))] = kept(), number
            case _:
                keep, of = chance.choice(keeps)
                assert torch.equal(keep(weights[of]), weights[of])
    assert all(torch.equal(keep(weights[of]), weights[of]) for keep, of in keeps)
