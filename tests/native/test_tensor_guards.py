"""Tensor checks through libtorch and through Python attributes: both see the same, and all that a trace depends on."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from native.guarding import check, frame, program
from torch._subclasses.fake_tensor import FakeTensorMode

from onegraph import _C
from onegraph.capture.guards.recompiling import changed


@pytest.fixture(params=["libtorch", "python"])
def abi(request: pytest.FixtureRequest) -> Iterator[str]:
    assert _C.tensor_abi() == "libtorch", "with the torch that we develop on, the native way is there"
    yield _C.tensor_abi(request.param)
    _C.tensor_abi("libtorch")


class Subclass(torch.Tensor):
    pass


def inference_tensor() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(2, 3)


def tensors() -> dict[str, torch.Tensor]:
    base = torch.arange(24.0).reshape(4, 6)
    with FakeTensorMode():
        fake = torch.ones(2, 3)
    dtypes = (
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
    return {
        **{str(dtype): torch.ones(2, 3, dtype=dtype) for dtype in (torch.float32, *dtypes)},
        "1-d": torch.ones(8),
        "0-d": torch.tensor(1.0),
        "empty": torch.ones(0, 3),
        "other sizes": torch.ones(3, 2),
        "more dimensions": torch.ones(2, 3, 1),
        "transposed": torch.ones(3, 2).t(),
        "expanded": torch.ones(1, 3).expand(2, 3),
        "strided": base[::2, ::2],
        "requires grad": torch.ones(2, 3, requires_grad=True),
        "not a leaf": torch.ones(2, 3, requires_grad=True) * 1,
        "parameter": torch.nn.Parameter(torch.ones(2, 3)),
        "frozen parameter": torch.nn.Parameter(torch.ones(2, 3), requires_grad=False),
        "subclass": torch.ones(2, 3).as_subclass(Subclass),
        "meta": torch.ones(2, 3, device="meta"),
        "fake": fake,
        "complex": torch.ones(2, 3, dtype=torch.complex64),
        "conjugate": torch.ones(2, 3, dtype=torch.complex64).conj(),
        "imaginary part": torch.ones(2, 3, dtype=torch.complex64).conj().imag,
        "negative": torch.ones(4, 6, dtype=torch.complex64).conj().imag[::2, ::2],
        "sparse": torch.ones(2, 3).to_sparse(),
        "sparse csr": torch.ones(2, 3).to_sparse_csr(),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "jagged": torch.nested.nested_tensor([torch.ones(2, 2), torch.ones(3, 2)], layout=torch.jagged),
        "quantized": torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8),
    }


def facts(t: torch.Tensor) -> tuple[Any, ...]:
    """What a spec must tell apart, read in Python."""
    nested = t.is_nested and t.layout is torch.strided
    strided = t.layout is torch.strided and not nested
    sizes = None if nested else tuple(t.shape)
    return (
        type(t),
        t.dtype,
        t.device,
        t.layout,
        sizes,
        t.stride() if strided else None,
        t.requires_grad,
        t.is_conj(),
        t.is_neg(),
    )


@pytest.mark.filterwarnings("ignore")
def test_a_spec_matches_what_has_the_same_facts(abi: str) -> None:
    first, second = tensors(), tensors()
    for name, a in first.items():
        if a.is_nested:
            with pytest.raises(ValueError, match="nested tensor"):
                _C.TensorSpec(a)
            continue
        spec = _C.TensorSpec(a)
        for other, b in second.items():
            assert spec.matches(b) == (facts(a) == facts(b)), (name, other)
        for value in (None, 1, [1.0], torch.float32, type):
            assert not spec.matches(value)


def test_inference_tensors_are_told_from_others() -> None:
    plain, inference = torch.ones(2, 3), inference_tensor()
    assert not _C.TensorSpec(plain).matches(inference) and not _C.TensorSpec(inference).matches(plain)
    assert _C.TensorSpec(inference).matches(inference_tensor())


def test_wrapped_tensors_of_a_transform_are_told_from_others() -> None:
    spec = _C.TensorSpec(torch.ones(3))
    seen = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append((type(x), tuple(x.shape), spec.matches(x)))
        return x

    torch.vmap(look)(torch.ones(2, 3))
    torch.func.grad(lambda x: look(x).sum())(torch.ones(3))
    assert seen == [(torch.Tensor, (3,), False)] * 2


def test_given_sizes_and_strides_replace_those_of_the_tensor(abi: str) -> None:
    spec = _C.TensorSpec(torch.ones(2, 3), sizes=(None, 3), strides=(None, 1))
    assert spec.sizes == (None, 3) and spec.strides == (None, 1)
    assert spec.matches(torch.ones(5, 3)) and spec.matches(torch.ones(4, 6)[:, :3])
    assert not spec.matches(torch.ones(5, 4)) and not spec.matches(torch.ones(3, 5).t())
    assert not spec.matches(torch.ones(5, 3, 1)) and not spec.matches(torch.ones(3))
    other = _C.TensorSpec(torch.ones(2, 3), sizes=[7, 3])
    assert other.matches(torch.ones(7, 3)) and not other.matches(torch.ones(2, 3))
    anything = _C.TensorSpec(torch.ones(2), sizes=[None], strides=[None])
    assert anything.matches(torch.ones(0)) and anything.matches(torch.ones(10)[::3])
    with pytest.raises(ValueError, match="sizes has 1 entries, but the tensor has 2 dimensions"):
        _C.TensorSpec(torch.ones(2, 3), sizes=(1,))
    with pytest.raises(ValueError, match="strides has 3 entries"):
        _C.TensorSpec(torch.ones(2, 3), strides=(1, 2, 3))
    with pytest.raises(TypeError):
        _C.TensorSpec(torch.ones(2), sizes=("a",))
    with pytest.raises(TypeError, match="a tensor is expected, not int"):
        _C.TensorSpec(5)


def test_what_a_spec_says_of_itself(abi: str) -> None:
    spec = _C.TensorSpec(torch.nn.Parameter(torch.ones(2, 3, dtype=torch.bfloat16)), sizes=(None, 3))
    assert repr(spec) == ("<TensorSpec Parameter: torch.bfloat16, cpu, sizes (None, 3), strides (3, 1), requires_grad>")
    assert spec.type is torch.nn.Parameter and spec.requires_grad
    sparse = _C.TensorSpec(torch.ones(2).to_sparse())
    assert sparse.strides is None and sparse.sizes == (2,)


def test_in_a_program(abi: str) -> None:
    x, y = torch.ones(2, 3), torch.ones(3)
    specs = [_C.TensorSpec(x), _C.TensorSpec(y)]
    made = program(("ARG", 0, 0), ("TENSOR", 0, 0), ("ARG", 1, 1), ("TENSOR", 1, 1), consts=specs)
    assert made.check(frame, (x, y)) and made.check(frame, (x + 1, y + 1))
    assert made.failing(frame, (y, x)) == 1 and made.failing(frame, (x, x)) == 3 and made.failing(frame, (x, None)) == 3


def number(value: Any, *instruction: Any) -> int | None:
    """What an integer load gives, found by asking."""
    if not check(value, instruction):
        return None
    for guess in range(-50, 50):
        if check(value, instruction, ("ICONST", 1, guess), ("IEQ", 2, 0, 1), ("ICHECK", 2)):
            return guess
    raise AssertionError


def test_sizes_and_strides_as_integers(abi: str) -> None:
    x = torch.arange(24.0).reshape(4, 6)[1:, ::2]
    assert [number(x, "ISIZE", 0, 0, d) for d in (0, 1, 2)] == [3, 3, None]
    assert [number(x, "ISTRIDE", 0, 0, d) for d in (0, 1, 2)] == [6, 2, None]
    assert number(torch.tensor(1.0), "ISIZE", 0, 0, 0) is None
    for value in (None, [1, 2], torch.float32):
        assert number(value, "ISIZE", 0, 0, 0) is None


@contextlib.contextmanager
def setting(setter: Callable[[Any], Any], value: Any, before: Any) -> Iterator[None]:
    setter(value)
    try:
        yield
    finally:
        setter(before)


class FunctionMode(torch.overrides.TorchFunctionMode):
    pass


class DispatchMode(torch.utils._python_dispatch.TorchDispatchMode):
    pass


CHANGES: dict[str, tuple[Callable[[], Any], str]] = {
    "no_grad": (torch.no_grad, "grad_mode"),
    "inference_mode": (torch.inference_mode, "inference_mode"),
    "autocast": (lambda: torch.autocast("cpu", torch.bfloat16), "autocast_cpu"),
    "default dtype": (lambda: setting(torch.set_default_dtype, torch.float64, torch.float32), "default_dtype"),
    "deterministic": (lambda: setting(torch.use_deterministic_algorithms, True, False), "deterministic"),
    "function mode": (FunctionMode, "function_modes"),
    "dispatch mode": (DispatchMode, "dispatch_modes"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_state_is_noticed(abi: str, change: str) -> None:
    enter, name = CHANGES[change]
    outside = _C.GlobalState()
    guard = program(("STATE", 0), consts=[outside])
    assert guard.check(frame, ()) and outside.holds() and changed(outside) == ()
    with enter():
        assert guard.failing(frame, ()) == 0 and not outside.holds() and name in changed(outside)
        inside = _C.GlobalState()
        assert inside.holds() and inside.values[name] != outside.values[name]
    assert outside.holds() and not inside.holds() and guard.check(frame, ())
    assert name in repr(outside)


def test_autocast_dtypes_and_transforms_are_part_of_the_state(abi: str) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        state = _C.GlobalState()
    with torch.autocast("cpu", torch.float16):
        assert not state.holds()
    with torch.autocast("cpu", torch.bfloat16):
        assert state.holds()
    outside, held = _C.GlobalState(), []
    torch.vmap(lambda x: held.append(outside.holds()) or x)(torch.ones(2))
    assert held == [False] and outside.holds()


def test_the_abi_can_be_chosen_and_a_wrong_choice_is_named() -> None:
    assert _C.tensor_abi() == "libtorch"
    spec = _C.TensorSpec(torch.ones(2))
    try:
        assert _C.tensor_abi("python") == "python" and _C.tensor_abi(use="libtorch") == "libtorch"
    finally:
        _C.tensor_abi("libtorch")
    with pytest.raises(ValueError, match='not "numpy"'):
        _C.tensor_abi("numpy")
    assert spec.matches(torch.ones(2))


def test_checks_leak_nothing(abi: str) -> None:
    x = torch.ones(2, 3)
    made = program(("STATE", 1), ("ARG", 0, 0), ("TENSOR", 0, 0), ("ISIZE", 0, 0, 1), ("ICHECK", 0),
                   consts=[_C.TensorSpec(x), _C.GlobalState()])  # fmt: skip
    made.check(frame, (x, 1))
    before = sys.getrefcount(x), sys.getallocatedblocks()
    for _ in range(2000):
        assert made.check(frame, (x, 1))
        assert not made.check(frame, (None, 1))
    assert sys.getrefcount(x) == before[0] and abs(sys.getallocatedblocks() - before[1]) < 50
