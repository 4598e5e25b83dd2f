"""Regions that torch.export keeps as nested graphs: one without gradient, one under autocast."""

import contextlib

import torch
from torch import nn


class Nested(nn.Module):
    def __init__(self, dim, autocast):
        super().__init__()
        self.first = nn.Linear(dim, dim)
        self.second = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, 3)
        self.autocast = autocast

    def forward(self, x):
        h = torch.tanh(self.first(x))
        with torch.no_grad():
            shift, scale = h.mean(0, keepdim=True).view(1, -1), torch.relu(h).amax() + 1
            reach = self.second(h).reshape(h.shape[0] * 2, -1).sum()
        h = (h - shift) / scale + reach * 0
        region = (torch.autocast("cpu", dtype=torch.bfloat16) if self.autocast
                  else contextlib.nullcontext())
        with region:
            h = self.second(h)
        return self.head(torch.tanh(h.to(x.dtype)))


def model(dim=8, autocast=True):
    return Nested(dim, autocast)


def example_inputs(batch=4, dim=8):
    return {"x": torch.randn(batch, dim)}
