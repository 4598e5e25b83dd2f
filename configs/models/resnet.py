"""A residual network with batch norm for small images: three groups of blocks, each group half as
wide and high and with twice the channels (He et al., "Deep Residual Learning for Image
Recognition", 2016, section 4.2). `blocks=3 width=16` is their ResNet-20.

Blocks are `groups.0.0` … . Batch norm couples the samples of a microbatch, so the number of
microbatches changes the training, as it does in plain PyTorch.
"""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv0 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm0 = nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.skip = nn.Identity() if inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        h = functional.relu(self.norm0(self.conv0(x)))
        return functional.relu(self.norm1(self.conv1(h)) + self.skip(x))


class ResNet(nn.Module):
    def __init__(self, blocks, width, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False),
                                  nn.BatchNorm2d(width), nn.ReLU())
        self.groups = nn.ModuleList(self.group(width, blocks, k) for k in range(3))
        self.head = nn.Linear(4 * width, classes)

    @staticmethod
    def group(width, blocks, k):
        inputs, outputs = width << max(k - 1, 0), width << k
        return nn.Sequential(Block(inputs, outputs, 2 if k else 1),
                             *(Block(outputs, outputs, 1) for _ in range(blocks - 1)))

    def forward(self, image):
        h = self.stem(image)
        for group in self.groups:
            h = group(h)
        return self.head(h.mean((2, 3)))


def model(blocks=2, width=8, classes=10):
    return ResNet(blocks, width, classes)


def example_inputs(batch=4, side=32):
    return {"image": torch.randn(batch, 3, side, side)}
