"""An MLP-Mixer (Tolstikhin et al., 2021): MLPs over the patches and over the channels in turn."""

import torch
from torch import nn


def mlp(features, inner):
    return nn.Sequential(nn.Linear(features, inner), nn.GELU(), nn.Linear(inner, features))


class Block(nn.Module):
    def __init__(self, patches, channels):
        super().__init__()
        self.patch_norm, self.channel_norm = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.patch_mlp = mlp(patches, 2 * patches)
        self.channel_mlp = mlp(channels, 4 * channels)

    def forward(self, x):
        x = x + self.patch_mlp(self.patch_norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mlp(self.channel_norm(x))


class Mixer(nn.Module):
    def __init__(self, layers, channels, side, patch, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, channels, patch, stride=patch)
        self.blocks = nn.ModuleList(Block((side // patch) ** 2, channels) for _ in range(layers))
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, classes)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def model(layers=4, channels=32, side=32, patch=8, classes=10):
    return Mixer(layers, channels, side, patch, classes)


def example_inputs(batch=4, side=32):
    return {"image": torch.randn(batch, 3, side, side)}


def blocks(layers=4):
    return [f"blocks.{layer}" for layer in range(layers)]
