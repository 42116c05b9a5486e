"""Gradients."""

from __future__ import annotations

import torch

from onegraph.capture import breaks as b
from tests.capture.breaks.table import breaks


def leaf():
    return (torch.linspace(0.5, 2.0, 4, requires_grad=True),)


@breaks(b.BACKWARD_CALL, leaf)
def step(x):
    loss = (x * x).sum()
    loss.backward(create_graph=True)
    return loss.detach()


@step.fixed("return the loss")
def step_behind(graph, x):
    loss = graph(lambda x: (x * x).sum())(x)
    loss.backward(create_graph=True)
    return loss.detach()


def computed():
    x = torch.linspace(0.5, 2.0, 4, requires_grad=True)
    return x, x * x


@breaks(b.GRADIENT_CALL, computed)
def slope(x, y):
    (gradient,) = torch.autograd.grad(y.sum(), x)
    return gradient + 1


@slope.fixed("return the outputs")
def slope_behind(graph, x, y):
    (gradient,) = torch.autograd.grad(graph(lambda y: y.sum())(y), x)
    return gradient + 1


@breaks(b.FUNCTION_TRANSFORM)
def transformed(x):
    return torch.autograd.functional.jacobian(torch.sin, x) + 1


@transformed.fixed("use a transform of torch.func")
def transformed_by_torch_func(x):
    return torch.func.jacrev(torch.sin)(x) + 1


@transformed.fixed("apply the transformation outside")
def transformed_outside(graph, x):
    derivative = torch.autograd.functional.jacobian(torch.sin, x)
    return graph(lambda d: d + 1)(derivative)


@breaks(b.TENSOR_HOOK, leaf)
def hooked(x):
    y = x * 2
    y.register_hook(lambda gradient: gradient * 3)
    return y.mul_(5)


@hooked.fixed("register the hook behind the last write")
def hooked_behind(x):
    y = x * 2
    y = y.mul_(5)
    y.register_hook(lambda gradient: gradient * 3)
    return y


@hooked.fixed("register the hook outside")
def hooked_outside(graph, x):
    y = graph(lambda x: x * 2)(x)
    y.register_hook(lambda gradient: gradient * 3)
    return y.mul_(5)


class Two(torch.nn.Module):
    def forward(self, x):
        return x.sin(), x.cos()


WATCHED = Two()
WATCHED.register_full_backward_hook(lambda module, inputs, outputs: None)
OUTER = torch.nn.Sequential(Two())
OUTER.register_full_backward_hook(lambda module, inputs, outputs: None)


@breaks(b.MODULE_BACKWARD_HOOK, leaf)
def watched(x):
    y, z = WATCHED(x)
    return y * z


@watched.fixed("register the hooks on a module")
def watched_outside(graph, x):
    y, z = graph(OUTER[0])(x)
    return y * z


def same(x):
    return x


@breaks(b.SAVED_TENSOR_HOOKS, leaf)
def saving(x):
    y = x * 2
    with torch.autograd.graph.saved_tensors_hooks(same, same):
        return y.sin()


@saving.fixed("use the context outside")
def saving_outside(graph, x):
    y = graph(lambda x: x * 2)(x)
    with torch.autograd.graph.saved_tensors_hooks(same, same):
        return y.sin()


@breaks(b.CHECKPOINT, leaf)
def checkpointed(x):
    y = x.detach() * 2
    return x * torch.utils.checkpoint.checkpoint(torch.sin, y, use_reentrant=True)


@checkpointed.fixed("pass use_reentrant=False")
def checkpointed_in_the_graph(x):
    y = x.detach() * 2
    return x * torch.utils.checkpoint.checkpoint(torch.sin, y, use_reentrant=False)


@checkpointed.fixed("apply the checkpoint around")
def checkpointed_outside(graph, x):
    return x * torch.utils.checkpoint.checkpoint(graph(lambda y: y.sin()), x.detach() * 2, use_reentrant=True)


@breaks(b.REQUIRES_GRAD)
def recording(x):
    return x.requires_grad_() + 1


@recording.fixed("call it outside")
def recording_outside(graph, x):
    return graph(lambda x: x + 1)(x.requires_grad_())


SEEN = []


class Square(torch.autograd.Function):
    """x * x, with its own backward, which counts its calls."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        SEEN.append(1)
        return 2 * x * gradient


@breaks(b.CUSTOM_FUNCTION, leaf, uses=(Square,))
def squared(x):
    return Square.apply(x).detach() + 1


class PlainSquare(Square):
    """Its backward only computes."""

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


@squared.fixed("let backward compute gradients only", uses=(PlainSquare,))
def squared_plainly(x):
    return PlainSquare.apply(x).detach() + 1


@squared.fixed("call the function under torch.no_grad()")
def squared_without_gradient(x):
    with torch.no_grad():
        return Square.apply(x).detach() + 1


def views_and_weight():
    base = torch.linspace(0.5, 2.0, 8)
    return base[:4], base[4:], torch.linspace(1.0, 2.0, 4, requires_grad=True)


@breaks(b.SHARED_HISTORY, views_and_weight)
def written_view(x, y, w):
    x.mul_(w)
    return (x + y).detach()


@written_view.fixed("write under torch.no_grad()")
def written_view_detached(x, y, w):
    x.mul_(w.detach())
    return (x + y).detach()


@written_view.fixed("make a new tensor")
def new_tensor(x, y, w):
    x = x * w
    return (x + y).detach()
