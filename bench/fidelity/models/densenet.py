"""A DenseNet (Huang et al., 2017): every layer reads what all before it in its block have made, so
what crosses a cut grows with the depth. Batch norm couples the samples of a microbatch."""

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    def __init__(self, inputs, growth):
        super().__init__()
        self.narrow_norm = nn.BatchNorm2d(inputs)
        self.narrow = nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.norm = nn.BatchNorm2d(4 * growth)
        self.grow = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        h = self.narrow(functional.relu(self.narrow_norm(x)))
        return torch.cat([x, self.grow(functional.relu(self.norm(h)))], 1)


class DenseNet(nn.Module):
    def __init__(self, depth, growth, classes):
        super().__init__()
        first, half = 2 * growth, (2 + depth) * growth // 2
        self.stem = nn.Conv2d(3, first, 3, stride=2, padding=1, bias=False)
        self.wide = nn.Sequential(*(Layer(first + k * growth, growth) for k in range(depth)))
        self.between = nn.Sequential(nn.BatchNorm2d(2 * half), nn.ReLU(),
                                     nn.Conv2d(2 * half, half, 1, bias=False), nn.AvgPool2d(2))
        self.narrow = nn.Sequential(*(Layer(half + k * growth, growth) for k in range(depth)))
        self.norm = nn.BatchNorm2d(half + depth * growth)
        self.head = nn.Linear(half + depth * growth, classes)

    def forward(self, image):
        h = self.narrow(self.between(self.wide(self.stem(image))))
        return self.head(functional.relu(self.norm(h)).mean((2, 3)))


def model(depth=2, growth=8, classes=10):
    return DenseNet(depth, growth, classes)


def example_inputs(batch=4, side=32):
    return {"image": torch.randn(batch, 3, side, side)}


def blocks(depth=2):
    return [f"{part}.{layer}" for part in ("wide", "narrow") for layer in range(depth)]
