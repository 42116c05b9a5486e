"""Torch's other names for what is said here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch._dynamo

import onegraph
from onegraph.base.torch_names import ELSEWHERE


@pytest.fixture(autouse=True)
def _default_backend() -> Iterator[None]:
    yield
    onegraph.set_default_backend(None)


def test_optimize_is_compile() -> None:
    seen = []

    def backend(module, examples):
        seen.append(module)
        return module

    @onegraph.optimize(backend, dynamic=True)
    def f(x):
        return x.sin() + 1

    for n in (3, 4):
        torch.testing.assert_close(f(torch.ones(n)), torch.ones(n).sin() + 1)
    assert len(seen) == 1
    assert onegraph.optimize(disable=True)(len) is len


def test_optimize_assert_wants_one_graph() -> None:
    @onegraph.optimize_assert("eager")
    def f(x):
        print(x)
        return x

    with pytest.raises(onegraph.GraphBreakError):
        f(torch.ones(2))


def test_the_default_backend() -> None:
    seen = []

    def backend(module, examples):
        seen.append(module)
        return module

    assert onegraph.get_default_backend() == "native"
    before = onegraph.compile(lambda x: x + 1)
    onegraph.set_default_backend(backend)
    assert onegraph.get_default_backend() is backend
    onegraph.compile(lambda x: x + 1)(torch.ones(2))
    before(torch.ones(2))
    onegraph.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert len(seen) == 1
    with pytest.raises(onegraph.InvalidArgument, match="unknown backend 'nativ' .did you mean 'native'"):
        onegraph.set_default_backend("nativ")
    with onegraph.config.patch(backend="none"), pytest.raises(onegraph.InvalidArgument, match="unknown backend 'none'"):
        onegraph.compile(lambda x: x)
    onegraph.set_default_backend(None)
    assert onegraph.get_default_backend() == "native"


def test_what_there_is_nothing_to_say_of() -> None:
    @onegraph.nested_compile_region
    def region(x):
        return x * 2

    @onegraph.compile(fullgraph=True)
    def f(x):
        onegraph.cudagraph_mark_step_begin()
        onegraph.cudagraph_mark_warmup_incomplete()
        return region(x), onegraph.is_exporting()

    result, exporting = f(torch.ones(2))
    assert result.tolist() == [2, 2]
    assert exporting is onegraph.is_exporting() is False
    assert onegraph.nested_compile_region(max_reuse_entries=3)(region) is region
    with pytest.raises(onegraph.InvalidArgument, match="nested_compile_region expects a function"):
        onegraph.nested_compile_region(3)
    onegraph.reset_code_caches()


def test_a_backend_by_name() -> None:
    graph = torch.fx.symbolic_trace(lambda x: x.sin() + 1)
    for name in ("eager", "native"):
        made = onegraph.lookup_backend(name)(graph, [torch.ones(3)])
        torch.testing.assert_close(made(torch.ones(3)), torch.ones(3).sin() + 1)
    assert onegraph.lookup_backend(len) is len
    with pytest.raises(onegraph.InvalidArgument, match="unknown backend 'natve' .did you mean 'native'"):
        onegraph.lookup_backend("natve")


def test_old_names_of_settings_and_files() -> None:
    with onegraph.patch_dynamo_config(cache_size_limit=3):
        assert onegraph.config.recompile_limit == 3
    assert onegraph.dont_skip_tracing(len) is len


@pytest.mark.parametrize("module", [torch.compiler, torch._dynamo], ids=lambda module: module.__name__)
def test_each_name_of_torch_is_here_or_says_what_to_use(module) -> None:
    missing = sorted(set(module.__all__) - set(onegraph.__all__) - set(ELSEWHERE))
    assert missing == []
    assert not set(ELSEWHERE) & set(onegraph.__all__)
    with pytest.raises(AttributeError, match="no attribute 'replay': onegraph.explain"):
        onegraph.replay  # noqa: B018
