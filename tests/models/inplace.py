"""Operators that write to their input, as torch.export leaves them: on activations, through views,
on buffers."""

import torch
from torch import nn


class Block(nn.Module):
    """A residual block in place; batch norm updates its statistics."""

    def __init__(self, dim):
        super().__init__()
        self.first, self.second = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        self.norm = nn.BatchNorm1d(dim)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.norm(self.second(self.relu(self.first(x))))) + x


class InPlace(nn.Module):
    def __init__(self, dim, classes):
        super().__init__()
        self.enter = nn.Linear(dim, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(2))
        self.mix = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, classes)
        self.register_buffer("average", torch.zeros(dim))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        h = self.enter(x)
        whole, half = h.view(x.shape[0], 2, -1), h[:, :2]
        left = whole[:, 0]
        h = self.blocks[0](torch.tanh(h)) + whole.flatten(1)
        left.mul_(2)  # whole and half change with it
        h += whole.transpose(1, 2).reshape(x.shape[0], -1)
        self.average.mul_(0.9).add_(h.detach().mean(0), alpha=0.1)
        self.calls += 1
        h[:, 1] = half.sum(1)
        h[:, 3:5] = half.sum(1, keepdim=True)
        h[:, 5] = 0.5
        h = self.blocks[1](h)
        h[:, 1:3].masked_fill_(h[:, 1:3] < 0, 0.5)
        h[:, 4:].add_(h[:, :4])
        h.add_(self.mix(torch.tanh(h)).sigmoid_())
        return self.head(h - self.average)


def model(dim=8, classes=3):
    return InPlace(dim, classes)


def example_inputs(batch=4, dim=8):
    return {"x": torch.randn(batch, dim)}
