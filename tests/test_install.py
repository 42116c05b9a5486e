"""onegraph in the place of torch.compile, and torch as it was behind it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from import_graph import ROOT

import onegraph
from onegraph.base import events as ev
from onegraph.base import settings
from onegraph.compile import EVENTS
from onegraph.install import INSTALLED, torch_compile
from onegraph.tools.record import recording


@pytest.fixture(autouse=True)
def _uninstalled() -> Iterator[None]:
    onegraph.uninstall()
    yield
    onegraph.uninstall()


def names() -> dict[tuple[str, str], Any]:
    """Every object that torch, its compiler's modules and their classes have by a name."""
    modules = [torch, torch.compiler, torch.nn.Module]
    modules += [sys.modules[name] for name in ("torch._dynamo", "torch._dynamo.config") if name in sys.modules]
    modules += [type(module) for module in modules]
    return {(repr(owner), name): value for owner in modules for name, value in list(vars(owner).items())}


def is_compiled(function: Any) -> bool:
    return hasattr(function, "onegraph_region") or hasattr(type(function), "onegraph_region")


def test_torch_is_as_it_was() -> None:
    import torch._dynamo.config

    before = names()
    with onegraph.install():
        assert torch.compile is torch_compile
        assert torch._dynamo.optimize is onegraph.optimize
    after = names()
    assert before.keys() == after.keys()
    assert [key for key, value in before.items() if after[key] is not value] == []
    assert sys.meta_path == [finder for finder in sys.meta_path if type(finder).__module__ != "onegraph.install"]


def test_functions_that_torch_disables_itself_are_left_to_it() -> None:
    """torch keeps what it makes of them in the function, beyond `uninstall`."""
    import torch._dynamo

    def plain(x):
        return x + 1

    with onegraph.install():
        marked = torch._compile._disable_dynamo(plain)
        graphs = onegraph.explain(lambda x: marked(x * 2) * 2)(torch.ones(2)).graph_count
        assert marked(torch.ones(2)).tolist() == [2, 2]
        assert isinstance(torch._dynamo.disable(plain, reason="so"), type(onegraph.disable(plain)))
    assert graphs == 2
    assert type(vars(plain)["__dynamo_disable"]).__module__ != "onegraph._C"


def test_what_torch_compile_makes_is_ours() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU())
    x = torch.randn(3, 4)
    expected = model(x)
    stock = torch.compile(model, backend="eager")
    with onegraph.install():
        compiled = torch.compile(model, mode="max-autotune", fullgraph=True, backend="inductor", name="mine")
        decorated = torch.compile(dynamic=True, options={"triton.cudagraphs": False})(lambda x: x + 1)
        old = torch._dynamo.optimize("inductor", nopython=True)(lambda x: x + 1)
        assert is_compiled(compiled) and is_compiled(decorated) and is_compiled(old) and not is_compiled(stock)
        model.compile()
        assert is_compiled(model._compiled_call_impl)
        torch.testing.assert_close(model(x), expected)
    torch.testing.assert_close(compiled(x), expected)
    torch.testing.assert_close(stock(x), expected)
    assert not is_compiled(torch.compile(lambda x: x))


def test_arguments_of_torch_alone() -> None:
    with onegraph.install():
        f = torch.compile(lambda x: x + 1, recompile_limit=1, isolate_recompiles=True)
        assert f.onegraph_region.cx.config.recompile_limit == 1
        with pytest.raises(onegraph.InvalidArgument, match="mark_dynamic"):
            torch.compile(lambda x: x, shapes_spec={"x": 1})
        with pytest.raises(onegraph.InvalidArgument, match="unknown backend 'tvm'; accepted: .*inductor"):
            torch.compile(lambda x: x, backend="tvm")


def test_settings_of_torch_are_settings_of_ours() -> None:
    import torch._dynamo.config

    with onegraph.install():
        with torch._dynamo.config.patch(cache_size_limit=3):
            assert onegraph.config.recompile_limit == 3
        assert onegraph.config.recompile_limit == 8
    with torch._dynamo.config.patch(cache_size_limit=3):
        assert onegraph.config.recompile_limit == 8


def test_settings_of_all_modules_of_torch(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._functorch.config
    import torch._inductor.config
    import torch.compiler.config

    monkeypatch.setattr(settings, "_told", set())
    with onegraph.install():
        with torch.compiler.config.patch(force_disable_caches=True):
            assert onegraph.config.cache is False
        with torch._functorch.config.patch(activation_memory_budget=0.5), torch._inductor.config.patch(freezing=True):
            assert onegraph.config.memory_budget == 0.5
            assert onegraph.config.freeze_parameters is True
        with torch._functorch.config.patch(cse=False):
            pass
        assert "the setting cse of torch.compile has no meaning" in caplog.text
        with torch._dynamo.config.patch(verify_correctness=True, accumulated_recompile_limit=7):
            assert onegraph.config.verify_correctness is True
            assert onegraph.config.accumulated_recompile_limit == 7
    del onegraph.config.cache, onegraph.config.freeze_parameters, onegraph.config.memory_budget


def test_installed_twice_is_installed_once() -> None:
    with onegraph.install():
        with onegraph.install():
            assert torch.compile is torch_compile
        assert torch.compile is torch_compile
        assert len(INSTALLED) == 1
    assert torch.compile is not torch_compile
    onegraph.install()
    onegraph.install()
    onegraph.uninstall()
    assert torch.compile is not torch_compile


def test_generation_of_a_library() -> None:
    """transformers calls `torch.compile` itself."""
    import transformers

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=64, **sizes)).eval()
    asked = {"max_new_tokens": 6, "do_sample": False, "cache_implementation": "static"}
    ids = torch.randint(0, 64, (1, 5))
    expected = model.generate(ids, disable_compile=True, **asked)
    how = transformers.CompileConfig(fullgraph=False, dynamic=False)
    how._compile_all_devices = True
    with onegraph.install(), recording(EVENTS, [ev.KernelsCompiled]) as recorded:
        found = model.generate(ids, compile_config=how, **asked)
    assert torch.equal(found, expected)
    assert recorded


PROGRAM = """
import sys
import torch

assert "torch._dynamo" not in sys.modules
f = torch.compile(lambda x: x + 1)
print(hasattr(f, "onegraph_region"), f(torch.ones(2)).tolist(), sys.argv[1:], "torch._dynamo" in sys.modules)
import torch._dynamo
import torch._inductor.config

torch._dynamo.config.cache_size_limit = 5
torch._inductor.config.cpp.threads = 2
import onegraph

print(torch._dynamo.reset is onegraph.reset, onegraph.config.recompile_limit, onegraph.config.threads)
"""


@pytest.mark.parametrize("way", [["run"], ["run", "-m"]])
def test_a_program_that_is_not_edited(way: list[str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "onegraph", *way, "program" if "-m" in way else "program.py", "--flag", "x"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.stdout.splitlines() == ["True [2.0, 2.0] ['--flag', 'x'] False", "True 5 2"], done.stderr
