"""Memos, tables that grow, least recently used masks, weak caches, lazily built layers, decoders with their caches."""

import functools
import math
import weakref
from collections import OrderedDict, defaultdict, namedtuple

import torch
import torch.nn.functional as F
from torch import nn

from tests.state.kept import Kept

kept = Kept()


class Node:
    def __init__(self, weight, children=()):
        self.weight, self.children = weight, children


def tree():
    leaf = Node(torch.tensor([1.0, 2.0]))
    left, right = Node(torch.tensor([3.0, 1.0]), (leaf,)), Node(torch.tensor([0.5, 0.5]), (leaf, leaf))
    return Node(torch.tensor([1.0, 1.0]), (left, right))


@kept(recompiles=1)
def memoized_recursion(compile):
    root, memo, calls = tree(), {}, []

    def total(node, x):
        if node in memo:
            return memo[node]
        calls.append(len(memo))
        value = node.weight * x
        for child in node.children:
            value = value + total(child, x)
        memo[node] = value
        return value

    total_of = compile(lambda x: total(root, x))
    return lambda: total_of(torch.randn(2)), lambda: (list(memo.values()), calls)


@kept(recompiles=5)
def memo_in_a_default(compile):
    def binomial(n, k, memo={}):
        if k in (0, n):
            return 1
        if (n, k) not in memo:
            memo[n, k] = binomial(n - 1, k - 1) + binomial(n - 1, k)
        return memo[n, k]

    def bernstein(x, n):
        return sum(binomial(n, k) * x**k * (1 - x) ** (n - k) for k in range(n + 1))

    compiled = compile(bernstein)
    degrees = iter([2, 2, 3, 2, 3, 4, 4, 2, 3, 4])
    return lambda: compiled(torch.rand(3), next(degrees)), lambda: binomial.__defaults__


@functools.lru_cache(maxsize=4)
def causal_mask(size):
    return torch.full((size, size), -math.inf).triu(1)


@kept(recompiles=2)
def cached_masks(compile):
    def attend(q):
        scores = q @ q.transpose(-1, -2) + causal_mask(q.shape[-2])
        return scores.softmax(-1) @ q

    attend = compile(attend)
    sizes = iter([3, 3, 4, 3, 4, 5, 5, 3, 4, 5])
    return lambda: attend(torch.randn(next(sizes), 2)), lambda: [causal_mask(n) for n in (3, 4, 5)]


class MaskCache:
    """The least recently used goes first."""

    def __init__(self, capacity=2):
        self.capacity, self.hits, self.misses = capacity, 0, 0
        self.masks = OrderedDict()

    def get(self, rows, cols):
        key = (rows, cols)
        if key in self.masks:
            self.masks.move_to_end(key)
            self.hits += 1
            return self.masks[key]
        self.misses += 1
        mask = torch.ones(rows, cols, dtype=torch.bool).tril()
        self.masks[key] = mask
        if len(self.masks) > self.capacity:
            self.masks.popitem(last=False)
        return mask


@kept(recompiles=7)
def lru_of_masks(compile):
    cache = MaskCache()

    def attend(q, k):
        scores = (q @ k.T).masked_fill(~cache.get(q.shape[0], k.shape[0]), -1e9)
        return scores.softmax(-1) @ k

    attend = compile(attend)
    sizes = iter([3, 3, 4, 4, 5, 5, 5, 3, 3, 3])
    return lambda: attend(torch.randn(3, 2), torch.randn(next(sizes), 2)), lambda: cache


class RotaryEmbedding(nn.Module):
    """The tables grow with the longest sequence that was seen."""

    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, dim, 2).float() / dim), persistent=False)
        self.max_seq_len_cached = 0
        self._set_cos_sin_cache(4)

    def _set_cos_sin_cache(self, seq_len):
        self.max_seq_len_cached = seq_len
        t = torch.arange(seq_len, dtype=self.inv_freq.dtype)
        emb = torch.cat((freqs := torch.outer(t, self.inv_freq), freqs), dim=-1)
        self.register_buffer("cos_cached", emb.cos(), persistent=False)
        self.register_buffer("sin_cached", emb.sin(), persistent=False)

    def forward(self, x):
        seq_len = x.shape[-2]
        if seq_len > self.max_seq_len_cached:
            self._set_cos_sin_cache(seq_len)
        x1, x2 = x.chunk(2, dim=-1)
        rotated = torch.cat((-x2, x1), dim=-1)
        return x * self.cos_cached[:seq_len] + rotated * self.sin_cached[:seq_len]


@kept(recompiles=5)
def rotary_tables(compile):
    rotary = RotaryEmbedding(4)
    rotate = compile(rotary)
    lengths = iter([3, 4, 6, 5, 6, 9, 7, 9, 3, 11])
    return lambda: rotate(torch.randn(2, next(lengths), 4)), lambda: rotary


class LazyTables(nn.Module):
    """Tables by length, type and device."""

    def __init__(self):
        super().__init__()
        self._tables = {}

    def forward(self, x):
        key = (x.shape[-1], x.dtype, x.device)
        try:
            table = self._tables[key]
        except KeyError:
            table = self._tables[key] = torch.arange(key[0], dtype=key[1], device=key[2]).cos()
        return x * table


@kept(recompiles=3)
def tables_by_type(compile):
    layer = LazyTables()
    forward = compile(layer)
    types = iter([torch.float32, torch.float32, torch.float64, torch.float32, torch.float64] * 2)
    return lambda: forward(torch.rand(2, 3, dtype=next(types))), lambda: layer


class LazyMLP(nn.Module):
    """Built by the first input that it sees."""

    def __init__(self, hidden):
        super().__init__()
        self.hidden, self.layers = hidden, None

    def build(self, features):
        self.layers = nn.ModuleList([nn.Linear(features, self.hidden), nn.Linear(self.hidden, 1)])

    def forward(self, x):
        if self.layers is None:
            self.build(x.shape[-1])
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)


@kept(recompiles=1)
def lazily_built(compile):
    layer = LazyMLP(4)
    forward = compile(layer)

    def call():
        y = forward(torch.randn(2, 3))
        y.sum().backward()
        return y.detach()

    return call, lambda: layer


@kept(recompiles=1)
def lazily_built_parameter(compile):
    class Scale(nn.Module):
        def forward(self, x):
            if not hasattr(self, "scale"):
                self.scale = nn.Parameter(torch.rand(x.shape[-1]))
            return x * self.scale

    layer = Scale()
    forward = compile(layer)

    def call():
        y = forward(torch.randn(2, 3))
        y.sum().backward()
        return y.detach()

    return call, lambda: layer


@kept(recompiles=1)
def cached_property(compile):
    class Graph:
        def __init__(self, edges):
            self.edges, self.computed = edges, 0

        @functools.cached_property
        def adjacency(self):
            self.computed += 1
            matrix = torch.zeros(4, 4)
            matrix[self.edges[0], self.edges[1]] = 1.0
            return matrix

        @functools.cached_property
        def laplacian(self):
            return torch.diag(self.adjacency.sum(1)) - self.adjacency

    graph = Graph(torch.tensor([[0, 1, 2], [1, 2, 3]]))
    smooth = compile(lambda x: x - 0.1 * graph.laplacian @ x)
    return lambda: smooth(torch.randn(4)), lambda: (vars(graph), graph.computed)


@kept(recompiles=3)
def weak_key_cache(compile):
    cache, misses = weakref.WeakKeyDictionary(), []

    def normalized(module):
        if module not in cache:
            misses.append(len(cache))
            cache[module] = F.normalize(module.weight.detach(), dim=-1)
        return cache[module]

    layers = [nn.Linear(3, 2), nn.Linear(3, 2)]
    forward = compile(lambda layer, x: x @ normalized(layer).T)
    order = iter([0, 0, 1, 0, 1, 1, 0, 1, 0, 0])
    state = lambda: ([cache.get(layer) for layer in layers], len(cache), misses)
    return lambda: forward(layers[next(order)], torch.randn(4, 3)), state


@kept(breaks=("cannot-rebuild",), recompiles=1)
def weak_value_cache(compile):
    class Workspace:
        def __init__(self, size):
            self.buffer, self.uses = torch.zeros(size), 0

    pool, held = weakref.WeakValueDictionary(), []

    def accumulate(x):
        workspace = pool.get(x.shape[0])
        if workspace is None:
            workspace = pool[x.shape[0]] = Workspace(x.shape[0])
            held.append(workspace)
        workspace.uses += 1
        workspace.buffer = workspace.buffer + x
        return workspace.buffer

    accumulate = compile(accumulate)
    sizes = iter([2, 2, 3, 2, 3, 3, 2, 2, 3, 2])
    calls = iter(range(10))

    def call():
        if next(calls) == 6:
            held.clear()
        return accumulate(torch.randn(next(sizes)))

    return call, lambda: (sorted(pool), held)


@kept(recompiles=2)
def weak_references_to_modules(compile):
    class Tied(nn.Module):
        def __init__(self, owner):
            super().__init__()
            self.owner, self.missing = weakref.ref(owner), 0

        def forward(self, x):
            owner = self.owner()
            if owner is None:
                self.missing += 1
                return x
            return x @ owner.weight

    owners = [nn.Linear(3, 3)]
    layer = Tied(owners[0])
    forward = compile(layer)
    calls = iter(range(10))

    def call():
        if next(calls) == 5:
            owners.clear()
        return forward(torch.randn(2, 3)).detach()

    return call, lambda: (owners, layer.missing)


class KeyValueCache:
    """As decoders of transformers keep it: a list per layer, made when the layer is first asked."""

    def __init__(self):
        self.keys, self.values, self.seen_tokens = [], [], 0

    def update(self, key, value, layer):
        if layer == 0:
            self.seen_tokens += key.shape[-2]
        if len(self.keys) <= layer:
            self.keys.append(key)
            self.values.append(value)
        else:
            self.keys[layer] = torch.cat([self.keys[layer], key], dim=-2)
            self.values[layer] = torch.cat([self.values[layer], value], dim=-2)
        return self.keys[layer], self.values[layer]


class Decoder(nn.Module):
    def __init__(self, vocabulary=7, dim=4, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(layers))
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, tokens, cache):
        x = self.embed(tokens)
        for index, layer in enumerate(self.layers):
            q, k, v = layer(x).chunk(3, dim=-1)
            k, v = cache.update(k, v, index)
            x = x + F.scaled_dot_product_attention(q, k, v)
        return self.head(x[:, -1])


@kept(recompiles=2)
def decoder_with_a_growing_cache(compile):
    model = Decoder().eval()
    forward, cache = compile(model), KeyValueCache()
    tokens = [torch.tensor([[1, 2, 3]])]

    @torch.no_grad()
    def call():
        tokens.append(forward(tokens[-1], cache).argmax(-1, keepdim=True))
        return tokens[-1]

    return call, lambda: (cache, tokens)


Rule = namedtuple("Rule", "left right merged")


class Tokenizer:
    """A state machine over characters, with merges that are remembered by word."""

    def __init__(self):
        self.vocabulary = {c: i for i, c in enumerate("abcde ")}
        self.merges = [Rule("a", "b", "ab"), Rule("ab", "c", "abc")]
        self.cache, self.state, self.unknown = {}, "start", defaultdict(int)

    def word(self, text):
        if text in self.cache:
            return self.cache[text]
        parts = list(text)
        for rule in self.merges:
            at = 0
            while at < len(parts) - 1:
                if (parts[at], parts[at + 1]) == rule[:2]:
                    parts[at : at + 2] = [rule.merged]
                at += 1
        self.cache[text] = parts
        return parts

    def encode(self, text):
        self.state = "start"
        ids = []
        for word in text.split():
            for part in self.word(word):
                if part not in self.vocabulary:
                    self.unknown[part] += 1
                    self.vocabulary[part] = len(self.vocabulary)
                ids.append(self.vocabulary[part])
            self.state = "inside"
        return ids


@kept(recompiles=5)
def tokenizer(compile):
    machine, table = Tokenizer(), torch.randn(32, 2)

    def embed(text):
        return table[torch.tensor(machine.encode(text))].sum(0)

    embed = compile(embed)
    texts = iter(["abc de", "abc de", "bad abc", "abc de", "bad abc", "x abc", "x abc", "abc de", "bad abc", "x abc"])
    return lambda: embed(next(texts)), lambda: machine
