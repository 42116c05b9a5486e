"""Tensors as objects."""

from __future__ import annotations

import copy

import torch

from onegraph.capture import breaks as b
from tests.capture.breaks.gradients import leaf
from tests.capture.breaks.table import breaks


@breaks(b.TENSOR_MEMORY)
def address(x):
    y = x + 1
    return y, x.data_ptr() % 4


@address.fixed("ask for it outside")
def address_outside(graph, x):
    return graph(lambda x: x + 1)(x), x.data_ptr() % 4


@breaks(b.MEMORY_CHANGE)
def memory(x):
    y = x * 2
    y.data = x + 1
    return y


@memory.fixed("write into the memory")
def memory_written(x):
    y = x * 2
    y.copy_(x + 1)
    return y


@memory.fixed("make a new tensor")
def memory_new(x):
    y = x + 1
    return y


@breaks(b.INPUT_SHAPE_CHANGE)
def reshaped_in_place(x):
    y = x * 2
    x.unsqueeze_(0)
    return x + y


@reshaped_in_place.fixed("make a view")
def viewed(x):
    y = x * 2
    return x.unsqueeze(0) + y


@reshaped_in_place.fixed("change the shape outside")
def reshaped_outside(graph, x):
    y = graph(lambda x: x * 2)(x)
    x.unsqueeze_(0)
    return graph(lambda x, y: x + y)(x, y)


@breaks(b.OVERLAPPING_WRITE)
def shifted_in_place(x):
    rows = (x * 2).repeat(3).reshape(3, 4)
    rows[:, :-1].add_(rows[:, 1:])
    return rows * 2


@shifted_in_place.fixed("copy what is read first")
def shifted_from_a_copy(x):
    rows = (x * 2).repeat(3).reshape(3, 4)
    rows[:, :-1].add_(rows[:, 1:].clone())
    return rows * 2


@shifted_in_place.fixed("compute without writing")
def shifted(x):
    rows = (x * 2).repeat(3).reshape(3, 4)
    return torch.cat([rows[:, :-1] + rows[:, 1:], rows[:, -1:]], 1) * 2


@breaks(b.TENSOR_PLACE)
def shared(x):
    y = x * 2
    return y.share_memory_() + 1


@shared.fixed("do it outside")
def shared_outside(graph, x):
    y = graph(lambda x: x * 2)(x)
    return graph(lambda y: y + 1)(y.share_memory_())


@breaks(b.TENSOR_COPY)
def copied(x):
    return copy.deepcopy(x[1:]) * 2


@copied.fixed("copy the values")
def copied_values(x):
    return x[1:].detach().clone() * 2


@copied.fixed("copy outside")
def copied_outside(graph, x):
    return graph(lambda x: x * 2)(copy.deepcopy(x[1:]))


@breaks(b.TENSOR_HISTORY, leaf)
def history(x):
    y = x * 2
    return y + (y.grad_fn is not None)


@history.fixed("ask for requires_grad")
def history_by_flag(x):
    y = x * 2
    return y + y.requires_grad


@history.fixed("look at it outside")
def history_outside(graph, x):
    y = graph(lambda x: x * 2)(x)
    return y + (y.grad_fn is not None)


@breaks(b.TENSOR_ATTRIBUTE)
def attribute(x):
    y = x * 2
    vars(y)["scale"] = 2
    return y / y.scale


@attribute.fixed("ask for the attributes by their names")
def attribute_by_name(x):
    y = x * 2
    y.scale = 2
    return y / y.scale


@breaks(b.GRAD_WRITE)
def gradient(x):
    del x.grad
    return x + 1


@gradient.fixed("set it outside")
def gradient_outside(graph, x):
    del x.grad
    return graph(lambda x: x + 1)(x)


class Doubled(torch.Tensor):
    """A tensor that holds another one, of which it shows the double."""

    @staticmethod
    def __new__(cls, half):
        return torch.Tensor._make_wrapper_subclass(cls, half.shape, dtype=half.dtype)

    def __init__(self, half):
        self.half = half

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        plain = [value.half * 2 if isinstance(value, Doubled) else value for value in args]
        return function(*plain, **(kwargs or {}))


class Described(Doubled):
    """One that says what it is made of."""

    def __tensor_flatten__(self):
        return ["half"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return Described(parts["half"])


def doubled():
    return (Doubled(torch.linspace(0.5, 2.0, 4)),)


@breaks(b.TENSOR_SUBCLASS, doubled, uses=(Doubled,))
def of_subclass(x):
    return x + 1


@of_subclass.fixed("give the class __tensor_flatten__", uses=(Described,))
def of_described(graph, x):
    return graph(lambda x: x + 1)(Described(x.half))


@breaks(b.SUBCLASS_MADE, uses=(Doubled,))
def subclass_made(x):
    return Doubled(x) + 1


@subclass_made.fixed("make it outside")
def subclass_made_outside(graph, x):
    y = Doubled(x) + 1
    return graph(lambda y: y * 1)(y)


class Tagged(torch.Tensor):
    """A subclass without behaviour of its own."""


def tagged():
    return (torch.linspace(0.5, 2.0, 4).as_subclass(Tagged),)


@breaks(b.SUBCLASS_ATTRIBUTE, tagged, uses=(Tagged,))
def leafness(x):
    return (x * (2 if x.is_leaf else 1)).as_subclass(torch.Tensor)


@leafness.fixed("ask for it")
def leafness_outside(graph, x):
    scale = 2 if x.is_leaf else 1
    return graph(lambda x: (x * scale).as_subclass(torch.Tensor))(x)


class Scale(torch.nn.Parameter):
    """A kind of parameters."""


@breaks(b.PARAMETER_MADE)
def parameter(x):
    scale = Scale(torch.ones(4))
    return (x * scale).detach()


@parameter.fixed("make modules and parameters outside")
def parameter_outside(graph, x):
    scale = Scale(torch.ones(4))
    return graph(lambda x, scale: (x * scale).detach())(x, scale.as_subclass(torch.Tensor))


def sparse():
    return (torch.eye(3).to_sparse(),)


@breaks(b.TENSOR_LAYOUT, sparse)
def sparse_argument(x):
    return (x * 2).to_dense()


@sparse_argument.fixed("pass a dense tensor")
def dense_argument(graph, x):
    return graph(lambda x: x * 2)(x.to_dense())


def generator():
    return torch.linspace(0.5, 2.0, 4), torch.Generator().manual_seed(0)


@breaks(b.GENERATOR_MADE)
def own_generator(x):
    generator = torch.Generator().manual_seed(0)
    return x + torch.rand(4, generator=generator)


@own_generator.fixed("make the generator outside")
def own_generator_outside(graph, x):
    generator = torch.Generator().manual_seed(0)
    return graph(lambda x, drawn: x + drawn)(x, torch.rand(4, generator=generator))


@breaks(b.GENERATOR_ARGUMENT, generator, same=False)
def noise(x, generator):
    return x + torch.rand(4, generator=generator)


@noise.fixed("draw outside")
def noise_passed(graph, x, generator):
    return graph(lambda x, noise: x + noise)(x, torch.rand(4, generator=generator))


@noise.fixed("draw from the default generator")
def default_noise(x, generator):
    return x + torch.rand(4)
