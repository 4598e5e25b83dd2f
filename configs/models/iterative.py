"""One block of Linear and ReLU called several times, then a projection to 10 classes.

All calls share one set of weights. `iter_block:end` splits after every call, `iter_block@1:end`
after the second; the stages then hold the same parameters, which training must keep equal.
"""

import torch
from torch import nn


class IterativeNetwork(nn.Module):
    def __init__(self, width, calls, classes):
        super().__init__()
        self.calls = calls
        self.iter_block = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.output_proj = nn.Linear(width, classes)

    def forward(self, x):
        for _ in range(self.calls):
            x = self.iter_block(x)
        return self.output_proj(x)


def model(width=512, calls=3, classes=10):
    return IterativeNetwork(width, calls, classes)


def example_inputs(batch=4, width=512):
    return {"x": torch.randn(batch, width)}
