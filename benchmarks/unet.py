"""The network of "Denoising Diffusion Probabilistic Models" (Ho et al., 2020) for CIFAR-10: 35.7 million parameters."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHANNELS = (128, 256, 256, 256)  # of each level; the next one has half of the rows and columns
DEPTH = 2  # residual blocks of a level on the way down; on the way up there is one more
ATTENDING = 1  # the level in which pixels attend to each other: 16 x 16 of them
WIDTH = 4 * CHANNELS[0]  # of the embedding of time


def norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(32, channels, eps=1e-6)


def conv(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first_norm, self.first = norm(inputs), conv(inputs, outputs)
        self.time = nn.Linear(WIDTH, outputs)
        self.second_norm, self.second = norm(outputs), conv(outputs, outputs)
        self.dropout = nn.Dropout(0.1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        hidden = self.first(F.silu(self.first_norm(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.second(self.dropout(F.silu(self.second_norm(hidden))))


class Attention(nn.Module):
    """Every pixel attends to all, with one head."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = norm(channels)
        self.query, self.key, self.value, self.output = (nn.Linear(channels, channels) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        pixels = self.norm(x).flatten(2).transpose(1, 2)
        factors = (layer(pixels)[:, None] for layer in (self.query, self.key, self.value))
        found = F.scaled_dot_product_attention(*factors)[:, 0]
        return x + self.output(found).transpose(1, 2).reshape(x.shape)


class Block(nn.Module):
    """A residual block, and attention behind it where its level has some."""

    def __init__(self, inputs: int, outputs: int, attending: bool) -> None:
        super().__init__()
        self.residual = Residual(inputs, outputs)
        self.attention = Attention(outputs) if attending else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        return self.attention(self.residual(x, time))


class Down(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        return self.conv(F.pad(x, (0, 1, 0, 1)))


class Up(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = conv(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


def embedded(time: Tensor, width: int) -> Tensor:
    """Sines and cosines of a time, of lower and lower frequencies."""
    steps = torch.arange(width // 2, dtype=torch.float32)
    angles = time[:, None].float() * torch.exp(steps * (-math.log(10_000) / (width // 2 - 1)))
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class UNet(nn.Module):
    """The noise in an image at a time of the diffusion."""

    def __init__(self) -> None:
        super().__init__()
        first, last = CHANNELS[0], CHANNELS[-1]
        self.time = nn.Sequential(nn.Linear(first, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.enter = conv(3, first)
        down, skipped, channels = [], [first], first
        for level, outputs in enumerate(CHANNELS):
            for _ in range(DEPTH):
                down.append(Block(channels, outputs, level == ATTENDING))
                channels = outputs
                skipped.append(channels)
            if level + 1 < len(CHANNELS):
                down.append(Down(channels))
                skipped.append(channels)
        self.down = nn.ModuleList(down)
        self.middle = nn.ModuleList([Block(last, last, True), Block(last, last, False)])
        up: list[nn.Module] = []
        for level in reversed(range(len(CHANNELS))):
            for _ in range(DEPTH + 1):
                up.append(Block(channels + skipped.pop(), CHANNELS[level], level == ATTENDING))
                channels = CHANNELS[level]
            if level:
                up.append(Up(channels))
        self.up = nn.ModuleList(up)
        self.norm, self.leave = norm(channels), conv(channels, 3)

    def forward(self, image: Tensor, time: Tensor) -> Tensor:
        time = self.time(embedded(time, CHANNELS[0]).to(image.dtype))
        x = self.enter(image)
        skipped = [x]
        for block in self.down:
            x = block(x, time)
            skipped.append(x)
        for block in self.middle:
            x = block(x, time)
        for block in self.up:
            x = block(x) if isinstance(block, Up) else block(torch.cat([x, skipped.pop()], dim=1), time)
        return self.leave(F.silu(self.norm(x)))
