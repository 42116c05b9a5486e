"""Programs on NumPy's arrays are graphs, and do what NumPy does: results, writes, views, what comes in and leaves."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

RNG = np.random.default_rng(0)
OUTSIDE = RNG.standard_normal(5)


def matrix() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).standard_normal((4, 5))


def writes(x):
    x[0] = 1
    x[:, 1] += 2
    x[x > 1] = 0
    x[::-1, 0] = x[:, 2]
    return x.sum()


def sees_writes(x):
    row, column, item = x[1], x[::-1, 0], x[1, 1]
    x *= 2
    x[1, 0] = 9
    return row, column, item, x.T


def through_tensors(x):
    t = torch.from_numpy(x)
    t.add_(1)
    array = (t * 2).numpy()
    array[0] = 7
    return array, torch.as_tensor(x) * 3, torch.tensor(x), np.asarray(t)


def iterates(x):
    total = 0
    for row in x:
        total = total + row.max()
    a, b, *rest = x
    return total, a + b, len(rest), [item for item in x[0]]


def asks(x):
    return x.shape, x.ndim, x.size, x.dtype, len(x), x.nbytes, type(x), isinstance(x, np.ndarray), x.dtype == np.float64


def asks_scalars(x):
    s = x.sum()
    return type(s), isinstance(s, float), isinstance(s, np.floating), s.dtype, s.shape, s * 2, s.astype(np.float32)


def assigned_by_kmeans(x, means):
    distances = np.linalg.norm(x - means[:, None], axis=2)
    return np.argmin(distances, axis=0)


def mandelbrot(width, height):
    c = np.linspace(-2.0, 0.5, width) + 1j * np.linspace(-1.2, 1.2, height)[:, None]
    z = np.zeros_like(c)
    counts = np.zeros(c.shape, dtype=np.int64)
    for _ in range(8):
        inside = np.abs(z) <= 2
        z = np.where(inside, z**2 + c, z)
        counts += inside
    return counts


def returned_twice(x):
    y = np.sin(x)
    return y, y, y[0], {"row": y[1]}, [x]


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "arithmetic": (lambda x: (2.0 * x + 1, 3 - x, x / 2, x // 0.3, x % 0.7, -x, abs(x), 2**x), lambda: (matrix(),)),
    "scalars": (
        lambda x: (x * np.float32(2), np.float32(2) * x, np.float64(2) / x, 0 < x),
        lambda: (matrix(),),
    ),
    "constants": (lambda x: (np.sqrt(2.0) * x, np.pi * x, np.prod(x.shape) * x, np.float32(3)), lambda: (matrix(),)),
    "functions": (lambda x: np.exp(-(np.sin(x) ** 2)) + np.maximum(x, 0), lambda: (matrix(),)),
    "reductions": (lambda x: (x.sum(), x.mean(0), np.max(x, axis=1), x.std(), np.linalg.norm(x)), lambda: (matrix(),)),
    "types": (lambda x: (x.astype(np.float32) + 1, x.astype(int) / 2, np.float32(1) + x, x > 0), lambda: (matrix(),)),
    "shapes": (lambda x: (x.T, x.reshape(-1), x[:, None], x.ravel(), x.transpose(1, 0), x.copy()), lambda: (matrix(),)),
    "items": (lambda x: (x[0], x[1, 2], x[..., 0], x[::-1], x[1:3, ::-2], x[[0, 2]], x[-1, ::-1]), lambda: (matrix(),)),
    "largest": (lambda v: np.sort(v)[::-1][:3], lambda: (matrix()[0],)),
    "made": (lambda: (np.zeros((2, 3)), np.ones(3, np.int32), np.arange(5), np.eye(3), np.array([1, 2])), tuple),
    "joined": (lambda x: (np.concatenate([x, x]), np.stack((x, x), -1), np.array([x.sum(), 2])), lambda: (matrix(),)),
    "products": (lambda x: (x @ x.T, np.dot(x, x.T), np.einsum("ij,kj->ik", x, x), x.dot(x[0])), lambda: (matrix(),)),
    "signals": (lambda x: (np.abs(np.fft.fft(x)), np.fft.ifft(np.fft.fft(x)).real), lambda: (matrix(),)),
    "out": (lambda x: (np.add(x, 1, out=x), x.__iadd__(1)), lambda: (matrix(),)),
    "of_ufuncs": (lambda x: (np.add.reduce(x), np.multiply.outer(x[0], x[1])), lambda: (matrix(),)),
    "read_only": (lambda x: (np.broadcast_to(x, (2, 4, 5)), np.diagonal(x)), lambda: (matrix(),)),
    "integers": (lambda i: (i // 0, i % 3, i << 2, i**2, i.sum(), i / 2), lambda: (np.arange(5),)),
    "from_outside": (lambda x: x * OUTSIDE, lambda: (matrix(),)),
    "in_containers": (lambda d: {"y": d["x"][0] * 2}, lambda: ({"x": [matrix()]},)),
    "writes": (writes, lambda: (matrix(),)),
    "sees_writes": (sees_writes, lambda: (matrix(),)),
    "through_tensors": (through_tensors, lambda: (matrix(),)),
    "iterates": (iterates, lambda: (matrix(),)),
    "asks": (asks, lambda: (matrix(),)),
    "asks_scalars": (asks_scalars, lambda: (matrix(),)),
    "kmeans": (assigned_by_kmeans, lambda: (RNG.standard_normal((50, 2)), RNG.standard_normal((3, 2)))),
    "mandelbrot": (mandelbrot, lambda: (16, 12)),
    "returned_twice": (returned_twice, lambda: (matrix(),)),
    "scalars_and_tensors": (
        lambda x, t, i: (t * x.sum(), x.mean() + t, i * x.max(), t > x[0, 0], t.sum() * x[0, 1]),
        lambda: (matrix(), torch.randn(3), torch.arange(3)),
    ),
    "overlapping": (lambda x, y: (x.__iadd__(1), y * 2), lambda: overlapping()),
}


def overlapping() -> tuple[Any, ...]:
    memory = np.arange(8.0)
    return memory[:6], memory[2:]


def ignoring(x):
    with np.errstate(divide="raise", invalid="ignore"):
        return np.sqrt(x) * 2


#: What NumPy has to do: the graph ends in front of it, and the results are NumPy's.
LEFT_TO_NUMPY: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "records": (lambda r: r["x"] + 1, lambda: (np.zeros(3, [("x", "f4")]),)),
    "times": (lambda d: d + np.timedelta64(1, "D"), lambda: (np.array(["2000-01-01"], "M8[D]"),)),
    "texts": (lambda t: np.char.upper(t), lambda: (np.array(["a", "b"]),)),
    "unsigned": (lambda u: u + 1, lambda: (np.arange(3, dtype=np.uint16),)),
    "sum_of_bytes": (lambda u: u.sum(), lambda: (np.full((4, 4), 200, np.uint8),)),
    "long_floats": (lambda x: x * 2, lambda: (np.ones(3, np.longdouble),)),
    "subclasses": (lambda x: np.sum(x), lambda: (np.matrix([[1.0, 2.0]]),)),
    "masked": (lambda x: x.mean(), lambda: (np.ma.masked_array([1.0, 2.0], [True, False]),)),
    "axes": (lambda x: np.matmul(x, x, axes=[(0, 1), (0, 1), (0, 1)]), lambda: (np.ones((3, 3)),)),
    "ordered_complex": (lambda z: np.sort(z), lambda: (np.array([2 + 1j, 1j]),)),
    "polynomials": (lambda x: np.poly1d([1, 2])(x) + x, lambda: (np.ones(3),)),
    "two_outs": (lambda x: np.divmod(x, 2, np.empty(3), np.empty(3)), lambda: (np.arange(3.0),)),
    "backwards": (lambda x: x + 1, lambda: (np.arange(4.0)[::-1],)),
    "unique": (lambda x: np.unique(np.round(x)) + 1, lambda: (matrix(),)),
    "masks": (lambda x: x[x > 0] * 2, lambda: (matrix(),)),
    "branches": (lambda x: x + 1 if x.sum() > 0 else x - 1, lambda: (matrix(),)),
    "numbers": (lambda x: (float(x.sum()), x.tolist(), x[0, 0].item()), lambda: (matrix(),)),
    "texts_of_arrays": (lambda x: (repr(x), str(x[0]), f"{x[0, 0]:.3f}"), lambda: (matrix(),)),
    "keys": (lambda x: {x[0, 0]: 1}, lambda: (np.ones((2, 2)),)),
    "refused": (lambda x: x + np.ones(3), lambda: (matrix(),)),
    "read_only_written": (lambda x: np.broadcast_to(x, (2, 4, 5)).__setitem__(0, 1), lambda: (matrix(),)),
    "attributes": (lambda x: (x.flags.c_contiguous, x.strides, x.base is None), lambda: (matrix(),)),
    "interface": (lambda x: sorted(x.__array_interface__), lambda: (matrix(),)),
    "scalar_types": (lambda x: np.float32(x.sum()), lambda: (matrix(),)),
    "vectorized": (lambda x: np.vectorize(lambda v: v + 1)(x), lambda: (matrix(),)),
    "error_states": (ignoring, lambda: (matrix(),)),
    "random": (lambda x: x * 0 + np.random.default_rng(0).random(), lambda: (matrix(),)),
}


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What a call gives or raises, and what it leaves of its arguments."""
    try:
        return function(*args), args
    except Exception as error:
        return type(error), str(error)


def is_same(a: Any, b: Any) -> bool:
    match a:
        case list() | tuple():
            return type(a) is type(b) and len(a) == len(b) and all(map(is_same, a, b))
        case dict():
            return list(a) == list(b) and all(map(is_same, a.values(), b.values()))
        case torch.Tensor():
            return is_same(a.numpy(), b.numpy())
        case np.ndarray() | np.generic() if type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape:
            is_exact = a.dtype.kind not in "fc"
            flags = not isinstance(a, np.ndarray) or a.flags.writeable == b.flags.writeable
            return flags and bool(np.array_equal(a, b) if is_exact else np.allclose(a, b, equal_nan=True))
        case float():
            return type(a) is type(b) and a == pytest.approx(b)
    return type(a) is type(b) and bool(a == b)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, backend: str) -> None:
    function, make = PROGRAMS[name]
    compiled = onegraph.compile(function, fullgraph=True, backend=backend)
    args = make()
    with np.errstate(all="ignore"):
        for _ in range(2):
            given, again = copy.deepcopy(args), copy.deepcopy(args)
            if name == "overlapping":
                given, again = overlapping(), overlapping()
            assert is_same(outcome(function, given), outcome(compiled, again))


@pytest.mark.parametrize("name", LEFT_TO_NUMPY)
def test_left_to_numpy(name: str) -> None:
    function, make = LEFT_TO_NUMPY[name]
    compiled = onegraph.compile(function, backend="eager")
    for _ in range(2):
        assert is_same(outcome(function, make()), outcome(compiled, make()))


def test_results_are_views_of_what_came_in() -> None:
    compiled = onegraph.compile(lambda x: (x[1:], x[::-1], torch.from_numpy(x)), fullgraph=True, backend="eager")
    x = matrix()
    part, backwards, tensor = compiled(x)
    x[:] = 7
    assert (part == 7).all() and (backwards == 7).all() and (tensor == 7).all() and backwards.strides[0] < 0


def test_sizes_that_change_are_one_graph() -> None:
    def standardized(x: Any) -> Any:
        return (x - x.mean(0)) / len(x)

    with Watch() as watch:
        compiled = onegraph.compile(standardized, fullgraph=True, backend="native")
        for rows in (3, 4, 5, 9, 2):
            x = RNG.standard_normal((rows, 2))
            assert np.allclose(compiled(x), standardized(x))
    assert len(watch.of(ev.GraphCaptured)) == 2


def test_gradients_stop_at_arrays() -> None:
    """As eagerly: an array has no history, and a tensor that has one is refused."""
    compiled = onegraph.compile(lambda t: t * torch.from_numpy(np.sin(t.detach().numpy())), backend="native")
    t = torch.randn(3, requires_grad=True)
    compiled(t).sum().backward()
    assert torch.allclose(t.grad, t.detach().sin())
    with pytest.raises(RuntimeError, match="requires grad"):
        onegraph.compile(lambda t: t.numpy(), backend="eager")(t)


def test_arrays_are_on_the_cpu_whatever_the_default_device() -> None:
    """As NumPy has them: compiled code does not move them."""
    compiled = onegraph.compile(lambda x: x + np.ones(5) * np.arange(5) + np.eye(5)[0], fullgraph=True, backend="eager")
    with torch.device("meta"):
        found = compiled(matrix())
    assert np.allclose(found, matrix() + np.arange(5) + np.eye(5)[0])


def test_arrays_of_other_kinds_in_the_place_of_one() -> None:
    compiled = onegraph.compile(lambda x: x + x, backend="native")
    frozen = matrix()
    frozen.flags.writeable = False
    others = (matrix(), frozen, matrix()[::-1], matrix().astype(np.float32), np.arange(3, dtype=np.uint16), 2.0, [1])
    for given in (*others, matrix(), torch.ones(2), np.float64(3), np.ma.masked_array([1.0])):
        found, expected = compiled(given), given + given
        assert type(found) is type(expected) and np.array_equal(found, expected)


def test_wrapped_functions() -> None:
    @onegraph.wrap_numpy
    def spread(values, scale=1.0):
        return {"mean": values["x"].mean(0) * scale, "all": [np.std(values["x"]), 3]}

    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    found = onegraph.compile(spread, fullgraph=True)({"x": x}, scale=2.0)
    found["mean"].sum().backward()
    assert torch.allclose(x.grad, torch.full((4, 3), 0.5, dtype=torch.float64)) and found["all"][1] == 3
    assert torch.allclose(found["all"][0], x.std(unbiased=False))
    with pytest.raises(RuntimeError, match="requires grad"):
        spread({"x": x})
    assert torch.equal(spread({"x": x.detach()})["mean"], x.detach().mean(0))
    with pytest.raises(TypeError, match="BFloat16"):
        onegraph.compile(spread)({"x": torch.ones(2, dtype=torch.bfloat16)})
