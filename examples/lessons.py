"""Three small things to learn, from real data that installed packages bring along: digits, letters, and libraries."""

from __future__ import annotations

import ast
import math
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is learnt: a model, batches for its steps, and data to try it on.

    `measure` takes a model and says how good it is on data that it has not learnt from; `scale` says what that means.
    """

    key: str
    name: str
    build: Callable[[], nn.Module]
    batches: Callable[[int], Iterator[Batch]]
    measure: Callable[[Callable[[Tensor], Tensor]], float]
    scale: str
    steps: int
    rate: float


def drawn(inputs: Tensor, labels: Tensor, size: int, steps: int) -> Iterator[Batch]:
    """Batches of equal size: the data in another order each time."""
    order = torch.Generator().manual_seed(0)
    while True:
        for chosen in torch.randperm(len(inputs), generator=order).split(size):
            if len(chosen) == size:
                if steps == 0:
                    return
                steps -= 1
                yield inputs[chosen], labels[chosen]


def accuracy(inputs: Tensor, labels: Tensor) -> Callable[[Callable[[Tensor], Tensor]], float]:
    return lambda model: (model(inputs).argmax(-1) == labels).float().mean().item()


# ---- digits: a small ResNet ------------------------------------------------------------------------------------------


class Residual(nn.Module):
    """Two convolutions around which the input goes by; `stride` makes the image smaller."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(3))
        self.around = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.norms[2](self.around(x)))


def resnet() -> nn.Module:
    blocks = [Residual(1, 32, 1), Residual(32, 64, 2), Residual(64, 64, 1), Residual(64, 128, 2)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(128, 10))


@cache
def digits() -> tuple[Tensor, Tensor]:
    data = load_digits()
    return torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(data.target)


def digits_lesson() -> Lesson:
    images, labels = digits()
    cut = 1437  # four fifths
    return Lesson(
        "digits",
        "ResNet on digits",
        resnet,
        lambda steps: drawn(images[:cut], labels[:cut], 64, steps),
        accuracy(images[cut:], labels[cut:]),
        "of the digits",
        steps=200,
        rate=1e-3,
    )


# ---- letters: a language model ---------------------------------------------------------------------------------------


class Block(nn.Module):
    """A layer of a transformer: attention to what came before, and a network for each letter."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.network = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = [y.view(batch, length, self.heads, -1).transpose(1, 2) for y in self.mix(self.before(x)).chunk(3, -1)]
        seen = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + F.dropout(self.out(seen.transpose(1, 2).reshape(x.shape)), self.dropout, self.training)
        return x + self.network(self.behind(x))


class Writer(nn.Module):
    """A small GPT, from letter to letter. The table of letters is also its last weight."""

    def __init__(self, letters: int, length: int, width: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, 4, 0.1) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters, bias=False)
        for table in (self.letters, self.places):
            nn.init.normal_(table.weight, std=0.02)
        self.head.weight = self.letters.weight

    def forward(self, text: Tensor) -> Tensor:
        x = self.letters(text) + self.places(torch.arange(text.shape[1], device=text.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


LENGTH = 64


@cache
def letters() -> tuple[Tensor, str]:
    """The reference of the Python language that comes with Python, as numbers, and its alphabet."""
    text = "\n".join(topics.values())
    alphabet = "".join(sorted(set(text)))
    return torch.tensor([alphabet.index(letter) for letter in text]), alphabet


def letters_lesson() -> Lesson:
    text, alphabet = letters()
    pieces = text[: len(text) // (LENGTH + 1) * (LENGTH + 1)].view(-1, LENGTH + 1)
    cut = len(pieces) * 9 // 10
    known, unknown = pieces[:cut], pieces[cut : cut + 128]

    def bits(model: Callable[[Tensor], Tensor]) -> float:
        """Bits that a letter takes, as long as nobody has learnt anything 6.7."""
        return F.cross_entropy(model(unknown[:, :-1]).flatten(0, 1), unknown[:, 1:].flatten()).item() / math.log(2)

    return Lesson(
        "letters",
        "GPT on letters",
        lambda: Writer(len(alphabet), LENGTH),
        lambda steps: drawn(known[:, :-1], known[:, 1:], 32, steps),
        bits,
        "bits for a letter",
        steps=300,
        rate=1e-3,
    )


# ---- libraries: a classifier of texts --------------------------------------------------------------------------------


class Reader(nn.Module):
    """Says of a text, given as the bytes of its words' beginnings, what it is about: convolutions and attention."""

    def __init__(self, classes: int, width: int = 96) -> None:
        super().__init__()
        self.bytes = nn.Embedding(256, width, padding_idx=0)
        self.near = nn.Conv1d(width, width, 5, padding=2)
        self.block = Block(width, 4, 0.1)
        self.weigh, self.out = nn.Linear(width, 1), nn.Linear(width, classes)

    def forward(self, text: Tensor) -> Tensor:
        x = self.bytes(text)
        x = self.block(x + F.gelu(self.near(x.transpose(1, 2))).transpose(1, 2))
        weights = self.weigh(x).masked_fill((text == 0).unsqueeze(-1), -torch.inf).softmax(1)
        return self.out((weights * x).sum(1))


LIBRARIES = ("email", "asyncio", "numpy", "scipy", "torch.nn")
PER_LIBRARY = 400


def docstrings(name: str) -> list[str]:
    """First paragraphs of the docstrings of a package, read from its source."""
    spec = find_spec(name)
    folder = Path(spec.origin).parent if spec and spec.origin else Path(sysconfig.get_path("stdlib"), name)
    found: dict[str, None] = {}
    for path in sorted(folder.rglob("*.py")):
        if "tests" not in path.parts and len(found) < PER_LIBRARY:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    text = (ast.get_docstring(node) or "").split("\n\n")[0]
                    if len(text) > 20:
                        found[" ".join(text.split())] = None
    return list(found)[:PER_LIBRARY]


@cache
def libraries() -> tuple[Tensor, Tensor]:
    texts = [(text, label) for label, name in enumerate(LIBRARIES) for text in docstrings(name)]
    rows = torch.zeros(len(texts), 96, dtype=torch.int64)
    for row, (text, _) in zip(rows, texts, strict=True):
        known = torch.tensor(list(text.encode()[:96]))
        row[: len(known)] = known
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(1))
    return rows[order], torch.tensor([label for _, label in texts])[order]


def libraries_lesson() -> Lesson:
    texts, labels = libraries()
    cut = len(texts) * 4 // 5
    return Lesson(
        "libraries",
        "reader of docstrings",
        lambda: Reader(len(LIBRARIES)),
        lambda steps: drawn(texts[:cut], labels[:cut], 64, steps),
        accuracy(texts[cut:], labels[cut:]),
        "of the docstrings",
        steps=250,
        rate=2e-3,
    )


LESSONS: dict[str, Callable[[], Lesson]] = {
    "digits": digits_lesson,
    "letters": letters_lesson,
    "libraries": libraries_lesson,
}
