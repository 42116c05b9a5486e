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


def test_versions_are_counted_in_all_functions(caplog: pytest.LogCaptureFixture) -> None:
    made = []

    def backend(module, examples):
        made.append(module)
        return module

    def f(x, n):
        return x + n

    first, second, strict = (onegraph.compile(f, backend=backend, fullgraph=each) for each in (False, False, True))
    with onegraph.config.patch(accumulated_recompile_limit=3, specialize_int=True):
        for n in (1, 2):
            first(SIZES[0], n)
        second(SIZES[0], 1)
        torch.testing.assert_close(second(SIZES[0], 2), SIZES[0] + 2)
        torch.testing.assert_close(first(SIZES[0], 3), SIZES[0] + 3)
        assert len(made) == 3
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 2 and all(
            "3 times, which is the limit (the option accumulated_recompile_limit)" in s for s in said
        )
        with pytest.raises(onegraph.RecompileLimitError, match="because it is another compiled function"):
            strict(SIZES[0], 1)
        del first
        torch.testing.assert_close(strict(SIZES[0], 1), SIZES[0] + 1)
    assert len(made) == 4


def wrong(module, examples):
    return lambda *inputs: [output + 0.5 if i == 0 else output for i, output in enumerate(module(*inputs))]


def writing(module, examples):
    def run(*inputs):
        found = module(*inputs)
        inputs[0].add_(1)
        return found

    return run


@pytest.mark.parametrize(("backend", "what"), [(wrong, "result 0"), (writing, "input, after the call, 0")])
def test_what_is_not_eager_is_an_error(backend, what: str) -> None:
    with onegraph.config.patch(verify_correctness=True):
        f = onegraph.compile(lambda x: x.sin() + 1, backend=backend)
        with pytest.raises(
            onegraph.BackendError, match=f"verify_correctness is set.*{what} is not what it is in eager"
        ):
            f(torch.ones(3))
    onegraph.compile(lambda x: x.sin() + 1, backend=backend)(torch.ones(3))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_what_is_eager_is_none(backend: str) -> None:
    def f(x, weight, buffer):
        buffer.add_(x.sum())
        x[0].mul_(2)
        noise = torch.nn.functional.dropout(x @ weight, 0.5)
        return noise, x.T, x.half().exp(), torch.where(x > 0, float("nan"), x)

    compiled = onegraph.compile(f, backend=backend, options={"verify_correctness": True})
    results = []
    for each in (f, compiled, compiled):
        torch.manual_seed(0)
        x, weight, buffer = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True), torch.zeros(())
        outputs = each(x, weight, buffer)
        outputs[0].sum().backward()
        results.append((*outputs, weight.grad, x, buffer))
    torch.testing.assert_close(results[1], results[0], equal_nan=True)
    torch.testing.assert_close(results[2], results[0], equal_nan=True)
