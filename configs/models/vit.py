"""A vision transformer (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021): patches become
tokens, a class token gathers what the head reads.

Layers are `layers.0` … . ViT-B/16, 86 million parameters:

    --set layers=12 --set hidden=768 --set heads=12 --set side=224 --set patch=16 --set classes=1000
"""

import torch
from torch import nn


class VisionTransformer(nn.Module):
    def __init__(self, layers, hidden, heads, side, patch, classes, dropout):
        super().__init__()
        self.patches = nn.Conv2d(3, hidden, patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (side // patch) ** 2 + 1, hidden))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(hidden, heads, 4 * hidden, dropout, "gelu", batch_first=True,
                                       norm_first=True)
            for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, image):
        patches = self.patches(image).flatten(2).transpose(1, 2)
        h = torch.cat([self.class_token.expand(image.shape[0], -1, -1), patches], dim=1)
        h = h + self.positions
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h[:, 0]))


def model(layers=4, hidden=64, heads=4, side=32, patch=8, classes=10, dropout=0.0):
    if side % patch:
        raise ValueError(f"side={side} is not a multiple of patch={patch}")
    return VisionTransformer(layers, hidden, heads, side, patch, classes, dropout)


def example_inputs(batch=4, side=32):
    return {"image": torch.randn(batch, 3, side, side)}
