"""Re-encoded code behaves as the original: modules of the standard library and CPython's own tests run from it."""

from __future__ import annotations

import importlib
import types

import pytest
from capture.cpython_suite import available, encoded_module, start

# What looks at compiled code itself would differ and is not listed.
CPYTHON_TESTS = (
    "test_generators", "test_with", "test_contextlib", "test_patma", "test_except_star", "test_listcomps",
    "test_scope", "test_super", "test_coroutines", "test_type_params", "test_yield_from", "test_grammar",
)  # fmt: skip
LONG_CPYTHON_TESTS = (
    "test_exceptions", "test_sys_settrace", "test_fstring", "test_asyncgen", "test_descr", "test_dataclasses",
    "test_enum", "test_functools", "test_collections", "test_re", "test_traceback", "test_unpack_ex",
)  # fmt: skip
MAY_DIFFER = {
    "test_sys_settrace": ("JumpTestCase",),  # jumps are allowed between certain native instructions
}
LIBRARIES = ("json.decoder", "textwrap", "fractions", "dataclasses", "heapq", "string", "statistics", "configparser")


@pytest.mark.parametrize("name", available(CPYTHON_TESTS))
def test_cpythons_own_tests(name: str) -> None:
    same_outcome(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", available(LONG_CPYTHON_TESTS))
def test_more_of_cpythons_own_tests(name: str) -> None:
    same_outcome(name)


def same_outcome(name: str) -> None:
    count, differing = start("encoded", name)
    allowed = MAY_DIFFER.get(name, ())
    assert count > 0
    assert not {test: why for test, why in differing.items() if not any(part in test for part in allowed)}


@pytest.mark.parametrize("name", LIBRARIES)
def test_library_modules(name: str) -> None:
    module, original = encoded_module(name), importlib.import_module(name)
    assert sorted(vars(module)) == sorted(k for k in vars(original) if k in vars(module))
    USES.get(name, lambda m: None)(module)


def use_json(module: types.ModuleType) -> None:
    decoded = module.JSONDecoder().decode('{"a": [1, 2.5, null, "\\u00e9"], "b": {"c": false}}')
    assert decoded == {"a": [1, 2.5, None, "é"], "b": {"c": False}}


def use_textwrap(module: types.ModuleType) -> None:
    assert module.fill("the quick brown fox jumps", width=10) == "the quick\nbrown fox\njumps"
    assert module.dedent("  a\n    b\n") == "a\n  b\n"


def use_fractions(module: types.ModuleType) -> None:
    half = module.Fraction("1/2")
    assert str(half + module.Fraction(1, 3)) == "5/6" and half**2 == module.Fraction(1, 4) and float(half) == 0.5


def use_dataclasses(module: types.ModuleType) -> None:
    made = module.make_dataclass("Made", [("x", int), ("y", int, module.field(default=3))], frozen=True)
    assert repr(made(1)) == "Made(x=1, y=3)" and module.asdict(made(1, 2)) == {"x": 1, "y": 2}


def use_statistics(module: types.ModuleType) -> None:
    assert module.median([3, 1, 2]) == 2 and module.stdev([1, 2, 3]) == 1.0


def use_configparser(module: types.ModuleType) -> None:
    parser = module.ConfigParser()
    parser.read_string("[s]\na = 1\nb = %(a)s2\n")
    assert parser["s"]["b"] == "12" and parser.getint("s", "a") == 1


USES = {
    "json.decoder": use_json,
    "textwrap": use_textwrap,
    "fractions": use_fractions,
    "dataclasses": use_dataclasses,
    "statistics": use_statistics,
    "configparser": use_configparser,
}
