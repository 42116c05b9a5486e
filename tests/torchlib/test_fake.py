from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from import_graph import ROOT

from onegraph.torchlib.fake import DATA_DEPENDENT_ERRORS, UNSUPPORTED_ERRORS, FakeMode


def test_common_operators_do_not_import_sympy() -> None:
    script = Path(__file__).with_name("without_sympy.py")
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert result.returncode == 0, result.stderr


def test_the_first_call_does_not_import_what_takes_longer_than_compiling(tmp_path: Path) -> None:
    script = Path(__file__).with_name("first_call.py")
    environment = os.environ | {"ONEGRAPH_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, script]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, env=environment)
    assert result.returncode == 0, result.stderr


def test_neither_static_nor_symbolic_fakes_import_the_stock_compiler() -> None:
    script = Path(__file__).with_name("independence.py")
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == ""


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 4),
        torch.randn(3, 4).t(),
        torch.randn(6, 4)[1::2, 2:],
        torch.randn(3, 1).expand(3, 4),
        torch.tensor(2, dtype=torch.int32),
        torch.empty(0, 3),
        torch.randn(3, dtype=torch.complex64).conj(),
        torch.nn.Parameter(torch.randn(3)),
        torch.nn.Buffer(torch.randn(3)),
        torch.randn(3, requires_grad=True),
        torch.randn(3, requires_grad=True) * 2,
    ],
)
def test_a_fake_has_the_properties_of_its_tensor(tensor: torch.Tensor) -> None:
    mode = FakeMode()
    fake = mode.fakeify(tensor)
    for name in ("shape", "dtype", "device", "layout", "requires_grad", "is_leaf"):
        assert getattr(fake, name) == getattr(tensor, name), name
    for name in ("stride", "storage_offset", "is_conj", "is_neg", "is_contiguous", "numel"):
        assert getattr(fake, name)() == getattr(tensor, name)(), name
    for kind in (torch.nn.Parameter, torch.nn.Buffer):
        assert isinstance(fake, kind) == isinstance(tensor, kind)
    assert mode.fakeify(tensor) is fake


def test_tensors_that_share_storage_have_fakes_that_do() -> None:
    mode = FakeMode()
    x = torch.randn(4, 4)
    first, second, other = mode.fakeify(x), mode.fakeify(x[1:]), mode.fakeify(torch.randn(4))
    storage = first.untyped_storage()._cdata
    assert second.untyped_storage()._cdata == storage != other.untyped_storage()._cdata


def test_results_alias_as_real_ones_do() -> None:
    mode = FakeMode()
    x = mode.fakeify(torch.randn(4, 4))
    with mode:
        assert x.contiguous() is x and x.add_(1) is x
        assert x.view(-1).untyped_storage()._cdata == x.untyped_storage()._cdata
        assert (x + 1).untyped_storage()._cdata != x.untyped_storage()._cdata


def test_literals_have_values_until_they_are_written_to() -> None:
    mode = FakeMode()
    x = mode.fakeify(torch.tensor(1.0))
    with mode:
        t = torch.tensor([1.0, 2.0])
        assert t.sum().item() == 3.0 and bool((t > 0).all())
        part = t[0]
        part.add_(x)
        with pytest.raises(DATA_DEPENDENT_ERRORS):
            t.sum().item()


def test_what_depends_on_data_raises() -> None:
    mode = FakeMode()
    x = mode.fakeify(torch.tensor([1.0, 0.0]))
    with mode:
        for function in (torch.nonzero, torch.unique, lambda t: t[t > 0], lambda t: t.sum().item()):
            with pytest.raises(DATA_DEPENDENT_ERRORS):
                function(x)


def test_tensors_that_have_no_fake() -> None:
    mode = FakeMode()
    for tensor in (torch.eye(2).to_sparse(), torch.nested.nested_tensor([torch.ones(2)])):
        with pytest.raises(UNSUPPORTED_ERRORS):
            mode.fakeify(tensor)


def test_a_real_tensor_among_fakes_is_refused() -> None:
    mode = FakeMode()
    real = torch.ones(2)
    with mode, pytest.raises(RuntimeError, match="is not a fake of this trace"):
        mode.fakeify(torch.ones(2)) + real


def test_random_operators_on_fakes_leave_the_generator_alone() -> None:
    mode = FakeMode()
    x = mode.fakeify(torch.full((4,), 0.5))
    before = torch.random.get_rng_state()
    with mode:
        torch.rand(3), torch.bernoulli(x), torch.multinomial(x, 2), torch.nn.functional.dropout(x), torch.poisson(x)
    assert torch.equal(before, torch.random.get_rng_state())


def test_device_mismatch_is_an_error() -> None:
    mode = FakeMode()
    with mode:
        a = torch.ones(2, device="meta")
        with pytest.raises(RuntimeError, match="device"):
            mode.fakeify(torch.ones(2)) + a


@pytest.mark.parametrize("size, stride, offset", [((9,), (1,), 0), ((2, 2), (2, 1), 1), ((1,), (1,), 4)])
def test_what_lies_beyond_the_storage_is_refused_as_by_the_real_operator(size, stride, offset) -> None:
    real = torch.rand(4)
    with pytest.raises(RuntimeError) as expected:
        real.as_strided(size, stride, offset)
    fake = FakeMode().from_tensor(real)
    with pytest.raises(RuntimeError) as found:
        fake.as_strided(size, stride, offset)
    assert str(found.value) == str(expected.value)
    assert fake.as_strided((2, 2), (1, 1), 1).shape == (2, 2)
