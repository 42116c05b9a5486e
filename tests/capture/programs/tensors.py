"""Corners of the tensor API: views, in-place writes, metadata, data-dependent values, attributes, subclasses."""

from __future__ import annotations

import torch

from tests.capture.twins import Cases

case = Cases()
BUFFER = torch.zeros(4)
BASE = torch.arange(6.0).reshape(2, 3)
VIEW = BASE[0]
LEAF = torch.ones(3, requires_grad=True)
NON_LEAF = LEAF * 2
HOLDER = {"t": torch.ones(2)}
TAGGED = torch.ones(4)
TAGGED.tag = 3
SEEN = []


class Sub(torch.Tensor):
    pass


class Logging(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        SEEN.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapper:
    def __init__(self, t):
        self.t = t

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        SEEN.append(func.__name__)
        args = [a.t if isinstance(a, Wrapper) else a for a in args]
        return Wrapper(func(*args, **(kwargs or {})))


SUB = torch.ones(4).as_subclass(Sub)
LOGGING = torch.ones(4).as_subclass(Logging)
WRAPPER = Wrapper(torch.ones(4))


def leaf():
    return (torch.rand(3, requires_grad=True),)


@case
def in_place_on_argument(x):
    x.add_(1)
    x[0] = 5
    x[1:] *= 2
    return x


@case
def in_place_on_global(x):
    BUFFER.add_(x)
    BASE[0, 1] += 3
    VIEW.mul_(2)
    return BUFFER + 1, VIEW, BASE.sum()


@case
def views_and_writes(x):
    v = x[:2]
    w = x.view(2, 2)
    v.zero_()
    w[1, 1] = 9
    return v, w, x, w.t(), x.expand(2, 4)


@case
def view_of_output(x):
    y = x + 1
    v = y.view(2, 2)
    v.add_(1)
    return y, v, v[0]


@case
def out_argument(x):
    o = torch.empty(4)
    r = torch.add(x, 1, out=o)
    torch.mul(x, 2, out=BUFFER)
    return r is o, o, BUFFER


@case
def out_argument_resized(x):
    o = torch.empty(0)
    torch.add(x, 1, out=o)
    return o


@case
def data_attribute(x):
    y = x.data
    y.mul_(2)
    w = torch.zeros(4)
    w.data = x
    return x, y, w


@case(leaf)
def data_of_leaf(x):
    x.data.add_(1)
    return x * 2


@case(leaf)
def assign_data(x):
    x.data = torch.ones(3)
    return x * 2


@case(leaf)
def detach_and_requires_grad(x):
    d = x.detach()
    e = x.clone().detach().requires_grad_(True)
    return d.requires_grad, e.is_leaf, x.is_leaf, (x * 2).is_leaf, d, e * 2


@case
def requires_grad_of_argument(x):
    x.requires_grad_()
    return x * 2, x.requires_grad


@case
def requires_grad_assigned(x):
    y = x * 2
    y.requires_grad = True
    return y * 3, y.grad


@case(leaf)
def grad_attribute(x):
    return x.grad is None, x * 2


@case(lambda: (torch.rand(3, requires_grad=True),), lambda: NON_LEAF.sum().backward(retain_graph=True))
def grad_of_global(x):
    return (x if LEAF.grad is None else x + LEAF.grad), LEAF.is_leaf, NON_LEAF.is_leaf


@case
def grad_assigned(x):
    LEAF.grad = x[:3] * 2
    return LEAF.grad + 1


@case
def grad_zeroed(x):
    LEAF.grad = torch.ones(3)
    LEAF.grad.zero_()
    LEAF.grad.add_(x[:3])
    g = LEAF.grad
    LEAF.grad = None
    return g


@case(lambda: (NON_LEAF.detach().clone().requires_grad_() * 1,))
def leafness(x):
    return x.is_leaf, x.grad_fn is None, x.requires_grad, x * 2, x.retains_grad


@case(lambda: (torch.rand(3, requires_grad=True),), lambda: None)
def leafness_changes(x):
    y = x if len(SEEN) % 2 else x * 1
    SEEN.append(1)
    return y.is_leaf, y


@case
def metadata(x):
    y = x.reshape(2, 2).t()
    return (
        y.shape, y.size(0), y.stride(), y.dim(), y.numel(), y.dtype, y.device, y.is_contiguous(), y.layout, y.ndim,
        y.itemsize, y.element_size(), y.nbytes, y.storage_offset(), y.is_floating_point(), y.T.shape, y.mT.shape, len(y),
        y.names, y.is_sparse, y.is_cuda, y.requires_grad, y.type(), y.is_complex(), tuple(y.shape), y.get_device(),
    )  # fmt: skip


@case
def versions(x):
    before = x._version
    x.add_(1)
    return x._version - before, BUFFER._version >= 0


@case
def storage(x):
    y = x[1:]
    return x.data_ptr() == x.view(4).data_ptr(), y.untyped_storage().nbytes(), x.is_set_to(x), y._base is x


@case
def conversions(x):
    return (
        x.to(torch.float64), x.to("cpu") is x, x.float() is x, x.half(), x.long(), x.bool(), x.to(x), x.type_as(x.double()),
        x.contiguous() is x, x.cpu() is x, x.double().dtype, x.to(torch.float32, copy=True) is x,
    )  # fmt: skip


@case
def data_dependent(x):
    return x.sum().item(), x.nonzero(), x[x > 0.5], torch.unique(x), x.masked_select(x > 0.2), (x > 0).any().item()


@case
def data_dependent_branch(x):
    if x.sum() > 0:
        y = x + 1
    else:
        y = x - 1
    while y.max() < 5:
        y = y * 2
    return y


@case
def data_dependent_index(x):
    i = int(x.argmax())
    return x[i], [1, 2, 3, 4][i], x[: i + 1]


@case
def tensor_constructors(x):
    return (
        torch.tensor([1, 2]), torch.tensor(2.5), torch.tensor([[True]]), torch.as_tensor([1.0]), torch.tensor(x.shape),
        torch.tensor([x.sum(), 2.0]), torch.stack([x, x]), torch.tensor(3).item(), torch.full((2,), 7), torch.eye(2),
        torch.linspace(0, 1, 3), torch.arange(3), torch.empty(0), torch.zeros(()), torch.scalar_tensor(3.0), x.new_tensor([1]),
    )  # fmt: skip


@case
def tensor_from_tensor(x):
    return torch.as_tensor(x) is x, torch.asarray(x) is x


@case
def constants_of_literals(x):
    t = torch.tensor([1.0, 2.0])
    n = t.sum().item()
    t.add_(1)
    return x * n, t, int(t[0]), t.tolist()


@case
def indexing(x):
    y = x.reshape(2, 2)
    i = torch.tensor([1, 0])
    return (
        y[0],
        y[:, 1],
        y[..., None],
        y[i],
        y[i, i],
        y[None],
        y[-1, -1],
        y[torch.tensor([True, False])],
        y[[0, 1]],
        y[::2],
    )


@case
def index_writes(x):
    y = x.reshape(2, 2).clone()
    y[0] = 1
    y[:, 1] = torch.tensor([5.0, 6.0])
    y[y > 4] = 0
    y[torch.tensor([0]), torch.tensor([0])] = 3
    y[..., 0] += 1
    return y


@case
def unpacking(x):
    a, b, *c = x
    d, e = x.chunk(2)
    values, indices = x.max(0)
    (r,) = x.split(4)
    return a, b, c, d, e, values, indices, r, torch.max(x, 0), [*x], list(zip(x, x, strict=True))[0], max(x.shape)


@case
def structured_results(x):
    m = x.max(dim=0)
    s = torch.sort(x)
    return m.values, m.indices, s, type(m).__name__, torch.topk(x, 2).values, s[1], torch.linalg.qr(x.reshape(2, 2)).Q


@case
def iteration(x):
    total = 0
    for i, row in enumerate(x.reshape(2, 2)):
        total = total + row * i
    return total, [v for v in x], len(x), sum(x)


@case
def operators(x):
    return (
        -x, +x, abs(x), x**2, 2**x, x // 0.3, x % 0.3, 1 / x, x @ x, x > 0.5, ~(x > 0.5), (x > 0) & (x < 1), 1 - x, x == x,
        x != 0, divmod(x, 0.3), round(x), x << 1 if False else x, 5 > x, x.long() << 1, x.long() | 1,
    )  # fmt: skip


@case
def augmented(x):
    y = x
    y += 1
    z = x.clone()
    z -= 1
    z *= 2
    z /= 3
    z **= 2
    z //= 0.1
    return y is x, y, z


@case
def complex_numbers(x):
    c = torch.complex(x, x)
    return c, c.conj(), c.real, c.imag, torch.view_as_real(c), c.abs(), c.conj().imag, (c * 2j).resolve_conj()


@case
def python_attributes(x):
    x.note = 5
    y = x * 2
    y.other = [1]
    return x.note, y.other, getattr(x, "missing", None), TAGGED.tag * x


@case(lambda: (torch.rand(4),), lambda: setattr(TAGGED, "tag", 8), lambda: setattr(TAGGED, "fresh", 1))
def outside_attributes(x):
    return x * TAGGED.tag, hasattr(TAGGED, "fresh")


@case(lambda: (torch.rand(4),))
def subclasses(x):
    y = SUB + x
    return y, type(y).__name__, isinstance(SUB, Sub), LOGGING * 2, list(SEEN)


@case(lambda: (torch.rand(4).as_subclass(Sub),))
def subclass_argument(x):
    return x + 1, type(x * 2).__name__


@case
def function_protocol(x):
    y = torch.add(WRAPPER, x)
    return y, SEEN


@case
def as_subclass_inside(x):
    y = x.as_subclass(Sub)
    return y, type(y) is Sub, y + 1


@case
def parameters_inside(x):
    p = torch.nn.Parameter(x)
    return p, isinstance(p, torch.nn.Parameter), p * 2, p.requires_grad


@case
def resizing(x):
    y = x.clone()
    y.resize_(2, 2)
    z = x.clone()
    z.unsqueeze_(0).squeeze_(0).t_()
    w = torch.empty(0)
    w.set_(x)
    return y, z, w


@case
def aliases_of_inputs(x):
    return x, x[:], x.view(-1), x.detach(), x.contiguous(), x.reshape(4), (x,), x.alias() if hasattr(x, "alias") else x


@case(lambda: (lambda t: (t, t[1:], t.view(2, 2)))(torch.rand(4)))
def overlapping_arguments(a, b, c):
    b.add_(1)
    c[0, 0] = 7
    return a * 2, b, c


@case(lambda: (lambda t: (t, t))(torch.rand(4)))
def same_tensor_twice(a, b):
    a.add_(1)
    return a is b, b * 2


@case(lambda: (torch.rand(4), torch.rand(4)))
def swapped(a, b):
    a.data, b.data = b.data, a.data
    return a + 1, b


@case(lambda: (torch.ones(4, dtype=torch.int64), torch.tensor(3), torch.tensor(True)))
def other_dtypes(i, s, b):
    return i / 2, i // 2, i + 1.5, s * i, b & True, i.float().mean(), s + 1, i.sum(), ~b, i.to(torch.uint8) - 2


@case(lambda: (torch.empty(0, 3), torch.tensor(2.0)))
def empty_and_scalar(e, s):
    return e.sum(0), e.t(), s + 1, e.mean(), s[None], torch.cat([e, torch.ones(1, 3)]), len(e), s.item()


@case(lambda: (torch.ones(3).to_sparse(), torch.rand(3)))
def sparse(s, x):
    return s.to_dense() + x, s * 2


@case
def hashing(x):
    table = {x: 1}
    return table[x], x in [x], x in (x,), {id(x): 2}[id(x)], hash(x) == hash(x)


@case
def memory_formats(x):
    y = torch.ones(1, 2, 2, 2).to(memory_format=torch.channels_last)
    return y, y.stride(), (y + 1).stride(), y.contiguous().stride(), torch.empty_like(y).stride()


@case
def type_checks(x):
    return (
        type(x), isinstance(x, torch.Tensor), isinstance(x, torch.FloatTensor), torch.is_tensor(x), x.__class__.__name__,
        type(x.shape), isinstance(x.shape, tuple), isinstance(x, torch.nn.Parameter), isinstance(LEAF, torch.nn.Parameter),
        issubclass(type(x), torch.Tensor), torch.is_floating_point(x), x.dtype is torch.float32, torch.typename(x),
    )  # fmt: skip


@case
def default_dtype(x):
    torch.set_default_dtype(torch.float64)
    y = torch.ones(2)
    torch.set_default_dtype(torch.float32)
    return y, torch.get_default_dtype()


@case
def equality(x):
    return torch.equal(x, x), torch.allclose(x, x + 1), x.equal(x), x.is_same_size(x), torch.is_nonzero(x[0] + 1)


@case
def swap_through_containers(x):
    HOLDER["t"], y = x, HOLDER["t"]
    return y + 1, HOLDER["t"] * 2


@case
def tensor_methods_as_values(x):
    f = x.add
    g = torch.Tensor.mul
    h = x.__add__
    return f(1), g(x, 2), h(3), list(map(torch.relu, [x])), [m() for m in (x.sin, x.cos)], getattr(x, "exp")()  # noqa: B009


@case
def method_escapes(x):
    return x.add, torch.relu, x.sum


@case
def pin_and_share(x):
    y = x.clone().share_memory_()
    return y.is_shared(), y + 1


@case
def printing(x):
    print(x.shape, x.dtype)
    print(x)
    return x
