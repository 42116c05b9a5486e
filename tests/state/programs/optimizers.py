"""Optimizers written from scratch: their step alone, and the whole training step."""

import math
from collections import defaultdict

import torch
from torch import nn
from torch.optim import Optimizer

from tests.state.kept import Kept

kept = Kept()


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
def plain_adam_step(compile):
    model = mlp()
    return training(compile, False, model, PlainAdam(model.parameters()))


@kept(breaks=("backward-call", "gradient-write", "outside-iterator"), recompiles=1)
def plain_adam(compile):
    model = mlp()
    return training(compile, True, model, PlainAdam(model.parameters()))


@kept(breaks=("backward-call", "optimizer", "outside-iterator", "tensor-memory-change"), recompiles=3)
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


@kept(
    breaks=("backward-call", "number-of-operator", "optimizer", "outside-iterator", "tensor-memory-change"),
    recompiles=3,
)
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


@kept(breaks=("optimizer", "outside-iterator", "tensor-memory-change"), recompiles=3)
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
