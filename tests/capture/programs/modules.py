"""nn.Module: hooks, buffers, lazily made parts, containers, tying, parametrizations, custom lookups."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn.utils import parametrize

from tests.capture.twins import Cases

case = Cases()
EVENTS = []
HANDLES = []


def fill(module, value=0.5):
    with torch.no_grad():
        for index, p in enumerate(module.parameters()):
            p.copy_(torch.arange(p.numel()).reshape(p.shape) * 0.1 + value + index)
    return module


def scatter(module):
    """Parameters without a pattern: what is normalized behind others is more than rounding."""
    with torch.no_grad():
        for index, p in enumerate(module.parameters()):
            p.copy_(torch.arange(index, p.numel() + index).square().cos().reshape(p.shape))
    return module


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("running", torch.zeros(4))
        self.register_buffer("hidden", None, persistent=False)
        self.calls = 0
        self.last = None

    def forward(self, x):
        self.calls += 1
        self.steps += 1
        self.running = self.running * 0.5 + x.detach().mean(0)
        y = self.linear(x)
        self.last = y.detach()
        return y * self.calls


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.made = None

    def forward(self, x):
        if self.made is None:
            self.made = fill(nn.Linear(x.shape[-1], 2))
            self.register_buffer("extra", torch.ones(2))
            self.register_parameter("scale", nn.Parameter(torch.ones(2) * 3))
        return self.made(x) * self.extra * self.scale


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])
        self.table = nn.ModuleDict({"a": nn.Tanh(), "b": nn.Linear(4, 4)})
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4) * 2)])
        self.named = nn.ParameterDict({"w": nn.Parameter(torch.ones(4))})
        self.plain = [nn.Linear(4, 4)]
        self.stack = nn.Sequential(nn.Linear(4, 4), nn.GELU())

    def forward(self, x, use="a"):
        for index, block in enumerate(self.blocks):
            x = block(x) + index
        for name, module in self.table.items():
            if name == use or name == "b":
                x = module(x)
        for w in self.weights:
            x = x * w
        names = [n for n, _ in self.named_parameters()]
        return self.stack[0](x) * self.named["w"] + self.plain[0](x), len(names), len(self.blocks), list(self.table)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4, bias=False)
        self.b = nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x)), self.a.weight is self.b.weight


class Doubled(nn.Module):
    def forward(self, w):
        return w * 2


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.options = {"scale": 2.0}

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            options = object.__getattribute__(self, "options")
            if name in options:
                return options[name]
            raise

    def __call__(self, *args):
        EVENTS.append("called")
        return super().__call__(*args)

    def forward(self, x):
        return self.inner(x) * self.scale


class Base(nn.Module):
    factor = 2

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.weight * self.factor

    @property
    def shape(self):
        return self.weight.shape

    @property
    def device(self):
        return next(self.parameters()).device


class Derived(Base):
    factor = 3

    def forward(self, x):
        return super().forward(x) + self.shape[0], str(self.device)


COUNTING = fill(Counting())
LAZY = Lazy()
CONTAINERS = fill(Containers())
TIED = fill(Tied())
LOOKUP = fill(Lookup())
DERIVED = Derived()
PARAMETRIZED = fill(nn.Linear(4, 4))
parametrize.register_parametrization(PARAMETRIZED, "weight", Doubled())
WEIGHT_NORM = nn.utils.parametrizations.weight_norm(fill(nn.Linear(4, 4)))
HOOKED = fill(nn.Linear(4, 4))
HOOKED.register_forward_hook(lambda m, args, out: EVENTS.append(tuple(out.shape)) or out * 2)
HOOKED.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
BACKWARD = fill(nn.Linear(4, 4))
BACKWARD.register_full_backward_hook(lambda m, gi, go: EVENTS.append("back"))
PLAIN = fill(nn.Linear(4, 4))
NORM = nn.BatchNorm1d(4)
DROP = nn.Dropout(0.5)
LSTM = fill(nn.LSTM(4, 3, batch_first=True), 0.1)
# In float64: the gradient of the bias of its keys is nothing but rounding.
ATTENTION = fill(nn.MultiheadAttention(4, 2, batch_first=True, dtype=torch.float64), 0.1)
EMBEDDING = fill(nn.Embedding(5, 4))
LAZY_LINEAR = nn.LazyLinear(3)
TRANSFORMER = scatter(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True))
EMA = copy.deepcopy(PLAIN)


def batch():
    return (torch.rand(2, 4),)


@case(batch, lambda: setattr(COUNTING, "calls", 100), lambda: COUNTING.running.fill_(3))
def counting(x):
    return COUNTING(x), COUNTING.steps + 1


@case(batch)
def lazily_made(x):
    return LAZY(x), [n for n, _ in LAZY.named_parameters()], sorted(LAZY.state_dict())


@case(
    batch,
    lambda: CONTAINERS.blocks.append(nn.Tanh()),
    lambda: CONTAINERS.table.pop("a"),
    lambda: CONTAINERS.weights.append(CONTAINERS.weights[0]),
)
def containers(x):
    return CONTAINERS(x), CONTAINERS(x, use="none")[0]


@case(batch, lambda: setattr(TIED.b, "weight", nn.Parameter(torch.ones(4, 4))))
def tied(x):
    return TIED(x)


@case(batch)
def parametrized(x):
    return PARAMETRIZED(x), PARAMETRIZED.weight.sum(), WEIGHT_NORM(x)


@case(batch, lambda: HANDLES.append(PLAIN.register_forward_hook(lambda m, a, o: o + 1)), lambda: HANDLES.pop().remove())
def hooks_come_and_go(x):
    return PLAIN(x)


@case(batch)
def hooked(x):
    return HOOKED(x)


@case(batch)
def backward_hooked(x):
    return BACKWARD(x).sum()


@case(batch)
def hook_registered_inside(x):
    m = nn.Linear(4, 4, bias=False)
    fill(m)
    handle = m.register_forward_hook(lambda mod, a, o: o * 3)
    y = m(x)
    handle.remove()
    return y, m(x)


@case(batch, lambda: LOOKUP.options.update(scale=5.0))
def custom_lookup(x):
    return LOOKUP(x)


@case(batch, lambda: setattr(Derived, "factor", 7), lambda: setattr(DERIVED, "factor", 8))
def inherited(x):
    return DERIVED(x), DERIVED.shape


@case(batch, lambda: NORM.eval(), lambda: NORM.train(), lambda: setattr(NORM, "momentum", 0.9))
def batch_norm(x):
    return NORM(x), NORM.training


@case(batch, lambda: DROP.eval(), lambda: setattr(DROP, "p", 0.1))
def dropout(x):
    return DROP(x), DROP(x)


@case(batch)
def train_flag_switched(x):
    NORM.eval()
    y = NORM(x)
    NORM.train()
    return y, NORM(x)


@case(lambda: (torch.rand(2, 3, 4),))
def recurrent(x):
    y, (h, c) = LSTM(x)
    return y, h, c


@case(lambda: (torch.rand(2, 3, 4, dtype=torch.float64),))
def attention(x):
    return ATTENTION(x, x, x), ATTENTION(x, x, x, need_weights=False)[0]


@case(lambda: (torch.rand(2, 3, 4),), lambda: TRANSFORMER.eval())
def transformer(x):
    return TRANSFORMER(x) if not TRANSFORMER.training else TRANSFORMER.linear1(x)


@case(lambda: (torch.tensor([0, 3]),))
def embedding(i):
    return EMBEDDING(i), EMBEDDING.weight[i]


@case(batch)
def lazy_linear(x):
    y = LAZY_LINEAR(x)
    return y.shape, type(LAZY_LINEAR).__name__


@case(batch)
def module_made_inside(x):
    m = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    fill(m)
    return m(x), len(list(m.parameters()))


@case(batch)
def module_escapes(x):
    m = nn.Linear(4, 2)
    fill(m)
    return m, m(x)


@case(batch)
def module_copied(x):
    m = copy.deepcopy(PLAIN)
    with torch.no_grad():
        m.weight.add_(1)
    return m(x), PLAIN(x)


@case(batch)
def parameter_replaced(x):
    PLAIN.weight = nn.Parameter(PLAIN.weight.detach() * 2)
    return PLAIN(x)


@case(batch)
def parameter_deleted_and_buffer_made(x):
    w = PLAIN.weight
    del PLAIN.weight
    PLAIN.register_buffer("weight", w.detach())
    y = PLAIN(x)
    del PLAIN.weight
    PLAIN.weight = w
    return y, list(PLAIN._parameters)


@case(batch)
def submodule_replaced(x):
    CONTAINERS.stack[1] = nn.Tanh()
    CONTAINERS.fresh = nn.ReLU()
    CONTAINERS.blocks.append(CONTAINERS.fresh)
    return CONTAINERS.stack(x), len(CONTAINERS.blocks)


@case(batch)
def attribute_kinds(x):
    PLAIN.note = [x]
    PLAIN.note.append(1)
    PLAIN.other = x
    del PLAIN.other
    return PLAIN.note[0] + 1, hasattr(PLAIN, "other"), PLAIN.in_features, PLAIN.extra_repr()


@case(batch)
def moving_average(x):
    with torch.no_grad():
        for e, p in zip(EMA.parameters(), PLAIN.parameters(), strict=True):
            e.mul_(0.9).add_(p, alpha=0.1)
    return EMA(x)


@case(batch)
def state_dicts(x):
    state = PLAIN.state_dict()
    EMA.load_state_dict({k: v * 2 for k, v in state.items()})
    return EMA(x), list(state), EMA.weight.sum()


@case(batch)
def iteration_over_modules(x):
    total = 0
    for name, module in CONTAINERS.named_modules():
        if isinstance(module, nn.Linear):
            total += len(name)
    return x + total, [type(m).__name__ for m in CONTAINERS.children()], sum(p.numel() for p in CONTAINERS.parameters())


@case(batch)
def zero_grad_and_requires_grad(x):
    PLAIN.zero_grad()
    PLAIN.weight.requires_grad_(False)
    y = PLAIN(x)
    PLAIN.requires_grad_(True)
    return y, PLAIN(x)


@case(batch)
def applied(x):
    PLAIN.apply(lambda m: EVENTS.append(type(m).__name__))
    return PLAIN(x), repr(PLAIN)


@case(batch)
def dtype_moves(x):
    m = copy.deepcopy(PLAIN).double()
    return m(x.double()), m.weight.dtype


@case(batch)
def functional_forms(x):
    f = nn.functional
    return (
        f.linear(x, PLAIN.weight, PLAIN.bias), f.gelu(x), f.softmax(x, -1), f.layer_norm(x, (4,)), f.normalize(x),
        f.cross_entropy(x, torch.tensor([1, 2])), f.mse_loss(x, x * 2), f.pad(x, (1, 1)), f.one_hot(torch.tensor([1]), 3),
        f.scaled_dot_product_attention(x[None], x[None], x[None]),
    )  # fmt: skip
