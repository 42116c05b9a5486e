"""MobileNetV3-large, as in "Searching for MobileNetV3" (Howard et al., 2019), table 1."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

# kernel, expanded channels, channels out, squeeze and excite, hard swish, stride
BLOCKS = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)


def conv(inputs: int, outputs: int, kernel: int, stride: int, groups: int, activation: type[nn.Module]) -> nn.Module:
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs, eps=0.001, momentum=0.01), activation())


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = (channels // 4 + 7) // 8 * 8
        self.reduce = nn.Conv2d(channels, squeezed, 1)
        self.expand = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = F.relu(self.reduce(F.adaptive_avg_pool2d(x, 1)))
        return x * F.hardsigmoid(self.expand(scale))


class Block(nn.Module):
    def __init__(
        self, inputs: int, kernel: int, inner: int, outputs: int, squeeze: bool, hard: bool, stride: int
    ) -> None:
        super().__init__()
        activation = nn.Hardswish if hard else nn.ReLU
        layers = [conv(inputs, inner, 1, 1, 1, activation)] if inner != inputs else []
        layers.append(conv(inner, inner, kernel, stride, inner, activation))
        layers += [SqueezeExcite(inner)] if squeeze else []
        layers.append(conv(inner, outputs, 1, 1, 1, nn.Identity))
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV3(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        blocks, channels = [conv(3, 16, 3, 2, 1, nn.Hardswish)], 16
        for kernel, inner, outputs, squeeze, hard, stride in BLOCKS:
            blocks.append(Block(channels, kernel, inner, outputs, squeeze, hard, stride))
            channels = outputs
        self.features = nn.Sequential(*blocks, conv(channels, 960, 1, 1, 1, nn.Hardswish))
        self.classifier = nn.Sequential(nn.Linear(960, 1280), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, pixels: Tensor) -> Tensor:
        return self.classifier(self.features(pixels).mean((2, 3)))
