"""What a training loop keeps: accumulated gradients, buffers, schedules, early stopping, back-off, curricula."""

import copy
import math
import random
from collections import Counter, deque, namedtuple
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.state.kept import Kept

kept = Kept()


def batch(size=8):
    x = torch.randn(size, 3)
    return x, x.sum(1, keepdim=True)


class Accumulator:
    """A step of the optimizer for every few batches."""

    def __init__(self, model, optimizer, every=3):
        self.model, self.optimizer, self.every = model, optimizer, every
        self.micro_step, self.global_step, self.running_loss = 0, 0, 0.0

    def __call__(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        (loss / self.every).backward()
        self.running_loss += loss.detach()
        self.micro_step += 1
        if self.micro_step % self.every == 0:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.global_step += 1
            self.running_loss = 0.0
        return loss.detach()


@kept(recompiles=4)
def gradient_accumulation(compile):
    model = nn.Linear(3, 1)
    accumulator = Accumulator(model, torch.optim.SGD(model.parameters(), lr=0.1))
    step = compile(accumulator)
    return lambda: step(*batch()), lambda: (model, accumulator)


@kept(recompiles=2)
def accumulated_by_hand(compile):
    """The gradients of many batches in buffers, which are used when the time has come."""
    weight, buffers = torch.randn(3, 1), {"sum": torch.zeros(3, 1), "count": 0}

    def step(x, y):
        gradient = x.T @ (x @ weight - y) / len(x)
        buffers["sum"] += gradient
        buffers["count"] += 1
        if buffers["count"] == 4:
            weight.sub_(0.1 * buffers["sum"] / buffers["count"])
            buffers["sum"].zero_()
            buffers["count"] = 0
        return gradient.norm()

    step = compile(step)
    return lambda: step(*batch()), lambda: (weight, buffers)


Transition = namedtuple("Transition", ("state", "action", "reward", "next_state"))


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


@kept(breaks=("python-random",), recompiles=5)
def replay_memory(compile):
    memory, policy = ReplayMemory(5), nn.Linear(3, 2)

    @compile
    def learn(state):
        with torch.no_grad():
            action = policy(state).argmax()
        memory.push(state, action, state.sum(), state + 1)
        if len(memory) < 2:
            return torch.zeros(())
        transitions = Transition(*zip(*memory.sample(2)))
        states, actions = torch.stack(transitions.state), torch.stack(transitions.action)
        q = policy(states).gather(1, actions[:, None])
        return F.smooth_l1_loss(q[:, 0], torch.stack(transitions.reward)).detach()

    return lambda: learn(torch.randn(3)), lambda: (memory, policy)


class TensorReplay:
    """A ring in tensors."""

    def __init__(self, capacity, dim):
        self.states, self.rewards = torch.zeros(capacity, dim), torch.zeros(capacity)
        self.capacity, self.pos, self.full = capacity, 0, False

    def add(self, state, reward):
        self.states[self.pos] = state
        self.rewards[self.pos] = reward
        self.pos += 1
        if self.pos == self.capacity:
            self.full, self.pos = True, 0

    def sample(self, count):
        upper = self.capacity if self.full else self.pos
        indices = torch.randint(0, upper, (count,))
        return self.states[indices], self.rewards[indices]


@kept(recompiles=3)
def ring_of_transitions(compile):
    replay = TensorReplay(4, 3)

    @compile
    def observe(state):
        replay.add(state, state.sum())
        states, rewards = replay.sample(2)
        return (states.sum(1) - rewards).abs().max(), rewards

    return lambda: observe(torch.randn(3)), lambda: replay


class PrioritizedReplay:
    def __init__(self, capacity=8, alpha=0.6, beta=0.4, beta_steps=10):
        self.alpha, self.beta_start, self.beta_steps = alpha, beta, beta_steps
        self.priorities, self.data = torch.zeros(capacity), torch.zeros(capacity, 3)
        self.pos, self.size, self.frame = 0, 0, 1
        self.max_priority = torch.ones(())

    def beta(self):
        return min(1.0, self.beta_start + self.frame * (1.0 - self.beta_start) / self.beta_steps)

    def push(self, x):
        self.data[self.pos] = x
        self.priorities[self.pos] = self.max_priority
        self.pos = (self.pos + 1) % len(self.data)
        self.size = min(self.size + 1, len(self.data))

    def sample(self, count):
        probabilities = self.priorities[: self.size] ** self.alpha
        probabilities = probabilities / probabilities.sum()
        indices = torch.multinomial(probabilities, count, replacement=True)
        weights = (self.size * probabilities[indices]) ** -self.beta()
        self.frame += 1
        return self.data[indices], indices, weights / weights.max()

    def update(self, indices, errors):
        self.priorities[indices] = errors.abs() + 1e-5
        self.max_priority = torch.maximum(self.max_priority, errors.abs().max())


@kept(recompiles=9, limited=True)
def prioritized_replay(compile):
    replay = PrioritizedReplay()

    @compile
    def learn(x):
        replay.push(x)
        data, indices, weights = replay.sample(2)
        errors = data.sum(1) * 0.5
        replay.update(indices, errors)
        return (weights * errors.pow(2)).mean()

    return lambda: learn(torch.randn(3)), lambda: replay


@dataclass
class Stage:
    name: str
    until: int
    noise: float
    length: int


@dataclass
class Curriculum:
    stages: list = field(default_factory=lambda: [Stage("easy", 4, 0.0, 2), Stage("hard", 10**9, 0.3, 6)])
    step: int = 0
    history: Counter = field(default_factory=Counter)

    @property
    def stage(self):
        return next(stage for stage in self.stages if self.step < stage.until)


@kept(recompiles=5)
def curriculum(compile):
    plan = Curriculum()

    @compile
    def step(x):
        stage = plan.stage
        plan.step += 1
        plan.history[stage.name] += 1
        x = x[:, : stage.length]
        if stage.noise:
            x = x + stage.noise * torch.randn_like(x)
        return x.mean(1)

    return lambda: step(torch.randn(2, 6)), lambda: plan


class WarmupCosine:
    def __init__(self, group, base=0.1, warmup=3, total=10):
        self.group, self.base, self.warmup, self.total, self.last_step = group, base, warmup, total, 0

    def step(self):
        self.last_step += 1
        if self.last_step < self.warmup:
            lr = self.base * self.last_step / self.warmup
        else:
            progress = (self.last_step - self.warmup) / (self.total - self.warmup)
            lr = self.base * 0.5 * (1.0 + math.cos(math.pi * progress))
        self.group["lr"] = lr
        return lr


@kept(recompiles=2)
def warmup_and_cosine(compile):
    weight, group = torch.randn(3, 1), {"lr": 0.0, "momentum": 0.9}
    velocity, schedule = torch.zeros(3, 1), WarmupCosine(group)

    @compile
    def train(x, y):
        gradient = x.T @ (x @ weight - y) / len(x)
        schedule.step()
        velocity.mul_(group["momentum"]).add_(gradient)
        weight.sub_(velocity * group["lr"])
        return gradient.norm()

    return lambda: train(*batch()), lambda: (weight, group, velocity, schedule)


class LRFinder:
    """The rate grows from step to step; the smoothed loss says where to stop."""

    def __init__(self, start=1e-4, factor=2.5, smoothing=0.9):
        self.lr, self.factor, self.smoothing = start, factor, smoothing
        self.average, self.best, self.iteration, self.losses, self.stopped = 0.0, math.inf, 0, [], False

    def record(self, loss):
        if self.stopped:
            return self.lr
        self.iteration += 1
        self.average = self.smoothing * self.average + (1 - self.smoothing) * loss
        smooth = self.average / (1 - self.smoothing**self.iteration)
        if self.iteration > 3 and smooth > 4 * self.best:
            self.stopped = True
        self.best = min(self.best, smooth)
        self.losses.append((self.lr, smooth))
        self.lr *= self.factor
        return self.lr


@kept(breaks=("tensor-item",), recompiles=2)
def learning_rate_finder(compile):
    weight, finder = torch.randn(3, 1), LRFinder()

    @compile
    def train(x, y):
        error = x @ weight - y
        loss = error.square().mean().item()
        rate = finder.record(loss)
        weight.sub_(rate * x.T @ error / len(x))
        return weight.norm()

    return lambda: train(*batch()), lambda: (weight, finder)


class EarlyStopping:
    def __init__(self, patience=3, delta=0.0):
        self.patience, self.delta = patience, delta
        self.counter, self.best_score, self.early_stop, self.best_state = 0, None, False, None

    def __call__(self, score, model):
        if self.best_score is None or score > self.best_score + self.delta:
            self.best_score, self.counter = score, 0
            self.best_state = {k: v.clone() for k, v in model.state_dict().items()}
        else:
            self.counter += 1
            if self.counter >= self.patience:
                self.early_stop = True
        return self.early_stop


@kept(recompiles=5)
def early_stopping(compile):
    model, stopper = nn.Linear(3, 1), EarlyStopping()
    scores = iter([0.1, 0.3, 0.2, 0.5, 0.4, 0.4, 0.6, 0.5, 0.4, 0.3])

    @compile
    def evaluate(x, score):
        done = stopper(score, model)
        return model(x).mean() + (1.0 if done else 0.0)

    def call():
        with torch.no_grad():
            model.weight += 0.1
        return evaluate(torch.randn(4, 3), next(scores)).detach()

    return call, lambda: (model, stopper)


class Backoff:
    """Steps whose result is not finite are repeated more carefully, as the scalers of mixed precision do it."""

    def __init__(self, scale=4.0, growth_interval=2):
        self.scale, self.growth_interval, self.good, self.attempts = scale, growth_interval, 0, 0

    def update(self, finite):
        if finite:
            self.good, self.attempts = self.good + 1, 0
            if self.good == self.growth_interval:
                self.scale, self.good = self.scale * 2.0, 0
        else:
            self.attempts += 1
            self.scale, self.good = max(self.scale * 0.5**self.attempts, 1.0), 0


@kept(breaks=("data-dependent-branch", "data-dependent-truth"), recompiles=7)
def exponential_backoff(compile):
    backoff, weight = Backoff(), torch.ones(3)
    inputs = iter([1.0, 1.0, math.inf, math.inf, 1.0, 1.0, 1.0, math.nan, 1.0, 1.0])

    @compile
    def step(x):
        gradient = weight * x * backoff.scale
        finite = torch.isfinite(gradient).all()
        if finite:
            weight.sub_(gradient / backoff.scale * 0.1)
        backoff.update(bool(finite))
        return weight.sum()

    return lambda: step(torch.randn(3) * next(inputs)), lambda: (backoff, weight)


@kept(recompiles=3)
def backoff_of_retries(compile):
    """Delays that double, with jitter of the process."""
    state = {"attempt": 0, "delays": deque(maxlen=3)}

    @compile
    def retry(x, failed):
        if failed:
            delay = min(8.0, 0.5 * 2.0 ** state["attempt"]) * (1 + 0.1 * x.mean())
            state["attempt"] += 1
            state["delays"].append(delay)
            return delay
        state["attempt"] = 0
        return x.sum()

    failures = iter([True, True, False, True, True, True, True, True, False, True])
    return lambda: retry(torch.randn(3), next(failures)), lambda: state


class Phase(Enum):
    WARMUP = auto()
    TRAIN = auto()
    COOLDOWN = auto()


class Trainer:
    """A machine of phases."""

    limits = {Phase.WARMUP: 2, Phase.TRAIN: 5, Phase.COOLDOWN: math.inf}
    follows = {Phase.WARMUP: Phase.TRAIN, Phase.TRAIN: Phase.COOLDOWN}

    def __init__(self):
        self.phase, self.in_phase, self.log = Phase.WARMUP, 0, []

    def rate(self):
        match self.phase:
            case Phase.WARMUP:
                return 0.01 * (self.in_phase + 1)
            case Phase.TRAIN:
                return 0.1
            case Phase.COOLDOWN:
                return 0.1 / (1 + self.in_phase)

    def advance(self):
        self.in_phase += 1
        if self.in_phase >= self.limits[self.phase]:
            self.log.append(self.phase)
            self.phase, self.in_phase = self.follows[self.phase], 0


@kept(recompiles=4)
def phases_of_training(compile):
    trainer, weight = Trainer(), torch.ones(3)

    @compile
    def step(x):
        weight.sub_(x * trainer.rate())
        trainer.advance()
        return weight.sum()

    return lambda: step(torch.randn(3)), lambda: (trainer, weight)


@kept(breaks=("random-generator",))
def augmentation_with_its_own_generator(compile):
    class Jitter:
        def __init__(self, seed):
            self.generator, self.seed, self.epoch = torch.Generator().manual_seed(seed), seed, 0

        def set_epoch(self, epoch):
            self.epoch = epoch
            self.generator.manual_seed(self.seed + epoch)

        def __call__(self, x):
            noise = torch.randn(x.shape, generator=self.generator)
            keep = torch.rand(x.shape[0], 1, generator=self.generator) > 0.5
            return torch.where(keep, x + 0.1 * noise, x)

    jitter = Jitter(3)
    apply = compile(jitter)
    calls = iter(range(10))

    def call():
        if (number := next(calls)) % 4 == 0:
            jitter.set_epoch(number)
        return apply(torch.randn(4, 2)), torch.rand(1)

    return call, lambda: (jitter.epoch, jitter.generator.get_state().tolist())


@kept(breaks=("drawn-number",), recompiles=6)
def augmentation_with_the_process(compile):
    """Python's and NumPy's streams decide what is done."""

    @compile
    def augment(x):
        if random.random() < 0.5:
            x = x.flip(-1)
        x = x * random.uniform(0.8, 1.2) + float(np.random.rand())
        return torch.roll(x, random.randint(0, 2), -1)

    return lambda: augment(torch.randn(2, 4)), lambda: None


@kept(recompiles=3)
def polyak_target_network(compile):
    online = nn.Linear(3, 2)
    target = copy.deepcopy(online)
    counters = Counter()

    @compile
    def update():
        counters["updates"] += 1
        hard = counters["updates"] % 5 == 0
        with torch.no_grad():
            for (name, t), p in zip(target.named_parameters(), online.parameters()):
                if hard:
                    t.copy_(p)
                else:
                    t.mul_(0.9).add_(0.1 * p)
                counters[name] += t.numel()
        return target.weight.sum().detach()

    def call():
        with torch.no_grad():
            online.weight += torch.randn(2, 3)
        return update()

    return call, lambda: (online, target, counters)
