"""Autograd inside and around of compiled programs; gradients must be eager's."""

from __future__ import annotations

import torch
from torch.func import functional_call, grad, hessian, jacrev, vjp, vmap
from torch.utils.checkpoint import checkpoint

from tests.capture.twins import Cases

case = Cases()
W = torch.nn.Parameter(torch.arange(3.0))
SEEN = []
LINEAR = torch.nn.Linear(3, 3)
with torch.no_grad():
    LINEAR.weight.copy_(torch.eye(3) * 2)
    LINEAR.bias.fill_(0.5)
OPTIMIZER = torch.optim.SGD(LINEAR.parameters(), lr=0.1, momentum=0.9)
ADAM = torch.optim.Adam([W], lr=0.1)


def leaf():
    return (torch.rand(3, requires_grad=True),)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        SEEN.append("backward")
        (x,) = ctx.saved_tensors
        return g * x * 7


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g


@case(leaf)
def plain(x):
    return (x * W).sin().sum(), x.exp()


@case(leaf)
def through_containers(x):
    d = {"a": x * 2}
    d["b"] = [d["a"] + W, (x,)]
    return d


@case(leaf)
def partly_detached(x):
    with torch.no_grad():
        scale = x.sum()
    y = x * scale
    return y + x.detach(), scale


@case(leaf)
def in_place_on_intermediate(x):
    y = x * 2
    y.mul_(x)
    y[0] = 0
    z = y.view(3)
    z.add_(1)
    return y


@case(leaf)
def in_place_on_leaf(x):
    x.add_(1)
    return x


@case(leaf)
def in_place_under_no_grad(x):
    with torch.no_grad():
        x.add_(1)
        W.mul_(2)
    return x * W


@case(leaf)
def autograd_grad(x):
    y = (x**3).sum()
    (g,) = torch.autograd.grad(y, x)
    return g, y


@case(leaf)
def double_backward(x):
    y = (x**3).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return (g * 2).sum()


@case(leaf)
def backward_inside(x):
    (x * W).sum().backward()
    return x.grad, W.grad


@case(leaf)
def backward_of_fresh_leaf(x):
    w = torch.ones(3, requires_grad=True)
    (w * x.detach()).sum().backward()
    return w.grad


@case(leaf)
def custom_function(x):
    return Square.apply(x), StraightThrough.apply(x)


@case(leaf)
def custom_function_in_graph(x):
    y = x * 2
    y = Square.apply(y)
    return (y + 1).sum()


@case(leaf)
def checkpointed(x):
    return checkpoint(lambda a: (a * W).sin(), x, use_reentrant=False)


@case(leaf)
def checkpoint_with_module(x):
    return checkpoint(LINEAR, x, use_reentrant=False)


@case
def transforms(x):
    f = lambda a: (a**3).sum()  # noqa: E731
    return grad(f)(x), vmap(lambda a: a * 2)(x), jacrev(f)(x), hessian(f)(x), vjp(f, x)[0]


@case
def vmap_nested(x):
    m = x.expand(3, 4)
    return vmap(vmap(lambda a: a + 1))(m), vmap(torch.dot)(m, m), vmap(lambda a, b: a * b, in_dims=(0, None))(m, x)


@case(lambda: (torch.rand(2, 3),))
def functional_calls(x):
    params = {name: p * 2 for name, p in LINEAR.named_parameters()}
    return functional_call(LINEAR, params, (x,))


@case(leaf)
def tensor_hooks(x):
    y = x * 2
    y.register_hook(lambda g: g * 10)
    return y.sum()


@case(leaf)
def hook_with_effect(x):
    x.register_hook(lambda g: SEEN.append("hook"))
    return (x * 2).sum()


@case(leaf)
def retain_grad(x):
    y = x * 2
    y.retain_grad()
    z = y.sum()
    z.backward()
    return y.grad


@case(leaf)
def saved_tensor_hooks(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t * 2):
        y = x * x
    return y


@case(lambda: (torch.rand(2, 3),))
def module_gradients(x):
    return LINEAR(x).relu().sum()


@case(lambda: (torch.rand(2, 3),))
def training_step(x):
    OPTIMIZER.zero_grad()
    loss = LINEAR(x).pow(2).mean()
    loss.backward()
    OPTIMIZER.step()
    return loss.detach()


@case(lambda: (torch.rand(2, 3),))
def adam_step(x):
    ADAM.zero_grad()
    (x * W).sum().backward()
    ADAM.step()
    return W.detach().clone()


@case(leaf)
def frozen_parameter(x):
    W.requires_grad_(False)
    y = x * W
    W.requires_grad_(True)
    return y, x * W


@case(leaf)
def clones_and_views(x):
    y = x.clone()
    v = y[:2]
    w = x.view(3)
    return v * 2, w, y, x[0]


@case(leaf)
def output_is_input(x):
    return x, x * 1, W


@case(leaf)
def several_outputs_one_used(x):
    a, b = (x * 2).split([1, 2])
    return a.sum(), b.detach(), (x > 0)


@case(leaf)
def gradient_mode_inside(x):
    with torch.set_grad_enabled(x.dim() == 1):
        y = x * 2
    with torch.inference_mode():
        z = x * 3
    return y, z, torch.is_grad_enabled()


@case(lambda: (torch.rand(4, 3, requires_grad=True), torch.tensor([0, 2])))
def embedding_like(w, i):
    return w[i].sum(), torch.nn.functional.embedding(i, w), w.index_select(0, i)


@case(leaf)
def loop_of_gradients(x):
    for _ in range(3):
        x = (x * W).tanh() + x
    return x


@case(leaf)
def where_and_nan(x):
    y = torch.where(x > 0.5, x.log(), torch.zeros_like(x))
    return y.clamp(min=-1), x.abs().sqrt(), (x * float("nan")).nan_to_num()


@case(leaf)
def anomaly(x):
    with torch.autograd.set_detect_anomaly(False):
        return x * 2


@case(lambda: (torch.rand(3), torch.rand(3, requires_grad=True)))
def mixed_requires_grad(a, b):
    a.add_(b)
    return a * 2, a.requires_grad


@case(leaf)
def grad_fn_is_seen(x):
    y = x * 2
    return type(y.grad_fn).__name__, x.grad_fn, y


@case(leaf)
def gradient_penalty(x):
    y = LINEAR(x).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return y + g.pow(2).sum()
