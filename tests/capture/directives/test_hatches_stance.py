"""When regions compile: frozen functions, the stance of the process, errors that are suppressed, who is compiling."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.directives.spellings import both_spellings
from tests.capture.resume.test_breaks import Watch

X = torch.arange(4.0)
OTHER = torch.ones(2, 3)


def leaf(x):
    return x.sin() + 1


@pytest.fixture
def compiled() -> Any:
    made = onegraph.compile(leaf, backend="eager")
    made(X)
    return made


# ---- run -------------------------------------------------------------------------------------------------------------


def test_frozen_reuses_and_compiles_nothing(compiled: Any) -> None:
    frozen = onegraph.run(compiled)
    with Watch() as watch:
        for x in (X, OTHER, X):
            assert torch.equal(frozen(x), leaf(x))
    assert not watch.seen and frozen.__name__ == "leaf"
    with Watch() as watch:
        compiled(OTHER)
        assert watch.graphs == [2]
        frozen(OTHER)
    assert watch.graphs == [2]


def test_frozen_function_finds_what_was_compiled_from_it(compiled: Any) -> None:
    frozen = onegraph.run(leaf)
    entry = onegraph._C.entries(leaf.__code__, compiled.context)[0]
    before = entry.hits
    assert torch.equal(frozen(X), leaf(X)) and entry.hits == before + 1
    assert torch.equal(onegraph.run(lambda x: x + 1)(X), X + 1)  # nothing was compiled: it is just called


def test_frozen_module_and_block(compiled: Any) -> None:
    net = torch.nn.Linear(4, 4).requires_grad_(False)
    frozen = onegraph.run(onegraph.compile(net))
    with Watch() as watch, onegraph.run():
        assert torch.equal(frozen(X), net(X)) and torch.equal(compiled(OTHER), leaf(OTHER))
    assert not watch.seen and isinstance(frozen, torch.nn.Linear)


@both_spellings
def test_frozen_in_compiled_code_is_the_function(spelling: Any, compiled: Any) -> None:
    frozen = onegraph.run(compiled)
    with Watch() as watch:
        assert torch.equal(onegraph.compile(lambda x: frozen(x) * 2, backend="eager")(X), leaf(X) * 2)
        assert torch.equal(onegraph.compile(lambda x: spelling.run(leaf)(x) * 2, backend="eager")(X), leaf(X) * 2)
    assert watch.graphs == [3, 3]


def test_other_threads_are_not_frozen(compiled: Any) -> None:
    with Watch() as watch, onegraph.run():
        thread = threading.Thread(target=compiled, args=(OTHER,))
        thread.start()
        thread.join()
    assert watch.graphs == [2]


def test_skip_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="use onegraph.disable\\(recursive=False\\)"):
        skipped = onegraph.skip(lambda x: leaf(x + 1))
    with Watch() as watch:
        onegraph.compile(lambda x: skipped(x * 2) * 2, backend="eager")(X)
    assert watch.graphs == [1, 2, 1]


# ---- stances ---------------------------------------------------------------------------------------------------------


def test_force_eager(compiled: Any) -> None:
    entry = onegraph._C.entries(leaf.__code__, compiled.context)[0]
    before = entry.hits
    with Watch() as watch, onegraph.set_stance("force_eager"):
        assert torch.equal(compiled(X), leaf(X)) and torch.equal(compiled(OTHER), leaf(OTHER))
    assert not watch.seen and entry.hits == before
    compiled(X)
    assert entry.hits == before + 1


def test_eager_on_recompile(compiled: Any) -> None:
    entry = onegraph._C.entries(leaf.__code__, compiled.context)[0]
    before = entry.hits
    with Watch() as watch, onegraph.set_stance("eager_on_recompile"):
        assert torch.equal(compiled(X), leaf(X)) and torch.equal(compiled(OTHER), leaf(OTHER))
    assert not watch.seen and entry.hits == before + 1


def test_fail_on_recompile_names_the_guard(compiled: Any) -> None:
    with onegraph.set_stance("fail_on_recompile"):
        compiled(X)
        with pytest.raises(onegraph.FailOnRecompileError, match=r"`x` had size \[4\], has \[2, 3\]"):
            compiled(OTHER)
        with pytest.raises(RuntimeError, match="was not compiled yet"):
            onegraph.compile(leaf)(X)


def test_as_a_function_and_as_a_decorator(compiled: Any) -> None:
    @onegraph.set_stance("fail_on_recompile")
    def strict(x):
        return compiled(x)

    compiled(OTHER[0])  # the decorator itself has not changed the stance
    with pytest.raises(onegraph.FailOnRecompileError):
        strict(OTHER)
    onegraph.set_stance("fail_on_recompile")
    try:
        with pytest.raises(onegraph.FailOnRecompileError):
            compiled(OTHER)
        with onegraph.set_stance("eager_on_recompile"):
            compiled(OTHER)
    finally:
        onegraph.set_stance("default")
    with Watch() as watch:
        compiled(OTHER)
    assert watch.graphs == [2]


def test_torch_stances_count_too(compiled: Any) -> None:
    with torch.compiler.set_stance("eager_on_recompile"), Watch() as watch:
        assert torch.equal(compiled(OTHER), leaf(OTHER))
    assert not watch.seen
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(onegraph.FailOnRecompileError):
        compiled(OTHER)


@pytest.mark.parametrize("module", [onegraph, torch.compiler], ids=["onegraph", "torch"])
def test_not_in_compiled_code(module: Any) -> None:
    def f(x):
        module.set_stance("force_eager")
        return x

    with pytest.raises(onegraph.ForbiddenCallError, match="set_stance"):
        onegraph.compile(f)(X)
    decorated = module.set_stance("force_eager")(leaf)
    with pytest.raises(onegraph.ForbiddenCallError, match="leaf"):
        onegraph.compile(lambda x: decorated(x))(X)


def test_not_in_a_region() -> None:
    def f(x):
        onegraph.skip_frame()
        onegraph.set_stance("force_eager")

    with pytest.raises(onegraph.OnegraphError, match="cannot be changed in a compiled region"):
        onegraph.compile(f)(X)


def test_stances_that_are_refused() -> None:
    with pytest.raises(onegraph.InvalidArgument, match="unknown stance 'force_eagr' \\(did you mean 'force_eager'"):
        onegraph.set_stance("force_eagr")
    with pytest.raises(onegraph.InvalidArgument, match="unknown stance 'eager_then_compile'"):
        onegraph.set_stance("eager_then_compile")
    with pytest.raises(onegraph.InvalidArgument, match="guards are never skipped"):
        onegraph.set_stance("default", skip_guard_eval_unsafe=True)
    with pytest.raises(onegraph.InvalidArgument, match="'force_backend' is refused"):
        onegraph.set_stance("default", force_backend="eager")
    with pytest.raises(onegraph.InvalidArgument, match="'stance' expects a name"):
        onegraph.set_stance(3)


# ---- suppressed errors -----------------------------------------------------------------------------------------------


def failing(module, examples):
    raise KeyError("no such kernel")


def test_suppressed_errors_run_eagerly() -> None:
    with pytest.raises(onegraph.BackendError, match="KeyError"):
        onegraph.compile(leaf, backend=failing)(X)
    suppressed = onegraph.compile(leaf, backend=failing, options={"suppress_errors": True})
    with Watch() as watch:
        assert torch.equal(suppressed(X), leaf(X)) and torch.equal(suppressed(X), leaf(X))
    assert "KeyError: 'no such kernel'" in watch.of(ev.FrameSkipped)[0].reason


def test_fullgraph_suppresses_nothing() -> None:
    for settings in ({"fullgraph": True}, {}):
        whole = onegraph.compile(
            leaf if settings else onegraph.error_on_graph_break(True)(lambda x: onegraph.graph_break()),
            backend=failing,
            options={"suppress_errors": True},
            **settings,
        )
        with pytest.raises(onegraph.OnegraphError):
            whole(X)


# ---- who is compiling ------------------------------------------------------------------------------------------------


def test_is_compiling() -> None:
    for question in (
        onegraph.is_compiling,
        onegraph.is_dynamo_compiling,
        torch.compiler.is_compiling,
        torch.compiler.is_dynamo_compiling,
        torch._dynamo.external_utils.is_compiling,
    ):
        assert question() is False
        assert torch.equal(onegraph.compile(lambda x, q=question: x + 1 if q() else x - 1)(X), X + 1)
    assert torch.equal(onegraph.compile(onegraph.nonstrict_trace(lambda x: x + onegraph.is_compiling()))(X), X + 1)
    assert torch.equal(onegraph.compile(onegraph.disable(lambda x: x + onegraph.is_compiling()))(X), X)
