"""Two inputs and a dictionary of outputs: the loss, a tensor, an input, a parameter, a size, a
number and None."""

import torch
from torch import nn
from torch.nn import functional as F


class Outputs(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, 5)

    def forward(self, x, target):
        h = torch.tanh(self.body(x))
        logits = self.head(h)
        return {"loss": F.cross_entropy(logits, target), "hidden": h, "target": target,
                "weight": self.head.weight, "count": x.shape[0] * 3, "width": 5, "nothing": None}


def model(dim=8):
    return Outputs(dim)


def example_inputs(batch=4, dim=8):
    return {"x": torch.randn(batch, dim), "target": torch.randint(5, (batch,))}
