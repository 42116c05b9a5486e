"""Entries of the cache that were damaged, exchanged or written by somebody else, of every kind that there is.

    python -m tests.compiler.hostile_entries [--count 1000] [--seed 0]

Each time something is done to one entry of a whole cache, and the program that made it runs again, as a new process
would: it must give eager's results, and what was done to must not be used but made again. Some have the checksum of
what they hold: then what is in them must give them away. `hostile_cache` does the same to folders and files.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import shutil
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onegraph
from onegraph.base.disk_cache import DIGEST, KEY, MAGIC, DiskCache, key_of
from onegraph.compiler.codegen import elf, loading
from onegraph.compiler.library import measure


def fused(x: Tensor, y: Tensor) -> Any:
    return (x * 2.5 + y).sin().sum(0), x - y, x[:, :3] * torch.tensor([3.0, -1.0, 2.0])


def taken(x: Tensor, y: Tensor) -> Any:
    return x[(y > 0.7).long()[:, 0]] * 2, F.interpolate((x * y)[None, None], scale_factor=1.7, mode="bicubic")


def product(x: Tensor, y: Tensor) -> Any:
    return torch.addmm(y[0], x, y.t()).relu() @ y


def trained(x: Tensor, y: Tensor) -> Any:
    """The forward pass of a step of training, with products that are timed."""
    return (MODEL(x) - y[:, :16]).square().mean()


def packed(x: Tensor, y: Tensor) -> Any:
    """A product with a parameter, which is timed, too."""
    with torch.no_grad():
        return LAYER(x).relu() - y[:, :1]


torch.manual_seed(0)
LAYER = nn.Linear(64, 96)
MODEL = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 16))
PROGRAMS: tuple[Callable[..., Any], ...] = (fused, taken, product, trained, packed)
SIZES = {"fused": (4, 5), "taken": (6, 7), "product": (64, 64), "trained": (64, 64), "packed": (64, 64)}


def outcome(function: Callable[..., Any], inputs: tuple[Tensor, Tensor]) -> Any:
    """The results, or a loss with the gradients of the model."""
    result = function(*inputs)
    if not isinstance(result, Tensor) or not result.requires_grad:
        return result
    MODEL.zero_grad()
    result.backward()
    return [result.detach(), *(parameter.grad for parameter in MODEL.parameters())]


@dataclass
class Case:
    """A program, its cache when it has run, and what eager gives."""

    program: Callable[..., Any]
    root: Path
    whole: Path = field(init=False)
    wanted: Any = field(init=False)

    def __post_init__(self) -> None:
        self.whole, self.root = self.root / "whole", self.root / "user"
        self.wanted = outcome(self.program, self.inputs())
        self.run()
        self.run(captures=False)
        shutil.copytree(self.root, self.whole)

    def inputs(self) -> tuple[Tensor, Tensor]:
        torch.manual_seed(1)
        size = SIZES[self.program.__name__]
        return torch.randn(size), torch.rand(size) + 0.5

    def run(self, captures: bool = True) -> None:
        """As another process would. Where captures are found, nobody looks for plans and times."""
        onegraph.reset()
        gc.collect()
        loading.LIVING.clear()
        measure._KNOWN.clear()
        options = {"cache_dir": self.root, "verify": False, "library_calls": "measured", "smallest_recorded_graph": 0}
        options["cache_captures"] = captures
        found = onegraph.compile(self.program, fullgraph=True, options=options)
        torch.testing.assert_close(outcome(found, self.inputs()), self.wanted, rtol=1e-4, atol=1e-5)

    def entries(self) -> list[Path]:
        """Those of every kind that the program has made."""
        return sorted(path for path in self.whole.glob("*/*") if KEY.fullmatch(path.name))

    def restore(self) -> None:
        shutil.rmtree(self.root)
        shutil.copytree(self.whole, self.root)
        self.root.chmod(0o700)


@dataclass(frozen=True)
class Turn:
    """One entry to do something to."""

    chance: random.Random
    case: Case
    entry: Path
    others: list[Path]

    @property
    def kind(self) -> str:
        return self.entry.parent.name

    def content(self) -> bytes:
        return self.entry.read_bytes()[len(MAGIC) + DIGEST :]

    def seal(self, content: bytes) -> None:
        """Written as the cache would, with the right checksum."""
        assert DiskCache(self.entry.parent).store(self.entry.name, content)


Deed = Callable[[Turn], bool | None]  # False: there is nothing to do it to


# ---- without the checksum --------------------------------------------------------------------------------------------


def turn_a_bit(turn: Turn) -> None:
    data = bytearray(turn.entry.read_bytes())
    data[turn.chance.randrange(len(data))] ^= 1 << turn.chance.randrange(8)
    turn.entry.write_bytes(data)


def cut(turn: Turn) -> None:
    data = turn.entry.read_bytes()
    turn.entry.write_bytes(data[: turn.chance.randrange(len(data))])


def lengthen(turn: Turn) -> None:
    turn.entry.write_bytes(turn.entry.read_bytes() + turn.chance.randbytes(1 + turn.chance.randrange(99)))


def exchange(turn: Turn) -> None:
    """A whole entry, of this kind or another one, under this name."""
    shutil.copy(turn.chance.choice(turn.others), turn.entry)


def of_another_version(turn: Turn) -> None:
    data = turn.entry.read_bytes()
    other = turn.chance.choice([b"onegraph object 1\n", b"onegraph object 3\n", b"onegraph store 2.\n"])
    turn.entry.write_bytes(other + data[len(MAGIC) :])


def of_another_processor(turn: Turn) -> None:
    """What another machine has kept has another name, also on a disk that both use."""
    content, other = turn.content(), key_of("another processor", turn.entry.name)
    turn.entry.unlink()
    DiskCache(turn.entry.parent).store(other, content)


# ---- with the checksum -----------------------------------------------------------------------------------------------


def sealed_noise(turn: Turn) -> None:
    turn.seal(turn.chance.randbytes(turn.chance.randrange(3000)))


def sealed_cut(turn: Turn) -> None:
    content = turn.content()
    turn.seal(content[: turn.chance.randrange(len(content))])


def sealed_exchange(turn: Turn) -> bool:
    """What another entry holds, of this kind or another one. Of code only the names in it say what it is, and of times
    and digests nothing does."""
    same = turn.kind in ("captures", "plans")
    others = [path for path in turn.others if same or path.parent.name != turn.kind]
    turn.seal(turn.chance.choice(others).read_bytes()[len(MAGIC) + DIGEST :])
    return True


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


#: What stands nowhere in an entry; deep nesting is put in as text.
WRONG: tuple[Any, ...] = (
    {"Unknown": [1]}, {"eval": "exit()"}, {"float": "0x1p99999"}, {"float": 1}, {"bytes": "?"}, {"set": [[], {}]}, {},
    {"Slot": []}, {"Slot": [1, 2]}, {"Slot": "a"}, {"complex": [1]}, 1.5, {"Launch": 7}, {"KeptPlan": [1, 2]}, [[[[]]]],
    {"DType": "exec"}, {"DType": []}, "nested",
)  # fmt: skip
BAD_NUMBERS = (-1, -7, 1 << 40, 1 << 63, -(1 << 63), 10**30, 1 << 31)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Containers of a JSON value, with the index of each thing in them."""
    found = []
    if isinstance(value, dict | list):
        for index, item in value.items() if isinstance(value, dict) else enumerate(value):
            found += [(value, index), *places(item)]
    return found


def json_of(turn: Turn) -> Any:
    try:
        return json.loads(turn.content())
    except ValueError:
        return None


def wrong_type(turn: Turn) -> bool:
    value = json_of(turn)
    found = [(at, index) for at, index in places(value) if not is_text_of_words(at, index)]
    if not found:
        return False
    container, index = turn.chance.choice(found)
    container[index] = turn.chance.choice(WRONG)
    text = json.dumps(value).replace('"nested"', "[" * 5000 + "]" * 5000)
    turn.seal(text.encode())
    return True


def is_text_of_words(container: Any, index: Any) -> bool:
    """A text, in the place of which any other text is as good: a message."""
    return isinstance(container[index], str)


def wrong_number(turn: Turn) -> bool:
    """In a plan: slots, registers, kernels, offsets, sizes, strides, nodes of the graph; in times, a time."""
    value = json_of(turn)
    if turn.kind == "plans":
        parts = [value["KeptPlan"][part] for part in (1, 3, 4)]
    elif turn.kind == "times":
        parts = [value]
    else:
        return False
    unused = [c[i][3] for c, i in places(value) if i == "Alloc"]  # strides: those of one element do not matter
    unused += [c[i] for c, i in places(value) if i == "KernelInfo"]  # bytes and operations: for reports
    found = [(c, i) for part in parts for c, i in places(part) if type(c[i]) in (int, float)]
    found = [(c, i) for c, i in found if not any(c is each for each in unused)]
    container, index = turn.chance.choice(found)
    container[index] = turn.chance.choice([n for n in BAD_NUMBERS if turn.kind == "plans" or n < 0])
    turn.seal(json.dumps(value).encode())
    return True


def fields_more_or_less(turn: Turn) -> bool:
    value = json_of(turn)
    lists = [c[i] for c, i in places(value) if isinstance(c, dict) and isinstance(c[i], list) and i != "set"]
    lists = [each for each in lists if each]
    if not lists or turn.kind not in ("plans", "times"):
        return False
    found = turn.chance.choice(lists)
    if turn.chance.random() < 0.5:
        found.append(turn.chance.choice([0, "", None]))
    else:
        del found[turn.chance.randrange(len(found))]
    turn.seal(json.dumps(value).encode())
    return True


def steps_less(turn: Turn) -> bool:
    """A plan without what fills a slot that is used, or without its end."""
    if turn.kind != "plans":
        return False
    value = json_of(turn)
    steps = value["KeptPlan"][1]["ExecPlan"][5]
    needed = [k for k, step in enumerate(steps) if next(iter(step)) in ("Alloc", "ViewOf", "ExternCall", "Return")]
    del steps[turn.chance.choice(needed)]
    turn.seal(json.dumps(value).encode())
    return True


def other_call(turn: Turn) -> bool:
    """An operator that the graph has not, or other arguments of one that it has."""
    value = json_of(turn) if turn.kind == "plans" else None
    calls = [c[i] for c, i in places(value) if i == "ExternCall"]
    if not calls:
        return False
    call = turn.chance.choice(calls)
    if turn.chance.random() < 0.5:
        call[0] = turn.chance.choice(["aten.set_.source_Tensor", "aten.from_file.default", "zzz", "os.system.default"])
    else:
        call[1].append(turn.chance.choice([1, "none", 0]))
    turn.seal(json.dumps(value).encode())
    return True


def other_headers(turn: Turn) -> bool:
    """An object file for another processor, of another kind, or whose tables lead out of it."""
    if turn.kind != "objects":
        return False
    data = bytearray(turn.content())
    head = list(elf.HEADER.unpack_from(data))
    at, value = turn.chance.choice([(1, 3), (2, 183 if head[2] == 62 else 62), (6, 1 << 40), (12, 60_000), (11, 40)])
    head[at] = value
    elf.HEADER.pack_into(data, 0, *head)
    turn.seal(bytes(data))
    return True


def other_tables(turn: Turn) -> bool:
    if turn.kind != "objects":
        return False
    data = bytearray(turn.content())
    head = elf.HEADER.unpack_from(data)
    start, count = head[6], head[12]
    rows = [[*elf.SECTION.unpack_from(data, start + 64 * number)] for number in range(count)]
    kind = turn.chance.choice([elf.SYMBOLS, elf.RELOCATIONS])
    number, row = next((number, row) for number, row in enumerate(rows) if row[1] == kind and row[5])
    if turn.chance.random() < 0.3:
        row[turn.chance.choice([4, 5])] = 1 << turn.chance.choice([32, 50, 63])
        elf.SECTION.pack_into(data, start + 64 * number, *row)
    elif kind == elf.RELOCATIONS:
        struct.pack_into("<Q", data, row[4], 1 << turn.chance.choice([30, 40, 63]))
    else:
        each = 1 + turn.chance.randrange(row[5] // 24 - 1)
        struct.pack_into("<I", data, row[4] + 24 * each, 1 << 30)  # where its name stands
    turn.seal(bytes(data))
    return True


DAMAGE: tuple[Deed, ...] = (turn_a_bit, cut, lengthen, exchange, of_another_version, of_another_processor)
SEALED: tuple[Deed, ...] = (
    sealed_noise, sealed_cut, sealed_exchange, wrong_type, wrong_number, fields_more_or_less, steps_less, other_call,
    other_headers, other_tables,
)  # fmt: skip


@dataclass
class Found:
    done: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    used: list[str] = field(default_factory=list)  # what was done and did not matter, or was not seen


@contextmanager
def asking() -> Iterator[set[str]]:
    """The names of the entries that are asked for."""
    asked: set[str] = set()
    load = DiskCache.load

    def noted(self: DiskCache, key: str) -> bytes | None:
        asked.add(key)
        return load(self, key)

    DiskCache.load = noted  # type: ignore[method-assign]
    try:
        yield asked
    finally:
        DiskCache.load = load  # type: ignore[method-assign]


def search(count: int, seed: int, root: Path) -> Found:
    """Do so many things, each to a whole cache. A wrong result, or an error, is raised."""
    chance, found = random.Random(seed), Found()
    cases = [Case(program, root / program.__name__) for program in PROGRAMS]
    kinds = sorted({path.parent.name for case in cases for path in case.entries()})
    while sum(found.done.values()) < count:
        kind = chance.choice(kinds)
        case, entry = chance.choice([(c, e) for c in cases for e in c.entries() if e.parent.name == kind])
        case.restore()
        deed = chance.choice(DAMAGE + SEALED)
        others = [path for each in cases for path in each.entries() if path.name != entry.name]
        turn = Turn(chance, case, case.root / kind / entry.name, others)
        if deed(turn) is False:
            continue
        found.done[deed.__name__] += 1
        found.kinds[kind] += 1
        before = turn.entry.read_bytes() if turn.entry.exists() else None
        with asking() as asked:
            case.run(captures=kind in ("captures", "sources") or kind == "objects" and chance.random() < 0.5)
        after = turn.entry.read_bytes() if turn.entry.exists() else None
        if kind == "times":  # what the machine was too busy to settle is not kept
            assert all(time >= 0 for times in measure._KNOWN.values() for time in times.values())
        elif after == before and entry.name in asked:  # on a busy machine other library calls may be chosen
            found.used.append(f"{deed.__name__} {kind} {case.program.__name__} turn {sum(found.done.values())}")
    onegraph.reset()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = search(args.count, args.seed, Path(folder))
    print(", ".join(f"{name} {times}" for name, times in sorted(found.done.items())))
    print(f"{args.count} entries ({dict(found.kinds)}): all results are right, {len(found.used)} were used")
    print("\n".join(found.used))
    raise SystemExit(bool(found.used))


if __name__ == "__main__":
    main()
