"""A U-Net (Ronneberger et al., 2015): convolutions with batch norm down to half the size at each
level and up again, each level's result also handed over to its counterpart, so that several values
cross every cut and the outermost one crosses the whole model.

Levels are `down.0` …, `middle`, `up.0` … (`up.0` the innermost). Each pixel gets a class. Batch
norm couples the samples of a microbatch. Weights are stored channels last.
"""

import itertools

import torch
from torch import nn
from torch.nn import functional


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU())


class Up(nn.Module):
    """Twice the size, joined with what the level on the way down had."""

    def __init__(self, width):
        super().__init__()
        self.grow = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.merge = block(2 * width, width)

    def forward(self, h, level):
        return self.merge(torch.cat([self.grow(h), level], 1))


class UNet(nn.Module):
    def __init__(self, levels, width, channels, classes):
        super().__init__()
        widths = [width << k for k in range(levels + 1)]
        self.down = nn.ModuleList(
            block(a, b) for a, b in itertools.pairwise([channels, *widths[:-1]]))
        self.middle = block(widths[-2], widths[-1])
        self.up = nn.ModuleList(Up(w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, image):
        h, passed = image, []
        for down in self.down:
            passed.append(down(h))
            h = functional.max_pool2d(passed[-1], 2)
        h = self.middle(h)
        for up in self.up:
            h = up(h, passed.pop())
        return self.head(h).permute(0, 2, 3, 1)


def model(levels=3, width=8, channels=3, classes=3):
    return UNet(levels, width, channels, classes).to(memory_format=torch.channels_last)


def example_inputs(batch=4, side=32, channels=3):
    return {"image": torch.randn(batch, channels, side, side)}
