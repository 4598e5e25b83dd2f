"""A two-stage image classifier: Flatten, Linear 784-512, ReLU | Linear 512-512, ReLU, Linear
512-10, ReLU.

The bar is the split of the original, `stage0:end`. The last ReLU is part of the original too.
"""

import torch
from torch import nn


class ImageClassifier(nn.Module):
    def __init__(self, pixels, width, classes):
        super().__init__()
        self.stage0 = nn.Sequential(nn.Flatten(), nn.Linear(pixels, width), nn.ReLU())
        self.stage1 = nn.Sequential(nn.Linear(width, width), nn.ReLU(),
                                    nn.Linear(width, classes), nn.ReLU())

    def forward(self, image):
        return self.stage1(self.stage0(image))


def model(side=28, width=512, classes=10):
    return ImageClassifier(side * side, width, classes)


def example_inputs(batch=4, side=28):
    return {"image": torch.randn(batch, 1, side, side)}
