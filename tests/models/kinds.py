"""One operator for each kind of argument that the exporter writes, and inputs of many types."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Kinds(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3, stride=2, padding=1, bias=False)
        self.scale = nn.Parameter(torch.randn(channels))
        self.table = nn.Embedding(5, channels)
        self.mix = nn.Linear(channels, channels)
        self.head = nn.Linear(channels, classes)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def picture(self, image):
        h = self.conv(image)                                            # lists of integers, None
        h = F.interpolate(h, scale_factor=1.5, mode="bilinear")         # list of floats or of sizes
        h = F.gelu(h, approximate="tanh")                               # string
        h = h.contiguous(memory_format=torch.channels_last)             # memory format
        h = (h * (1 + 2j) + 0.5j).imag                                  # complex numbers
        h = torch.cat([h, h.flip(3)], 2)[:, :, [2, 0, 1]]               # tensors; tensors or None
        return h.mean((2, 3), dtype=torch.float64)                      # element type

    def words(self, ids, valid):
        h = self.table(ids.long())
        scores = (h @ h.mT).masked_fill(~valid[:, None], -math.inf)     # a float that is infinite
        shares = torch.where(valid[..., None], scores.softmax(-1), 0.0)
        return torch.einsum("bij,bjc->bc", shares, h)                   # sizes

    def forward(self, image, text, pair):
        self.calls.add_(1)
        few, noise = pair
        h = self.picture(image) + self.words(text["ids"], text["valid"])
        h = h * self.scale + few.double().mean(1, keepdim=True) / 16    # from uint8
        # from bfloat16; size as float
        h = h + noise.to(h.dtype)[:, :1] * (image.shape[0] / 8)
        first, second = h.reshape(image.shape[0], 2, -1).unbind(1)      # list of results
        h = torch.stack([first, second], 1).flatten(1)
        h = h + torch.zeros(image.shape[0], 1, dtype=h.dtype) + torch.arange(2.0).sum()
        return {"logits": self.head(torch.tanh(self.mix(h))),
                "calls": (self.calls + 0, h.argmax(1))}


def model(channels=8, classes=10):
    return Kinds(channels, classes).double()


def example_inputs(batch=4, side=8, length=6):
    text = {"ids": torch.randint(5, (batch, length), dtype=torch.int16),
            "valid": torch.rand(batch, length) < 0.9}
    pair = (torch.randint(200, (batch, 3), dtype=torch.uint8),
            torch.randn(batch, 2, dtype=torch.bfloat16))
    return {"image": torch.randn(batch, 3, side, side, dtype=torch.float64), "text": text,
            "pair": pair}
