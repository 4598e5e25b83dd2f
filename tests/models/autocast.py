"""Regions of autocast with float32 between them, once without gradient."""

import torch
from torch import nn


class Block(nn.Module):
    """Attention over the features of a sample, a group at a time."""

    def __init__(self, dim):
        super().__init__()
        self.into, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.into(x).unflatten(-1, (3, 4, -1)).unbind(-3)
        scores = torch.softmax(q @ k.transpose(-1, -2), dim=-1)
        return x + self.out((scores @ v).flatten(-2))


class Casting(nn.Module):
    def __init__(self, dim, classes):
        super().__init__()
        self.enter = nn.Linear(dim, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(3))
        self.exact = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        h = torch.tanh(self.enter(x))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.blocks[0](h)
        h = torch.tanh(self.exact(h.float()))
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            shift = self.enter(h).mean(-1, keepdim=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.blocks[2](self.blocks[1](h - shift))
        return self.head(h.float())


def model(dim=16, classes=3):
    return Casting(dim, classes)


def example_inputs(batch=4, dim=16):
    return {"x": torch.randn(batch, dim)}
