"""Optimizers written from scratch: their step alone, and the whole training step."""

import math
from collections import defaultdict

import torch
from torch import nn
from torch.optim import Optimizer

from tests.state.kept import Kept

kept = Kept()


class Lion(Optimizer):
    def __init__(self, params, lr=0.1, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.data.mul_(1 - group["lr"] * group["weight_decay"])
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p)
                exp_avg = state["exp_avg"]
                beta1, beta2 = group["betas"]
                update = exp_avg * beta1 + p.grad * (1 - beta1)
                p.add_(update.sign_(), alpha=-group["lr"])
                exp_avg.mul_(beta2).add_(p.grad, alpha=1 - beta2)
        return loss


class SAM(Optimizer):
    def __init__(self, params, base_optimizer, rho=0.05, adaptive=False, **kwargs):
        super().__init__(params, dict(rho=rho, adaptive=adaptive, **kwargs))
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups
        self.defaults.update(self.base_optimizer.defaults)

    @torch.no_grad()
    def first_step(self, zero_grad=False):
        grad_norm = self._grad_norm()
        for group in self.param_groups:
            scale = group["rho"] / (grad_norm + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old_p"] = p.data.clone()
                e_w = (torch.pow(p, 2) if group["adaptive"] else 1.0) * p.grad * scale.to(p)
                p.add_(e_w)
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad=False):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.data = self.state[p]["old_p"]
        self.base_optimizer.step()
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def step(self, closure=None):
        assert closure is not None, "Sharpness Aware Minimization requires closure, but it was not provided"
        closure = torch.enable_grad()(closure)
        self.first_step(zero_grad=True)
        closure()
        self.second_step()

    def _grad_norm(self):
        shared_device = self.param_groups[0]["params"][0].device
        return torch.norm(
            torch.stack(
                [
                    ((torch.abs(p) if group["adaptive"] else 1.0) * p.grad).norm(p=2).to(shared_device)
                    for group in self.param_groups
                    for p in group["params"]
                    if p.grad is not None
                ]
            ),
            p=2,
        )


class Lookahead(Optimizer):
    def __init__(self, base_optimizer, k=3, alpha=0.5):
        self.base = base_optimizer
        self.k, self.alpha = k, alpha
        self.param_groups = base_optimizer.param_groups
        self.defaults = base_optimizer.defaults
        self.state = defaultdict(dict)
        for group in self.param_groups:
            group["step_counter"] = 0

    def zero_grad(self, set_to_none=True):
        self.base.zero_grad(set_to_none)

    @torch.no_grad()
    def update_slow(self, group):
        for fast in group["params"]:
            param_state = self.state[fast]
            if "slow_buffer" not in param_state:
                param_state["slow_buffer"] = torch.empty_like(fast)
                param_state["slow_buffer"].copy_(fast)
            slow = param_state["slow_buffer"]
            slow.add_(fast - slow, alpha=self.alpha)
            fast.copy_(slow)

    def step(self, closure=None):
        loss = self.base.step(closure)
        for group in self.param_groups:
            group["step_counter"] += 1
            if group["step_counter"] % self.k == 0:
                self.update_slow(group)
        return loss


class Adafactor(Optimizer):
    def __init__(self, params, lr=None, eps=(1e-30, 1e-3), clip_threshold=1.0, decay_rate=-0.8, scale_parameter=True):
        super().__init__(
            params,
            dict(lr=lr, eps=eps, clip_threshold=clip_threshold, decay_rate=decay_rate, scale_parameter=scale_parameter),
        )

    @staticmethod
    def _get_lr(group, state):
        rel_step_sz = group["lr"]
        if rel_step_sz is None:
            rel_step_sz = min(1e-2, 1.0 / math.sqrt(state["step"]))
        param_scale = 1.0
        if group["scale_parameter"]:
            param_scale = max(group["eps"][1], state["RMS"])
        return param_scale * rel_step_sz

    @staticmethod
    def _rms(tensor):
        return tensor.norm(2) / (tensor.numel() ** 0.5)

    @staticmethod
    def _approx_sq_grad(exp_avg_sq_row, exp_avg_sq_col):
        r_factor = (exp_avg_sq_row / exp_avg_sq_row.mean(dim=-1, keepdim=True)).rsqrt_().unsqueeze(-1)
        c_factor = exp_avg_sq_col.unsqueeze(-2).rsqrt()
        return torch.mul(r_factor, c_factor)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad
                state = self.state[p]
                factored = len(grad.shape) >= 2
                if len(state) == 0:
                    state["step"] = 0
                    if factored:
                        state["exp_avg_sq_row"] = torch.zeros(grad.shape[:-1]).to(grad)
                        state["exp_avg_sq_col"] = torch.zeros(grad.shape[:-2] + grad.shape[-1:]).to(grad)
                    else:
                        state["exp_avg_sq"] = torch.zeros_like(grad)
                    state["RMS"] = 0
                state["step"] += 1
                state["RMS"] = self._rms(p)
                lr = self._get_lr(group, state)
                beta2t = 1.0 - math.pow(state["step"], group["decay_rate"])
                update = (grad**2) + group["eps"][0]
                if factored:
                    exp_avg_sq_row, exp_avg_sq_col = state["exp_avg_sq_row"], state["exp_avg_sq_col"]
                    exp_avg_sq_row.mul_(beta2t).add_(update.mean(dim=-1), alpha=1.0 - beta2t)
                    exp_avg_sq_col.mul_(beta2t).add_(update.mean(dim=-2), alpha=1.0 - beta2t)
                    update = self._approx_sq_grad(exp_avg_sq_row, exp_avg_sq_col)
                    update.mul_(grad)
                else:
                    exp_avg_sq = state["exp_avg_sq"]
                    exp_avg_sq.mul_(beta2t).add_(update, alpha=1.0 - beta2t)
                    update = exp_avg_sq.rsqrt().mul_(grad)
                update.div_((self._rms(update) / group["clip_threshold"]).clamp_(min=1.0))
                update.mul_(lr)
                p.add_(-update)


class Lamb(Optimizer):
    def __init__(self, params, lr=1e-2, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def step(self, closure=None):
        loss = None
        if closure is not None:
            loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.data
                if grad.is_sparse:
                    raise RuntimeError("Lamb does not support sparse gradients, consider SparseAdam instead.")
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p.data)
                    state["exp_avg_sq"] = torch.zeros_like(p.data)
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                beta1, beta2 = group["betas"]
                state["step"] += 1
                exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                weight_norm = p.data.pow(2).sum().sqrt().clamp(0, 10)
                adam_step = exp_avg / exp_avg_sq.sqrt().add(group["eps"])
                if group["weight_decay"] != 0:
                    adam_step.add_(p.data, alpha=group["weight_decay"])
                adam_norm = adam_step.pow(2).sum().sqrt()
                trust_ratio = torch.where((weight_norm == 0) | (adam_norm == 0), 1.0, weight_norm / adam_norm)
                trust_ratio = trust_ratio.clamp(max=10)  # else a step close to zero makes any rounding large
                state["weight_norm"] = weight_norm
                state["adam_norm"] = adam_norm
                state["trust_ratio"] = trust_ratio
                p.data.sub_(group["lr"] * trust_ratio * adam_step)
        return loss


class PlainAdam:
    """One that is no `torch.optim.Optimizer`: a dictionary of moments by parameter."""

    def __init__(self, params, lr=0.01):
        self.params, self.lr, self.t = list(params), lr, 0
        self.m = defaultdict(float)
        self.v = {}

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        self.t += 1
        for p in self.params:
            if p not in self.v:
                self.v[p] = torch.zeros_like(p)
            self.m[p] = 0.9 * self.m[p] + 0.1 * p.grad
            self.v[p] = 0.999 * self.v[p] + 0.001 * p.grad**2
            p -= self.lr * (self.m[p] / (1 - 0.9**self.t)) / ((self.v[p] / (1 - 0.999**self.t)).sqrt() + 1e-8)


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def training(compile, whole, model, optimizer):
    """A call trains on a new batch; the step alone is compiled, or all of it."""
    step = optimizer.step if whole else compile(optimizer.step)

    def train(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        step()
        return loss.detach()

    return batches(compile(train) if whole else train), lambda: (model, optimizer)


def batches(train):
    def call():
        x = torch.randn(16, 4)
        return train(x, x.sum(1, keepdim=True))

    return call


@kept(recompiles=1)
def lion_step(compile):
    model = mlp()
    return training(compile, False, model, Lion(model.parameters()))


@kept(recompiles=1)
def lion(compile):
    model = mlp()
    return training(compile, True, model, Lion(model.parameters(), weight_decay=0.1))


@kept(recompiles=3)
def lookahead_step(compile):
    model = mlp()
    return training(compile, False, model, Lookahead(torch.optim.SGD(model.parameters(), lr=0.05)))


@kept(recompiles=3)
def lookahead(compile):
    model = mlp()
    return training(compile, True, model, Lookahead(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)))


@kept(breaks=("data-dependent-order", "outside-iterator"), recompiles=18, limited=True)
def adafactor_step(compile):
    model = mlp()
    return training(compile, False, model, Adafactor(model.parameters()))


@kept(recompiles=2)
def adafactor(compile):
    model = mlp()
    return training(compile, True, model, Adafactor(model.parameters(), lr=0.01, scale_parameter=False))


@kept(recompiles=2)
def lamb_step(compile):
    model = mlp()
    return training(compile, False, model, Lamb(model.parameters()))


@kept(recompiles=2)
def lamb(compile):
    model = mlp()
    return training(compile, True, model, Lamb(model.parameters()))


@kept(recompiles=1)
def plain_adam_step(compile):
    model = mlp()
    return training(compile, False, model, PlainAdam(model.parameters()))


@kept(recompiles=1)
def plain_adam(compile):
    model = mlp()
    return training(compile, True, model, PlainAdam(model.parameters()))


@kept(breaks=("outside-iterator", "tensor-memory-change"), recompiles=4)
def sam(compile):
    model = mlp()
    optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)

    def train(x, y):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.first_step(zero_grad=True)
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.second_step(zero_grad=True)
        return loss.detach()

    return batches(compile(train)), lambda: (model, optimizer)


@kept(breaks=("outside-iterator", "tensor-memory-change"), recompiles=4)
def sam_closure(compile):
    model = mlp()
    optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9, adaptive=True)

    def train(x, y):
        def closure():
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        loss = closure()
        optimizer.step(closure)
        optimizer.zero_grad()
        return loss.detach()

    return batches(compile(train)), lambda: (model, optimizer)


@kept(breaks=("outside-iterator", "tensor-memory-change"), recompiles=4)
def sam_steps(compile):
    model = mlp()
    optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    first, second = compile(optimizer.first_step), compile(optimizer.second_step)

    def train(x, y):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        first(zero_grad=True)
        nn.functional.mse_loss(model(x), y).backward()
        second(zero_grad=True)
        return loss.detach()

    return batches(train), lambda: (model, optimizer)
