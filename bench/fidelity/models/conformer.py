"""A Conformer (Gulati et al., 2020): each block has half an MLP, attention, a gated depthwise
convolution over time, and half an MLP again. It says for every frame of a spectrogram which sound
it is."""

import torch
from torch import nn
from torch.nn import functional


def half_mlp(hidden):
    return nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, 4 * hidden), nn.SiLU(),
                         nn.Linear(4 * hidden, hidden))


class Convolution(nn.Module):
    def __init__(self, hidden, width):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.enter = nn.Conv1d(hidden, 2 * hidden, 1)
        self.depthwise = nn.Conv1d(hidden, hidden, width, padding=width // 2, groups=hidden)
        self.inner_norm = nn.GroupNorm(1, hidden)
        self.leave = nn.Conv1d(hidden, hidden, 1)

    def forward(self, x):
        h = functional.glu(self.enter(self.norm(x).transpose(1, 2)), dim=1)
        return self.leave(functional.silu(self.inner_norm(self.depthwise(h)))).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, hidden, heads, width):
        super().__init__()
        self.first, self.second = half_mlp(hidden), half_mlp(hidden)
        self.attention_norm = nn.LayerNorm(hidden)
        self.attention = nn.MultiheadAttention(hidden, heads, batch_first=True)
        self.convolution = Convolution(hidden, width)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x):
        x = x + self.first(x) / 2
        h = self.attention_norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        x = x + self.convolution(x)
        return self.norm(x + self.second(x) / 2)


class Conformer(nn.Module):
    def __init__(self, layers, hidden, heads, bands, width, classes):
        super().__init__()
        self.enter = nn.Conv1d(bands, hidden, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(Block(hidden, heads, width) for _ in range(layers))
        self.head = nn.Linear(hidden, classes)

    def forward(self, spectrogram):
        x = functional.silu(self.enter(spectrogram)).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def model(layers=4, hidden=32, heads=4, bands=16, width=7, classes=12):
    return Conformer(layers, hidden, heads, bands, width, classes)


def example_inputs(batch=4, bands=16, frames=32):
    return {"spectrogram": torch.randn(batch, bands, frames)}


def blocks(layers=4):
    return [f"blocks.{layer}" for layer in range(layers)]
