"""A ConvNeXt (Liu et al., "A ConvNet for the 2020s", 2022): wide depthwise convolutions, layer norm
over the channels, an MLP, a learnt scale; each group is half as wide and high as the one before."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(nn.Linear(channels, 4 * channels), nn.GELU(),
                                 nn.Linear(4 * channels, channels))
        self.scale = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x):
        h = self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))
        return x + (self.scale * h).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self, depth, channels, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 4, stride=4)
        self.groups = nn.ModuleList(
            nn.Sequential(*(Block(channels << k) for _ in range(depth))) for k in range(2))
        self.halve = nn.Conv2d(channels, 2 * channels, 2, stride=2)
        self.norm = nn.LayerNorm(2 * channels)
        self.head = nn.Linear(2 * channels, classes)

    def forward(self, image):
        h = self.groups[1](self.halve(self.groups[0](self.stem(image))))
        return self.head(self.norm(h.mean((2, 3))))


def model(depth=2, channels=16, classes=10):
    return ConvNeXt(depth, channels, classes)


def example_inputs(batch=4, side=32):
    return {"image": torch.randn(batch, 3, side, side)}


def blocks(depth=2):
    return [f"groups.{group}.{block}" for group in range(2) for block in range(depth)]
