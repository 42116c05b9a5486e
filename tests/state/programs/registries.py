"""Registries of hooks and plug-ins, feature flags, counters of events, and statistics of modules."""

import contextlib
import itertools
import weakref
from collections import Counter, defaultdict, namedtuple
from contextvars import ContextVar
from enum import Flag, auto

import torch
import torch.nn.functional as F
from torch import nn

from tests.state.kept import Kept

kept = Kept()


class HookRegistry:
    """Callbacks by event, with handles that remove them."""

    def __init__(self):
        self.hooks = defaultdict(dict)
        self.ids = itertools.count()
        self.fired = Counter()

    def register(self, event, function):
        key = next(self.ids)
        self.hooks[event][key] = function
        return lambda: self.hooks[event].pop(key)

    def fire(self, event, x):
        for function in self.hooks[event].values():
            self.fired[event] += 1
            x = function(x)
        return x


@kept(recompiles=4)
def registry_of_hooks(compile):
    registry = HookRegistry()
    registry.register("before", lambda x: x + 1)
    remove = registry.register("after", torch.tanh)

    @compile
    def run(x):
        x = registry.fire("before", x)
        return registry.fire("after", x * 2)

    calls = iter(range(10))

    def call():
        match next(calls):
            case 4:
                registry.register("before", lambda x: x * 3)
            case 7:
                remove()
        return run(torch.randn(3))

    return call, lambda: (registry.fired, list(registry.hooks["before"]))


PLUGINS = {}


def plugin(name):
    def register(cls):
        PLUGINS[name] = cls
        return cls

    return register


class Plugin:
    subclasses = []

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.subclasses.append(cls.__name__)


@plugin("scale")
class Scale(Plugin):
    calls = 0

    def __call__(self, x):
        type(self).calls += 1
        return x * 2


@plugin("shift")
class Shift(Plugin):
    def __init__(self):
        self.offset = 0.0

    def __call__(self, x):
        self.offset = self.offset + 1
        return x + self.offset


@kept(recompiles=6)
def plugins(compile):
    instances = {}

    @compile
    def run(x, names):
        for name in names:
            if name not in PLUGINS:
                continue
            if name not in instances:
                instances[name] = PLUGINS[name]()
            x = instances[name](x)
        return x

    calls = iter(range(10))

    def call():
        number = next(calls)
        if number == 6:

            @plugin("square")
            class Square(Plugin):
                def __call__(self, x):
                    return x * x

        return run(torch.randn(3), ("scale", "shift", "square"))

    return call, lambda: instances


class Feature(Flag):
    NONE = 0
    RELU = auto()
    NORM = auto()
    DROPOUT = auto()


FLAGS = {"features": Feature.RELU, "seen": Counter()}


@contextlib.contextmanager
def enabled(feature):
    before = FLAGS["features"]
    FLAGS["features"] |= feature
    try:
        yield
    finally:
        FLAGS["features"] = before


@kept(recompiles=4)
def feature_flags(compile):
    @compile
    def forward(x):
        features = FLAGS["features"]
        if Feature.RELU in features:
            x = x.relu()
        if Feature.NORM in features:
            FLAGS["seen"]["norm"] += 1
            x = F.layer_norm(x, x.shape[-1:])
        if Feature.DROPOUT in features:
            x = F.dropout(x, 0.5)
        return x

    calls = iter(range(10))

    def call():
        number = next(calls)
        with enabled(Feature.NORM if number % 3 == 1 else Feature.NONE):
            if number > 6:
                with enabled(Feature.DROPOUT):
                    return forward(torch.randn(2, 4))
            return forward(torch.randn(2, 4))

    return call, lambda: None


Event = namedtuple("Event", "name step")


class EventCounter:
    def __init__(self):
        self.counts, self.first, self.step = Counter(), {}, 0

    def __call__(self, *names):
        for name in names:
            self.counts[name] += 1
            self.first.setdefault(name, Event(name, self.step))

    def every(self, name, n):
        return self.counts[name] % n == 0


@kept(recompiles=10, limited=True)
def event_counters(compile):
    events = EventCounter()

    @compile
    def step(x):
        events.step += 1
        events("step")
        if events.every("step", 3):
            events("log")
            return x.mean()
        return x.sum()

    return lambda: step(torch.randn(3)), lambda: events


class Profiled(nn.Module):
    """Statistics of each module, in a dictionary of the class keyed by module."""

    statistics = weakref.WeakKeyDictionary()

    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        record = self.statistics.setdefault(self, {"calls": 0, "elements": 0, "peak": torch.zeros(())})
        record["calls"] += 1
        record["elements"] += x.numel()
        y = self.linear(x)
        record["peak"] = torch.maximum(record["peak"], y.detach().abs().max())
        return y


@kept(recompiles=2)
def statistics_of_modules(compile):
    model = nn.Sequential(Profiled(3), nn.ReLU(), Profiled(3))
    forward = compile(model)
    return lambda: forward(torch.randn(2, 3)).detach(), lambda: (model, [Profiled.statistics.get(m) for m in model])


SCALE = ContextVar("scale", default=1.0)


@kept(breaks=("context-variable",), recompiles=1)
def settings_of_the_context(compile):
    scaled = compile(lambda x: x * SCALE.get())
    calls = iter(range(10))

    def call():
        token = SCALE.set(2.0 if next(calls) % 2 else 3.0)
        try:
            return scaled(torch.randn(3))
        finally:
            SCALE.reset(token)

    return call, lambda: None


class Singleton(type):
    instances = {}

    def __call__(cls, *args, **kwargs):
        if cls not in Singleton.instances:
            Singleton.instances[cls] = super().__call__(*args, **kwargs)
        return Singleton.instances[cls]


class Settings(metaclass=Singleton):
    def __init__(self):
        self.asked, self.temperature = 0, 1.0


@kept(recompiles=2)
def singleton_of_settings(compile):
    @compile
    def sample(logits):
        settings = Settings()
        settings.asked += 1
        settings.temperature = settings.temperature * 0.9
        return (logits / settings.temperature).softmax(-1)

    return lambda: sample(torch.randn(4)), lambda: list(Singleton.instances.values())


class Vocabulary:
    """Numbers for words, given as they come."""

    def __init__(self, words=()):
        self.index = defaultdict(itertools.count().__next__)
        for word in words:
            self.index[word]

    def __getitem__(self, word):
        return self.index[word]


@kept(recompiles=4)
def vocabulary_that_grows(compile):
    words, table = {}, torch.randn(8, 2)

    @compile
    def embed(text):
        return table[torch.tensor([words.setdefault(word, len(words)) for word in text])]

    texts = iter([("a", "b"), ("a", "b"), ("b", "c"), ("a", "b"), ("b", "c"), ("b", "c"), ("a", "b")] * 2)
    return lambda: embed(next(texts)), lambda: words


class Trace:
    """What happened last, as a linked list."""

    def __init__(self, value, previous=None):
        self.value, self.previous = value, previous


@kept(recompiles=5)
def linked_history(compile):
    class History:
        head, dropped = None, 0

    history = History()

    @compile
    def record(x):
        history.head = Trace(x.sum(), history.head)
        node, total = history.head, 0.0
        for _ in range(3):
            if node is None:
                break
            total, last = total + node.value, node
            node = node.previous
        if node is not None:
            last.previous, history.dropped = None, history.dropped + 1
        return total

    return lambda: record(torch.randn(3)), lambda: (history.head, history.dropped)
