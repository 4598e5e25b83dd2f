"""Parameters that reach operators in roundabout ways.

`shared` is used as it is in one layer and transposed in another; `scale` is expanded; `normed` goes
through weight norm; `small` is cast down and up; `frozen` takes no gradient; `pair` holds two
disjoint views of one storage, which are not tied.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Parameters(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.shared = nn.Parameter(torch.randn(dim, dim) / dim**0.5)
        self.scale = nn.Parameter(torch.ones(1))
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(dim, dim))
        self.small = nn.Parameter(torch.randn(dim) / 4)
        self.frozen = nn.Parameter(torch.randn(dim), requires_grad=False)
        storage = torch.randn(2, dim)
        self.pair_a, self.pair_b = nn.Parameter(storage[0]), nn.Parameter(storage[1])
        self.head = nn.Linear(dim, 4)

    def forward(self, x):
        h = torch.tanh(F.linear(x, self.shared)) * self.scale.expand(x.shape[1])
        h = h + self.small.to(torch.bfloat16).to(h.dtype)
        h = self.normed(h) + self.frozen
        h = torch.tanh(h @ self.shared.t().contiguous()) * self.pair_a + self.pair_b
        return self.head(h + self.shared.sum(0))


def model(dim=16):
    return Parameters(dim)


def example_inputs(batch=4, dim=16):
    return {"x": torch.randn(batch, dim)}
