"""Counts its calls in a buffer and works on its own activations in place."""

import torch
from torch import nn


class Mutating(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body = nn.Linear(dim, dim)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return torch.relu_(self.body(x)).add_(1)


def model(dim=4):
    return Mutating(dim)


def example_inputs(batch=4, dim=4):
    return {"x": torch.randn(batch, dim)}
