"""Object files that are put in their place without LLVM: they do the same, and what is not known is left to LLVM."""

from __future__ import annotations

import ctypes
import gc
import mmap
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from onegraph.base.config import Config
from onegraph.compiler.codegen import elf, linking, made_for, native
from onegraph.compiler.codegen.linking import Compiled, placed

TEXT = """
@numbers = private constant [3 x double] [double 1.5, double 2.5, double 4.5]
@inners = private constant [1 x ptr] [ptr @inner]
declare double @cos(double)
declare i32 @omp_get_num_threads()
define internal double @inner(double %x) noinline { %y = call double @cos(double %x) ret double %y }
define double @outer(double %x, i64 %k) {
  %f = load volatile ptr, ptr @inners
  %y = call double %f(double %x)
  %p = getelementptr [3 x double], ptr @numbers, i64 0, i64 %k
  %n = load double, ptr %p
  %z = fmul double %y, %n
  ret double %z
}
define i32 @threads() { %n = call i32 @omp_get_num_threads() ret i32 %n }
"""
UNKNOWN = {
    "a variable": "@v = global i64 3\ndefine i64 @f() { %r = load i64, ptr @v ret i64 %r }",
    "a variable of zeros": "@v = internal global [9 x i64] zeroinitializer\ndefine ptr @f() { ret ptr @v }",
    "one for each thread": "@v = thread_local global i64 3\ndefine i64 @f() { %r = load i64, ptr @v ret i64 %r }",
    "what is nowhere": "declare void @nobody_has_this()\ndefine void @f() { call void @nobody_has_this() ret void }",
}


def emitted(text: str) -> bytes:
    target = native.machine()
    made: bytes = target.emit_object(native.optimized(text, target))
    return made


@pytest.fixture(scope="module")
def code() -> bytes:
    return emitted(TEXT)


def outer(made: Compiled) -> list[float]:
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64)(made.addresses["outer"])
    return [function(0.1 * k, k % 3) for k in range(9)]


def test_it_does_what_it_does_by_llvm(code: bytes) -> None:
    names = ["outer", "threads"]
    made, wanted = placed(code, names, ""), native.linked_object(code, names, "", "")
    assert made is not None and wanted is not None
    assert outer(made) == outer(wanted)
    assert ctypes.CFUNCTYPE(ctypes.c_int)(made.addresses["threads"])() == 1


def test_its_memory_is_not_written_to_and_goes_with_it(code: bytes) -> None:
    made = placed(code, ["outer"], "")
    assert made is not None
    address = made.addresses["outer"]
    assert rights_at(address) == "r-xp" and rights_at(address + mmap.PAGESIZE) == "r--p"  # where its constants are
    made = None
    gc.collect()
    assert rights_at(address) != "r-xp"


def rights_at(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(each, 16) for each in line.split()[0].split("-"))
        if start <= address < end:
            return line.split()[1]
    return ""


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_left_to_llvm(name: str) -> None:
    assert placed(emitted(UNKNOWN[name]), ["f"], "") is None


def test_functions_that_are_not_there_are_not_found(code: bytes) -> None:
    assert placed(code, ["outer", "cos"], "") is None
    assert placed(code, ["numbers"], "") is None


def test_damaged_files_are_refused_or_lead_nowhere(code: bytes) -> None:
    """Addresses are those of code within the memory that was taken."""
    chance = random.Random(1)
    start = elf.HEADER.unpack_from(code)[6]
    for _ in range(2000):
        data = bytearray(code)
        at = chance.choice([chance.randrange(len(data)), chance.randrange(start, len(data)), chance.randrange(64)])
        struct.pack_into("<B", data, at, chance.randrange(256))
        try:
            made = placed(bytes(data), ["outer"], "")
        except ValueError:
            continue
        assert made is None or rights_at(made.addresses["outer"]) == "r-xp"


@pytest.mark.parametrize(("field", "value"), [(5, 1 << 40), (5, 1 << 20), (8, 3), (8, 1 << 30)])
def test_sections_that_need_too_much_are_refused(code: bytes, field: int, value: int) -> None:
    head = elf.HEADER.unpack_from(code)
    for number in range(head[12]):
        data, at = bytearray(code), head[6] + number * elf.SECTION.size
        row = [*elf.SECTION.unpack_from(data, at)]
        if row[2] & linking.ALLOCATE and row[1] != linking.UNWINDING and row[5]:
            row[field] = value
            elf.SECTION.pack_into(data, at, *row)
            try:
                assert placed(bytes(data), ["outer"], "") is None
            except ValueError as error:
                assert "this is no object file" in str(error)


IDENTITY = """
import sys
from pathlib import Path
import torch, onegraph
from onegraph.base.config import Config
from onegraph.compiler.codegen import made_for
made_for.CPUINFO = sys.argv[2]
print(made_for.identity(Config(cache_dir=Path(sys.argv[1]), target_cpu=sys.argv[3])), "llvmlite" in sys.modules)
"""


def test_llvm_is_asked_once_for_each_kind_of_processor(tmp_path: Path) -> None:
    facts, other = tmp_path / "facts", tmp_path / "other"
    facts.write_text("processor\t: 0\nmodel\t: 6\ncpu MHz\t: 100\nflags\t: sse avx\n\nprocessor\t: 1\n")
    other.write_text("processor\t: 0\nmodel\t: 6\nflags\t: sse\n\n")
    cache = tmp_path / "cache"

    def asked(facts: Path, cpu: str = "") -> list[str]:
        run = [sys.executable, "-c", IDENTITY, str(cache), str(facts), cpu]
        done = subprocess.run(run, capture_output=True, text=True, check=True)
        *said, imported = done.stdout.rsplit(maxsplit=1)
        assert said == [native.identity(cpu).strip()]
        return [imported]

    assert asked(facts) == ["True"] and asked(facts) == ["False"]
    facts.write_text(facts.read_text().replace("100", "200"))
    assert asked(facts) == ["False"]
    assert asked(other) == ["True"] and asked(facts, "x86-64-v2") == ["True"] and asked(other) == ["False"]
    assert asked(tmp_path / "missing") == ["True"] and asked(tmp_path / "missing") == ["True"]


def test_what_is_here_is_what_llvm_says() -> None:
    assert made_for.identity(Config()) == native.identity()
    assert made_for.question()
