"""What is kept of weights and activations over time: averages, statistics, observers, codebooks, norms."""

import copy
import math
from collections import defaultdict, deque

import torch
import torch.nn.functional as F
from torch import nn

from tests.state.kept import Kept

kept = Kept()


class EMA:
    """Exponential moving average of weights, with warm-up of the decay."""

    def __init__(self, model, decay=0.99):
        self.decay, self.updates = decay, 0
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}
        self.backup = {}

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for name, p in model.named_parameters():
            if p.requires_grad:
                self.shadow[name].lerp_(p, 1 - decay)

    @torch.no_grad()
    def apply(self, model):
        for name, p in model.named_parameters():
            self.backup[name] = p.detach().clone()
            p.copy_(self.shadow[name])

    @torch.no_grad()
    def restore(self, model):
        for name, p in model.named_parameters():
            p.copy_(self.backup.pop(name))


@kept(recompiles=1)
def ema(compile):
    model = nn.Linear(3, 2)
    average = EMA(model)
    update = compile(average.update)

    def call():
        with torch.no_grad():
            model.weight.add_(torch.randn(2, 3))
        update(model)
        return average.updates

    return call, lambda: (model, average)


@kept(recompiles=1)
def ema_evaluation(compile):
    model = nn.Linear(3, 2)
    average = EMA(model)

    def evaluate(x):
        average.update(model)
        average.apply(model)
        y = model(x)
        average.restore(model)
        return y.detach()

    evaluate = compile(evaluate)

    def call():
        with torch.no_grad():
            model.weight.add_(torch.randn(2, 3))
        return evaluate(torch.randn(4, 3))

    return call, lambda: (model, average)


class SWA:
    """Stochastic weight averaging: an average of every third state, in a model of its own."""

    def __init__(self, model, every=3):
        self.averaged = copy.deepcopy(model).requires_grad_(False)
        self.n_averaged, self.seen, self.every = 0, 0, every

    @torch.no_grad()
    def update(self, model):
        self.seen += 1
        if self.seen % self.every:
            return
        for mean, p in zip(self.averaged.parameters(), model.parameters()):
            if self.n_averaged == 0:
                mean.copy_(p)
            else:
                mean.add_((p - mean) / (self.n_averaged + 1))
        self.n_averaged += 1


@kept(recompiles=3)
def swa(compile):
    model = nn.Linear(3, 2)
    average = SWA(model)
    update = compile(average.update)

    def call():
        with torch.no_grad():
            model.weight.add_(torch.randn(2, 3))
        update(model)
        return average.n_averaged

    return call, lambda: (model, average)


class RunningMean:
    def __init__(self):
        self.reset()

    def reset(self):
        self.mean = self.m2 = torch.zeros(())
        self.count = 0

    def update(self, values):
        for value in values.unbind():
            self.count += 1
            delta = value - self.mean
            self.mean = self.mean + delta / self.count
            self.m2 = self.m2 + delta * (value - self.mean)

    def compute(self):
        return self.mean, (self.m2 / max(self.count - 1, 1)).sqrt()


class Accuracy:
    def __init__(self):
        self.correct, self.total = 0, 0

    def update(self, logits, target):
        self.correct += (logits.argmax(-1) == target).sum()
        self.total += target.numel()

    def compute(self):
        return self.correct / self.total


class MetricCollection:
    def __init__(self, **metrics):
        self.metrics = metrics
        self.history = defaultdict(list)

    def __call__(self, logits, target):
        for name, metric in self.metrics.items():
            if isinstance(metric, RunningMean):
                metric.update(F.cross_entropy(logits, target, reduction="none"))
            else:
                metric.update(logits, target)
            self.history[name].append(metric.compute())
        return {name: values[-1] for name, values in self.history.items()}


@kept(recompiles=12, limited=True)
def running_metrics(compile):
    metrics = MetricCollection(loss=RunningMean(), accuracy=Accuracy())
    update = compile(metrics.__call__)
    return lambda: update(torch.randn(4, 3), torch.randint(3, (4,))), lambda: metrics


class SmoothedValue:
    """A window of the last values, as the detection references log it."""

    def __init__(self, window_size=4):
        self.deque = deque(maxlen=window_size)
        self.total, self.count = 0.0, 0

    def update(self, value, n=1):
        self.deque.append(value)
        self.count += n
        self.total += value * n

    @property
    def median(self):
        return torch.stack(list(self.deque)).median()

    @property
    def global_avg(self):
        return self.total / self.count


@kept(recompiles=4)
def smoothed_values(compile):
    meters = defaultdict(SmoothedValue)

    def log(**values):
        for k, v in values.items():
            meters[k].update(v)
        return {k: (m.median, m.global_avg) for k, m in meters.items()}

    log = compile(log)
    return lambda: log(loss=torch.rand(()), norm=torch.rand(())), lambda: dict(meters)


class MovingAverageObserver(nn.Module):
    """Quantization: the range is observed while training, and used then."""

    def __init__(self, averaging_constant=0.1, bits=8):
        super().__init__()
        self.averaging_constant, self.qmax = averaging_constant, 2**bits - 1
        self.register_buffer("min_val", torch.tensor(float("inf")))
        self.register_buffer("max_val", torch.tensor(float("-inf")))
        self.initialized = False
        self.enabled = True

    def forward(self, x):
        if self.training and self.enabled:
            low, high = torch.aminmax(x.detach())
            if not self.initialized:
                self.min_val, self.max_val = low, high
                self.initialized = True
            else:
                self.min_val = self.min_val + self.averaging_constant * (low - self.min_val)
                self.max_val.add_(self.averaging_constant * (high - self.max_val))
        scale = ((self.max_val - self.min_val) / self.qmax).clamp(min=1e-8)
        zero_point = (-self.min_val / scale).round()
        q = torch.clamp((x / scale).round() + zero_point, 0, self.qmax)
        return x + ((q - zero_point) * scale - x).detach()


@kept(recompiles=2)
def quantization_observer(compile):
    model = nn.Sequential(nn.Linear(3, 3), MovingAverageObserver())
    forward = compile(model)
    calls = iter(range(10))

    def call():
        model.train(next(calls) < 6)
        return forward(torch.randn(4, 3))

    return call, lambda: model


class SpectralNorm(nn.Module):
    """Power iteration with the vectors as buffers."""

    def __init__(self, module, name="weight", power_iterations=1):
        super().__init__()
        self.module, self.name, self.power_iterations = module, name, power_iterations
        if not self._made_params():
            self._make_params()

    def _made_params(self):
        return hasattr(self.module, self.name + "_bar")

    def _make_params(self):
        w = getattr(self.module, self.name)
        height = w.data.shape[0]
        self.module.register_buffer(self.name + "_u", F.normalize(w.data.new(height).normal_(0, 1), dim=0))
        del self.module._parameters[self.name]
        self.module.register_parameter(self.name + "_bar", nn.Parameter(w.data))

    def _update(self):
        u, w = getattr(self.module, self.name + "_u"), getattr(self.module, self.name + "_bar")
        with torch.no_grad():
            for _ in range(self.power_iterations):
                v = F.normalize(w.t().mv(u), dim=0)
                u.copy_(F.normalize(w.mv(v), dim=0))
        sigma = u.clone().dot(w.mv(v))
        setattr(self.module, self.name, w / sigma)

    def forward(self, *args):
        self._update()
        return self.module.forward(*args)


@kept()
def spectral_norm(compile):
    layer = SpectralNorm(nn.Linear(3, 2))
    forward = compile(layer)

    def call():
        y = forward(torch.randn(4, 3))
        y.sum().backward()
        return y.detach()

    return call, lambda: layer


class Codebook(nn.Module):
    """K-means by moving averages; codes that nobody uses are placed anew on a random input."""

    def __init__(self, codes=8, dim=3, decay=0.7, threshold=0.3):
        super().__init__()
        self.decay, self.threshold, self.inited = decay, threshold, False
        self.register_buffer("embed", torch.zeros(codes, dim))
        self.register_buffer("embed_avg", torch.zeros(codes, dim))
        self.register_buffer("cluster_size", torch.zeros(codes))

    @torch.no_grad()
    def init_embed_(self, x):
        self.embed.data.copy_(x[torch.randperm(x.shape[0])[: self.embed.shape[0]]])
        self.embed_avg.data.copy_(self.embed)
        self.cluster_size.fill_(1.0)
        self.inited = True

    @torch.no_grad()
    def reset_dead_codes(self, x):
        dead = self.cluster_size < self.threshold
        samples = x[torch.randint(x.shape[0], (self.embed.shape[0],))]
        self.embed.data.copy_(torch.where(dead[:, None], samples, self.embed))
        self.cluster_size.masked_fill_(dead, 1.0)

    def forward(self, x):
        if not self.inited:
            self.init_embed_(x)
        codes = torch.cdist(x, self.embed).argmin(-1)
        if self.training:
            onehot = F.one_hot(codes, self.embed.shape[0]).type(x.dtype)
            self.cluster_size.data.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
            self.embed_avg.data.mul_(self.decay).add_(onehot.t() @ x.detach(), alpha=1 - self.decay)
            self.embed.data.copy_(self.embed_avg / self.cluster_size.clamp(min=1e-5)[:, None])
            self.reset_dead_codes(x)
        quantized = F.embedding(codes, self.embed)
        return x + (quantized - x).detach(), codes


@kept(recompiles=1)
def codebook(compile):
    layer = Codebook()
    forward = compile(layer)
    return lambda: forward(torch.randn(32, 3)), lambda: layer


class ActivationStatistics:
    """Statistics by module, gathered by forward hooks."""

    def __init__(self, model):
        self.stats = {}
        self.handles = [m.register_forward_hook(self.hook) for m in model.modules() if isinstance(m, nn.Linear)]

    def hook(self, module, args, output):
        if module not in self.stats:
            self.stats[module] = {"calls": 0, "mean": torch.zeros(()), "max": torch.tensor(-math.inf)}
        stats = self.stats[module]
        stats["calls"] += 1
        stats["mean"] = stats["mean"] + (output.detach().mean() - stats["mean"]) / stats["calls"]
        stats["max"] = torch.maximum(stats["max"], output.detach().max())

    def remove(self):
        for handle in self.handles:
            handle.remove()
        self.handles.clear()


@kept(recompiles=3)
def activation_statistics(compile):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    statistics = ActivationStatistics(model)
    forward = compile(model)
    calls = iter(range(10))

    def call():
        if next(calls) == 7:
            statistics.remove()
        return forward(torch.randn(4, 3))

    return call, lambda: (model, statistics.stats)


@kept(recompiles=1)
def teacher_and_student(compile):
    student = nn.Linear(3, 2)
    teacher = copy.deepcopy(student).requires_grad_(False)
    schedule = {"step": 0, "total": 10, "base": 0.9}

    def distill(x):
        momentum = 1 - (1 - schedule["base"]) * (math.cos(math.pi * schedule["step"] / schedule["total"]) + 1) / 2
        schedule["step"] += 1
        with torch.no_grad():
            for s, t in zip(student.parameters(), teacher.parameters()):
                t.mul_(momentum).add_(s, alpha=1 - momentum)
            target = teacher(x).softmax(-1)
        return F.cross_entropy(student(x), target)

    distill = compile(distill)

    def call():
        loss = distill(torch.randn(4, 3))
        loss.backward()
        return loss.detach()

    return call, lambda: (student, teacher, schedule)


class BatchRenorm(nn.Module):
    """Normalization with running statistics of its own, and a count that decides what is done."""

    def __init__(self, features, warmup=3):
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_std", torch.ones(features))
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long))
        self.warmup, self.steps = warmup, 0

    def forward(self, x):
        if not self.training:
            return (x - self.running_mean) / self.running_std
        mean, std = x.mean(0), x.std(0, unbiased=False) + 1e-5
        if self.steps < self.warmup:
            y = (x - mean) / std
        else:
            r = (std.detach() / self.running_std).clamp(1 / 3, 3)
            d = ((mean.detach() - self.running_mean) / self.running_std).clamp(-5, 5)
            y = (x - mean) / std * r + d
        self.running_mean += 0.1 * (mean.detach() - self.running_mean)
        self.running_std += 0.1 * (std.detach() - self.running_std)
        self.num_batches_tracked += 1
        self.steps += 1
        return y


@kept(recompiles=3)
def batch_renorm(compile):
    layer = BatchRenorm(3)
    forward = compile(layer)
    calls = iter(range(10))

    def call():
        layer.train(next(calls) < 8)
        return forward(torch.randn(8, 3))

    return call, lambda: layer
