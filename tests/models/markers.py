"""Blocks with a pipe_split() between them, and one within the block that is called twice."""

import torch
from penstock import pipe_split
from torch import nn


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x, split=False):
        h = torch.relu(self.up(x))
        if split:
            pipe_split()
        return x + self.down(h)


class Markers(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.first, self.twice, self.head = Block(dim), Block(dim), nn.Linear(dim, 10)

    def forward(self, x):
        pipe_split()  # parts nothing
        x = self.first(x)
        pipe_split()
        pipe_split()  # the same place
        x = self.twice(x, split=True)
        x = self.twice(x, split=True)
        return self.head(x)


def model(dim=16):
    return Markers(dim)


def example_inputs(batch=4, dim=16):
    return {"x": torch.randn(batch, dim)}
