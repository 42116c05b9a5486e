"""A cache whose files and folders were damaged, swapped or put there by somebody else, many times over.

    python -m tests.compiler.hostile_cache [--count 500] [--seed 0]

Each time something is done to one entry or to a folder, and all functions are asked for again: each must give its own
value, entries that nothing was done to must still serve, and what was done must not be used. The code that somebody
else puts there is whole, with the right checksum, and answers with another value.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from ctypes import CFUNCTYPE, c_int64
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from onegraph.base.disk_cache import MAGIC, DiskCache, _digest, key_of
from onegraph.compiler.codegen import native

TEXT = "define i64 @answer(i64 %x) {{\n  %r = add i64 %x, {}\n  ret i64 %r\n}}\n"
ENTRIES = 6
FOREIGN = 10_000  # what code of somebody else answers, and more
NOBODY = 65_534


@dataclass(frozen=True)
class World:
    """A cache in a folder of its own, `root/user/objects`, and the function of each number in it."""

    root: Path
    chance: random.Random

    @property
    def user(self) -> Path:
        return self.root / "user"

    @property
    def objects(self) -> Path:
        return self.user / "objects"

    def path(self, number: int) -> Path:
        return self.objects / key(number)

    def ask(self, number: int) -> tuple[int, bool]:
        """What the function of this number answers, and whether it was found in the cache."""
        code = native.compile_text(TEXT.format(number), ["answer"], kept=DiskCache(self.objects))
        return CFUNCTYPE(c_int64, c_int64)(code.addresses["answer"])(0), code.cached

    def foreign(self, number: int) -> bytes:
        """An entry for this number, whole, with code that the compiler did not make for it."""
        target = native.machine()
        code = target.emit_object(native.optimized(TEXT.format(FOREIGN + number), target))
        return MAGIC + _digest(key(number), code) + code

    def other(self, number: int) -> int:
        return self.chance.choice([other for other in range(ENTRIES) if other != number])


def key(number: int) -> str:
    return key_of(TEXT.format(number), *native.description(), str(native.llvm.llvm_version_info))


Deed = Callable[[World, int], object]


def turn_a_bit(world: World, number: int) -> None:
    data = bytearray(world.path(number).read_bytes())
    data[world.chance.randrange(len(data))] ^= 1 << world.chance.randrange(8)
    world.path(number).write_bytes(data)


def cut(world: World, number: int) -> None:
    data = world.path(number).read_bytes()
    world.path(number).write_bytes(data[: world.chance.randrange(len(data))])


def lengthen(world: World, number: int) -> None:
    world.path(number).write_bytes(
        world.path(number).read_bytes() + world.chance.randbytes(1 + world.chance.randrange(99))
    )


def overwrite(world: World, number: int) -> None:
    data = bytearray(world.path(number).read_bytes())
    start = world.chance.randrange(len(data))
    data[start : start + 64] = world.chance.randbytes(64)
    world.path(number).write_bytes(data)


def noise(world: World, number: int) -> None:
    world.path(number).write_bytes(MAGIC + world.chance.randbytes(world.chance.randrange(5000)))


def of_another_key(world: World, number: int) -> None:
    shutil.copy(world.path(world.other(number)), world.path(number))


def without_the_key(world: World, number: int) -> None:
    """A checksum of the content alone, as any other one's is."""
    content = world.foreign(number)[len(MAGIC) + 32 :]
    world.path(number).write_bytes(MAGIC + _digest(key(world.other(number)), content) + content)


def link(world: World, number: int) -> None:
    (world.root / "elsewhere").write_bytes(world.foreign(number))
    world.path(number).unlink()
    world.path(number).symlink_to(world.root / "elsewhere")


def link_to_itself(world: World, number: int) -> None:
    world.path(number).unlink()
    world.path(number).symlink_to(key(number))


def pipe(world: World, number: int) -> None:
    world.path(number).unlink()
    os.mkfifo(world.path(number))


def unix_socket(world: World, number: int) -> None:
    world.path(number).unlink()
    os.mknod(world.path(number), stat.S_IFSOCK | 0o600)


def huge(world: World, number: int) -> None:
    os.truncate(world.path(number), 4 << 30)


def writable(world: World, number: int) -> None:
    world.path(number).write_bytes(world.foreign(number))
    world.path(number).chmod(world.chance.choice([0o666, 0o620, 0o602]))


def device(world: World, number: int) -> None:
    world.path(number).unlink()
    null, zero, noise = 3, 5, 8
    os.mknod(world.path(number), stat.S_IFCHR | 0o600, os.makedev(1, world.chance.choice([null, zero, noise])))


def of_somebody_else(world: World, number: int) -> None:
    world.path(number).write_bytes(world.foreign(number))
    os.chown(world.path(number), NOBODY, NOBODY)


ENTRY_DEEDS: list[Deed] = [
    turn_a_bit, cut, lengthen, overwrite, noise, of_another_key, without_the_key,
    link, link_to_itself, pipe, unix_socket, huge, writable,
]  # fmt: skip
SYSTEM_ENTRY_DEEDS: list[Deed] = [device, of_somebody_else]  # what only the system may do


def replaced(world: World) -> None:
    """Another folder in the place of `objects`, with entries that are whole."""
    shutil.rmtree(world.objects)
    world.objects.mkdir(0o700)
    for number in range(ENTRIES):
        world.path(number).write_bytes(world.foreign(number))


def open_objects(world: World) -> None:
    replaced(world)
    world.objects.chmod(world.chance.choice([0o777, 0o770, 0o707, 0o1777]))


def open_parent(world: World) -> None:
    replaced(world)
    world.user.chmod(world.chance.choice([0o777, 0o770, 0o707]))


def link_to_an_open_folder(world: World) -> None:
    replaced(world)
    (world.root / "public").mkdir()
    (world.root / "public").chmod(0o777)
    world.objects.rename(world.root / "public" / "objects")
    world.objects.symlink_to(world.root / "public" / "objects")


def pipe_for_a_folder(world: World) -> None:
    shutil.rmtree(world.objects)
    os.mkfifo(world.objects)


def foreign_objects(world: World) -> None:
    replaced(world)
    os.chown(world.objects, NOBODY, NOBODY)


def foreign_parent(world: World) -> None:
    replaced(world)
    os.chown(world.user, NOBODY, NOBODY)


def foreign_link(world: World) -> None:
    replaced(world)
    world.objects.rename(world.root / "theirs")
    world.objects.symlink_to(world.root / "theirs")
    os.chown(world.objects, NOBODY, NOBODY, follow_symlinks=False)


FOLDER_DEEDS: list[Callable[[World], None]] = [open_objects, open_parent, link_to_an_open_folder, pipe_for_a_folder]
SYSTEM_FOLDER_DEEDS: list[Callable[[World], None]] = [foreign_objects, foreign_parent, foreign_link]


@dataclass
class Found:
    """What came out: how often each thing was done, and what must not be."""

    done: Counter[str]
    foreign: int = 0  # answers of code that is not the function's own
    used: int = 0  # times that something was found where nothing may be
    lost: int = 0  # entries that nothing was done to and that did not serve


def search(count: int, seed: int, root: Path) -> Found:
    """Do `count` things, one after the other, each to a whole cache."""
    chance = random.Random(seed)
    system = os.geteuid() == 0
    entry_deeds = ENTRY_DEEDS + (SYSTEM_ENTRY_DEEDS if system else [])
    folder_deeds = FOLDER_DEEDS + (SYSTEM_FOLDER_DEEDS if system else [])
    found = Found(Counter())
    for turn in range(count):
        world = World(root / str(turn), chance)
        world.user.mkdir(0o700, parents=True)
        filled(world, root / "whole")
        if chance.random() < 0.75:
            number = chance.randrange(ENTRIES)
            deed = chance.choice(entry_deeds)
            deed(world, number)
            touched = {number}
        else:
            folder_deed = chance.choice(folder_deeds)
            folder_deed(world)
            deed, touched = folder_deed, set(range(ENTRIES))
        found.done[deed.__name__] += 1
        for number in range(ENTRIES):
            answer, cached = world.ask(number)
            found.foreign += answer != number
            found.used += cached and number in touched
            found.lost += not cached and number not in touched
        shutil.rmtree(world.root)
    return found


def filled(world: World, whole: Path) -> None:
    """A cache that holds all functions: made once, then copied."""
    if not whole.exists():
        for number in range(ENTRIES):
            world.ask(number)
        shutil.copytree(world.objects, whole)
    else:
        shutil.copytree(whole, world.objects)
        world.objects.chmod(0o700)


def race(count: int, root: Path) -> tuple[int, int]:
    """Loads while another thread swaps the folder for one that is not trusted; how many were served, and wrongly."""
    world = World(root / "race", random.Random(0))
    world.user.mkdir(0o700, parents=True)
    filled(world, root / "whole")
    own = DiskCache(world.objects).load(key(0))
    theirs, aside = world.user / "theirs", world.user / "aside"
    shutil.copytree(world.objects, theirs)
    (theirs / key(0)).write_bytes(world.foreign(0))
    theirs.chmod(0o777)
    with swapping(world.objects, theirs, aside):
        loads = [DiskCache(world.objects).load(key(0)) for _ in range(count)]
    return sum(load == own for load in loads), sum(load not in (own, None) for load in loads)


@contextmanager
def swapping(one: Path, other: Path, aside: Path):
    over = Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(one, aside)
            os.rename(other, one)
            os.rename(aside, other)

    thread = Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = search(args.count, args.seed, Path(folder))
        served, wrong = race(20 * args.count, Path(folder))
    print(", ".join(f"{name} {times}" for name, times in sorted(found.done.items())))
    print(
        f"{args.count} caches: foreign code ran {found.foreign} times, refused entries were used {found.used} times, ",
        end="",
    )
    print(
        f"{found.lost} whole entries were lost; {20 * args.count} loads while folders were swapped: {served} served, ",
        end="",
    )
    print(f"{wrong} of them foreign")
    raise SystemExit(bool(found.foreign or found.used or found.lost or wrong))


if __name__ == "__main__":
    main()
