"""Autograd around the escape hatches: custom operators, functions that the graph calls, hooks, checkpoints and breaks."""

from __future__ import annotations

import contextlib
import warnings

import torch
import torch._decomp.decompositions_for_jvp  # loaded late by the first of all, it gives warnings there
from torch.utils.checkpoint import checkpoint

import onegraph
from tests.capture.registered import cube, cube_in_place, halves, offset_and_count
from tests.capture.twins import Cases

case = Cases()
SEEN = []
WEIGHT = torch.nn.Parameter(torch.arange(3.0) + 1)
LINEAR = torch.nn.Linear(3, 3)
with torch.no_grad():
    LINEAR.weight.copy_(torch.eye(3) * 2)
    LINEAR.bias.fill_(0.5)
BUFFER = torch.zeros(3)


def leaf():
    return (torch.rand(3, requires_grad=True),)


def inner():
    return (torch.rand(3, requires_grad=True) * 1,)


def gradients(result, *inputs):
    return torch.autograd.grad(result, inputs, retain_graph=True, allow_unused=True)


# ---- custom operators ------------------------------------------------------------------------------------------------


@case(leaf)
def operator_with_a_gradient(x):
    return cube(x * WEIGHT).sum() + x.sin()


@case(leaf)
def operator_with_a_gradient_behind_a_break(x):
    y = cube(x)
    onegraph.graph_break()
    z = cube(y + 1)
    return z, gradients(z.sum(), x, y)


@case(leaf)
def operator_twice_differentiated(x):
    y = cube(x)
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    onegraph.graph_break()
    (curve,) = torch.autograd.grad(slope.sum(), x)
    return slope, curve


@case(leaf)
def operator_of_two_results(x):
    a, b = halves(x)
    onegraph.graph_break()
    return a * 2, gradients((a * a + b).sum(), x)


@case(leaf)
def operator_with_an_integer_result(x):
    y, count = offset_and_count(x, 2.0)
    return y * count, count.requires_grad, count.dtype


@case(leaf)
def operator_under_no_grad(x):
    with torch.no_grad():
        y = cube(x)
        onegraph.graph_break()
    return y.requires_grad, cube(y) + x


@case(leaf)
def operator_that_writes_to_a_buffer(x):
    cube_in_place(BUFFER, x.detach())
    y = x * BUFFER
    onegraph.graph_break()
    cube_in_place(BUFFER, y.detach())
    return y, BUFFER.clone(), BUFFER._version


@case(leaf)
def operator_that_writes_to_a_result(x):
    y = x.detach() * 2
    cube_in_place(y, y.clone())
    return y + x, y._version


@case(leaf)
def operator_that_writes_to_what_is_recorded(x):
    y = x * 2
    try:
        cube_in_place(y, x)
    except RuntimeError as error:
        SEEN.append(type(error))
    return y


class CubeInto(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, out):
        ctx.save_for_backward(x)
        cube_in_place(out, x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        cube_in_place(BUFFER, gradient)
        return gradient * 2, None


@case(leaf)
def operator_that_writes_in_a_custom_function(x):
    y = torch.zeros(3)
    out = CubeInto.apply(x, y)
    onegraph.graph_break()
    return out, y, y._version > 0, gradients(out.sum(), x), BUFFER.clone()


@case(leaf)
def operator_that_writes_to_a_saved_tensor(x):
    y = x * 1
    z = y * y
    cube_in_place(y.data, x.detach())
    SEEN.append(gradients(z.sum(), x))
    with contextlib.suppress(RuntimeError):
        y.detach().add_(1)
        SEEN.append(gradients(z.sum(), x))
    return z


# ---- functions that the graph calls ----------------------------------------------------------------------------------


@onegraph.allow_in_graph
def opaque(x, y):
    return (x * y).tanh(), x.detach() + 1


@onegraph.nonstrict_trace
def nonstrict(pair):
    return {"sum": pair[0] + pair[1], "same": pair[0]}


@onegraph.allow_in_graph
def penalty(x):
    (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return slope.square().sum()


@case(leaf)
def allowed(x):
    a, b = opaque(x, WEIGHT)
    onegraph.graph_break()
    return a, b.requires_grad, gradients(a.sum(), x, WEIGHT)


@case(inner)
def allowed_gradient(x):
    return penalty(x), x * 2


@case(leaf)
def nonstrictly_traced(x):
    found = nonstrict((x * 2, WEIGHT))
    y = found["sum"] * found["same"]
    onegraph.graph_break()
    return y, found["same"].requires_grad, gradients(y.sum(), x, WEIGHT)


@case(leaf)
def allowed_under_no_grad(x):
    with torch.no_grad():
        a, _ = opaque(x, WEIGHT)
    b, _ = opaque(x, WEIGHT)
    return a.requires_grad, b.requires_grad, a + b


@onegraph.disable
def disabled(x):
    SEEN.append(x.requires_grad)
    return x.exp() * WEIGHT


@case(inner)
def disabled_in_the_middle(x):
    y = disabled(x.sin())
    z = y.cos()
    return z, gradients(z.sum(), x, y, WEIGHT)


# ---- hooks -----------------------------------------------------------------------------------------------------------


@case(leaf)
def hook_of_a_tensor_across_a_break(x):
    y = x * 2
    handle = y.register_hook(lambda g: SEEN.append("hook") or g * 10)
    onegraph.graph_break()
    z = (y * y).sum()
    first = gradients(z, x)
    handle.remove()
    return first, gradients(z, x)


@case(leaf)
def hook_that_the_break_is_in(x):
    def hook(gradient):
        onegraph.graph_break()
        SEEN.append(gradient.clone())
        return gradient + 1

    y = x * 2
    y.register_hook(hook)
    return (y.sin()).sum()


@case(leaf)
def hook_of_a_leaf(x):
    x.register_post_accumulate_grad_hook(lambda t: SEEN.append(t.grad.clone()))
    (x * x).sum().backward()
    onegraph.graph_break()
    (x * 3).sum().backward()
    return x.grad


@case(leaf)
def hooks_of_a_module(x):
    handles = [
        LINEAR.register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
        LINEAR.register_forward_hook(lambda m, args, out: out + 1),
    ]
    y = LINEAR(x)
    onegraph.graph_break()
    z = LINEAR(y)
    for handle in handles:
        handle.remove()
    return z, LINEAR(z), gradients(z.sum(), x, LINEAR.weight)


@case(leaf)
def backward_hooks_of_a_module(x):
    handle = LINEAR.register_full_backward_hook(
        lambda m, inputs, outputs: SEEN.append((inputs[0].clone(), outputs[0].clone()))
    )
    y = LINEAR(x).relu()
    onegraph.graph_break()
    found = gradients(y.sum(), x, LINEAR.bias)
    handle.remove()
    return y, found


@case(leaf)
def hook_of_a_node(x):
    y = x.exp()
    y.grad_fn.register_hook(lambda inputs, outputs: SEEN.append("node"))
    onegraph.graph_break()
    return y * 2, gradients(y.sum(), x)


@case(leaf)
def retained(x):
    y = x * 2
    y.retain_grad()
    onegraph.graph_break()
    y.sin().sum().backward()
    return y.grad, x.grad


# ---- checkpoints and saved tensors -----------------------------------------------------------------------------------


def broken(x):
    y = x.sin()
    onegraph.graph_break()
    SEEN.append("ran")
    return y * WEIGHT


@case(leaf)
def checkpoint_of_a_break(x):
    y = checkpoint(broken, x, use_reentrant=False)
    return y, gradients(y.sum(), x, WEIGHT)


@case(leaf)
def reentrant_checkpoint_of_a_break(x):
    y = checkpoint(broken, x, use_reentrant=True)
    y.sum().backward()
    return y, x.grad


@case(leaf)
def checkpoint_around_a_break(x):
    y = checkpoint(lambda t: t * t, x, use_reentrant=False)
    onegraph.graph_break()
    z = checkpoint(lambda t, u: (t * u).tanh(), y, x, use_reentrant=False)
    return z, gradients(z.sum(), x, y)


@case(leaf)
def checkpoint_of_random_numbers(x):
    y = checkpoint(lambda t: torch.nn.functional.dropout(t, 0.5) * t, x, use_reentrant=False)
    onegraph.graph_break()
    return y, gradients(y.sum(), x), torch.rand(1)


@case(leaf)
def checkpoint_in_a_checkpoint(x):
    y = checkpoint(lambda t: checkpoint(broken, t, use_reentrant=False) * 2, x, use_reentrant=False)
    return y, gradients(y.sum(), x)


@case(leaf)
def saved_tensors_across_a_break(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: SEEN.append("pack") or t * 1, lambda t: t * 2):
        y = x * x
        onegraph.graph_break()
        z = y * x
    return z, gradients(z.sum(), x)


# ---- more than once --------------------------------------------------------------------------------------------------


@case(leaf)
def twice_differentiated_across_breaks(x):
    y = (x**3).sum()
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    onegraph.graph_break()
    (curve,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
    onegraph.graph_break()
    (bend,) = torch.autograd.grad(curve.sum(), x)
    return slope, curve, bend


@case(leaf)
def backward_twice(x):
    y = (x * x).sum()
    y.backward(retain_graph=True)
    onegraph.graph_break()
    y.backward()
    try:
        y.backward()
    except RuntimeError:
        SEEN.append("freed")
    return x.grad


@case(leaf)
def accumulated(x):
    for index in range(3):
        (x * index).sum().backward()
        if index == 1:
            onegraph.graph_break()
    gradient, x.grad = x.grad, None
    return gradient, x.grad


@case(leaf)
def gradient_with_a_graph(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns once
        (x**3).sum().backward(create_graph=True)
    onegraph.graph_break()
    gradient = x.grad
    found = gradients(gradient.sum(), x)
    x.grad = None
    return gradient.detach(), found


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        ctx.mark_non_differentiable(sign := x.sign())
        return x**3 * k, sign

    @staticmethod
    def backward(ctx, g, _):
        (x,) = ctx.saved_tensors
        onegraph.graph_break()
        SEEN.append(ctx.needs_input_grad)
        return 3 * x**2 * g * ctx.k, None


@case(inner)
def custom_function_across_a_break(x):
    y, sign = Cubed.apply(x, 2)
    onegraph.graph_break()
    return y, sign.requires_grad, gradients(y.sum(), x)


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


@case(inner)
def custom_function_that_writes(x):
    y = InPlace.apply(x)
    onegraph.graph_break()
    return y, y is x, x._version, type(x.grad_fn).__name__


@case(leaf)
def modes_in_a_backward_hook(x):
    y = x * 2
    y.register_hook(lambda g: SEEN.append(torch.is_grad_enabled()))
    with torch.no_grad():
        onegraph.graph_break()
        with torch.enable_grad():
            z = y.sum()
    z.backward(create_graph=True)
    gradient, x.grad = x.grad, None
    return gradient.requires_grad


@case(leaf)
def anomalies_across_a_break(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.set_detect_anomaly(True):
            y = (x - x).sqrt() * 0
            onegraph.graph_break()
            try:
                y.sum().backward()
            except RuntimeError as error:
                SEEN.append(type(error))
    return y


@case(leaf)
def leaves_made_inside(x):
    w = torch.ones(3, requires_grad=True)
    onegraph.graph_break()
    p = torch.nn.Parameter(x.detach() * 2)
    y = (w * p * x).sum()
    onegraph.graph_break()
    return gradients(y, w, p, x), w.is_leaf, p.is_leaf


@case(leaf)
def written_under_no_grad_between_uses(x):
    y = x * x
    with torch.no_grad():
        x.add_(1)
        onegraph.graph_break()
    try:
        return gradients(y.sum(), x)
    except RuntimeError:
        SEEN.append("changed")
    return y.detach()


@case(inner)
def written_data_between_uses(x):
    y = x * x
    x.data.add_(1)
    onegraph.graph_break()
    x.data[0] = 5
    return gradients(y.sum(), x), x._version


@case(inner)
def view_and_base_written(x):
    view = x[1:]
    view.mul_(WEIGHT[1:])
    onegraph.graph_break()
    x[0] = 0
    return view, type(view.grad_fn).__name__, gradients(x.sum(), WEIGHT)


@case(lambda: (torch.rand(3), torch.rand(3, requires_grad=True)))
def history_given_in_place(x, w):
    x.mul_(w)
    onegraph.graph_break()
    y = x.detach_()
    return y.requires_grad, x.requires_grad, x * w


@case(leaf)
def interrupted_gradient_modes(x):
    with torch.set_grad_enabled(False):
        a = x * 2
        onegraph.graph_break()
        b = x * 3
        torch.set_grad_enabled(True)
        c = x * 4
        onegraph.graph_break()
        d = x * 5
    return [t.requires_grad for t in (a, b, c, d)], torch.is_grad_enabled(), d


@case(leaf)
def forward_mode(x):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones(3))
        y = dual * WEIGHT.detach()
        onegraph.graph_break()
        return tuple(torch.autograd.forward_ad.unpack_dual(y.sin() + 1))


@case(leaf)
def mutation_of_saved_tensors(x):
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = y * y
        onegraph.graph_break()
        y.mul_(2)
        z.sum().backward()
    return x.grad


@case(leaf)
def no_hooks_of_saved_tensors(x):
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        y = x * x
        onegraph.graph_break()
        z = y * x
    return z, gradients(z.sum(), x)


@case(leaf)
def hook_of_several_tensors(x):
    y, z = x * 2, x * 3
    torch.autograd.graph.register_multi_grad_hook((y, z), lambda found: SEEN.append([g.clone() for g in found]))
    onegraph.graph_break()
    (y * z).sum().backward()
    return x.grad


@case(leaf)
def edge_of_a_result(x):
    y = x * 2
    edge = torch.autograd.graph.get_gradient_edge(y)
    onegraph.graph_break()
    return torch.autograd.grad((y * y).sum(), edge)


@case(leaf)
def transforms_around_a_break(x):
    y = torch.func.vmap(lambda t: t.sin() * 2)(x)
    onegraph.graph_break()
    return y, gradients(y.sum(), x), torch.func.grad(lambda t: (t**3).sum())(x)
