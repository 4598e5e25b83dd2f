"""Parameters that the loss does not depend on: of an output that nothing is made of, in one stage,
sent to another, and shared by both."""

import torch
from torch import nn


class Aside(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body = nn.Linear(dim, dim)
        self.sideways = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, 5)
        self.auxiliary = nn.Linear(dim, 3)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        s = self.sideways(h)
        logits = self.head(h)
        return {"logits": logits, "auxiliary": self.auxiliary(self.sideways(s) + h)}


def model(dim=8):
    return Aside(dim)


def example_inputs(batch=4, dim=8):
    return {"x": torch.randn(batch, dim)}
