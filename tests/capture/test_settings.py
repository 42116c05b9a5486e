"""What settings do that are set while the process runs."""

from __future__ import annotations

import pytest
import torch

import onegraph

SIZES = [torch.rand(n) for n in (3, 4, 5)]


def graphs(change, function=lambda x: x.sin() + 1, inputs=SIZES) -> int:
    """How many graphs are compiled, by what is compiled before the setting changes."""
    made = []

    def backend(module, examples):
        made.append(module)
        return module

    compiled = onegraph.compile(function, backend=backend)
    with change:
        for x in inputs:
            args = x if isinstance(x, tuple) else (x,)
            torch.testing.assert_close(compiled(*args), function(*args))
    return len(made)


def test_nothing_is_compiled_while_disabled() -> None:
    compiled = onegraph.compile(lambda x: (x + 1, onegraph.is_compiling()), fullgraph=True)
    with onegraph.config.patch(disable=True):
        assert compiled(torch.ones(2))[1] is False
    assert compiled(torch.ones(2))[1] is True


def test_sizes_are_constants_or_symbols() -> None:
    assert graphs(onegraph.config.patch()) == 2
    assert graphs(onegraph.config.patch(assume_static_by_default=False)) == 1
    assert graphs(onegraph.config.patch(automatic_dynamic_shapes=False)) == 3
    assert graphs(onegraph.config.patch(automatic_dynamic_shapes=False, assume_static_by_default=False)) == 1


@pytest.mark.parametrize(("setting", "numbers"), [("specialize_int", [2, 3, 4]), ("specialize_float", [2.5, 3.5, 4.5])])
def test_numbers_are_constants(setting: str, numbers: list[float]) -> None:
    inputs = [(SIZES[0], number) for number in numbers]
    assert graphs(onegraph.config.patch(), lambda x, n: x * n, inputs) == 2
    assert graphs(onegraph.config.patch(setting, True), lambda x, n: x * n, inputs) == 3


def test_another_version_is_an_error() -> None:
    compiled = onegraph.compile(lambda x: x + 1)
    compiled(SIZES[0])
    with (
        onegraph.config.patch(error_on_recompile=True),
        pytest.raises(onegraph.FailOnRecompileError, match="needs another version: `x` had size"),
    ):
        compiled(SIZES[1])
    assert len(compiled(SIZES[1])) == 4


def test_too_many_versions_are_an_error() -> None:
    compiled = onegraph.compile(lambda x: x + 1, options={"recompile_limit": 1})
    compiled(SIZES[0])
    compiled(SIZES[1])
    with (
        onegraph.config.patch(fail_on_recompile_limit_hit=True),
        pytest.raises(onegraph.RecompileLimitError, match="which is the limit"),
    ):
        compiled(SIZES[1])


def test_settings_in_compiled_code_are_as_in_eager() -> None:
    def f(x):
        with onegraph.config.patch(recompile_limit=3):
            inside = onegraph.config.recompile_limit
        onegraph.config.threads = 1
        outside = onegraph.config.threads
        del onegraph.config.threads
        return x + 1, inside, outside, onegraph.config.triton.cudagraphs, onegraph.config.meaning("threads")

    compiled = onegraph.compile(f)
    for _ in range(3):
        result, *others = compiled(torch.ones(2))
        assert (result.tolist(), others) == ([2, 2], list(f(torch.ones(2))[1:]))
