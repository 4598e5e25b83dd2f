"""The network of PiPPy's examples: three blocks of Linear and ReLU (512-512-1024-256), then a
projection to 10 classes.

Each block is a module of its own, so `layer0:end` and `layer1:end` are split points.
"""

import torch
from torch import nn


class PippyNetwork(nn.Module):
    def __init__(self, width, hidden, narrow, classes):
        super().__init__()
        self.layer0 = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.layer1 = nn.Sequential(nn.Linear(width, hidden), nn.ReLU())
        self.layer2 = nn.Sequential(nn.Linear(hidden, narrow), nn.ReLU())
        self.output_proj = nn.Linear(narrow, classes)

    def forward(self, x):
        return self.output_proj(self.layer2(self.layer1(self.layer0(x))))


def model(width=512, hidden=1024, narrow=256, classes=10):
    return PippyNetwork(width, hidden, narrow, classes)


def example_inputs(batch=4, width=512):
    return {"x": torch.randn(batch, width)}
