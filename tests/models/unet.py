"""A small U-Net: convolutions with channels-last weights, batch norm, skip connections across the
middle, so that no single value crosses a cut there."""

import torch
from torch import nn


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.down0, self.down1 = block(3, width), block(width, 2 * width)
        self.pool = nn.MaxPool2d(2)
        self.middle = block(2 * width, 4 * width)
        self.up1 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.merge1 = block(4 * width, 2 * width)
        self.up0 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.merge0 = block(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, image):
        a = self.down0(image)
        b = self.down1(self.pool(a))
        h = self.middle(self.pool(b))
        h = self.merge1(torch.cat([self.up1(h), b], 1))
        h = self.merge0(torch.cat([self.up0(h), a], 1))
        return self.head(h)


def model(width=4, classes=3):
    return UNet(width, classes).to(memory_format=torch.channels_last)


def example_inputs(batch=4, side=8):
    return {"image": torch.randn(batch, 3, side, side)}
