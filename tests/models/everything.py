"""What a splitter has to get right, in one small model.

Tied weights at both ends, a block called twice (its batch norm updates its statistics twice), a
non-persistent buffer, a mask computed on the way, and a skip connection from the embedding over
both calls.
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, sequence):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True)
        self.bn = nn.BatchNorm1d(sequence)
        self.register_buffer("ids", torch.arange(sequence), persistent=False)

    def forward(self, h):
        mask = nn.Transformer.generate_square_subsequent_mask(
            h.shape[1], device=h.device, dtype=h.dtype)
        return (self.bn(h + self.layer(h, h, tgt_mask=mask))
                + self.ids.to(h.dtype)[None, :, None] / 10)


class Everything(nn.Module):
    def __init__(self, vocabulary, dim, sequence):
        super().__init__()
        self.emb = nn.Embedding(vocabulary, dim)
        self.block = Block(dim, sequence)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocabulary, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, tokens):
        first = self.emb(tokens)
        h = self.block(self.block(first))
        batch, sequence, dim = h.shape
        h = self.norm(h + first).reshape(batch * sequence, dim)
        return self.head(h).view(batch, sequence, -1)


def model(vocabulary=50, dim=32, sequence=8):
    return Everything(vocabulary, dim, sequence)


def example_inputs(batch=4, vocabulary=50, sequence=8):
    return {"tokens": torch.randint(vocabulary, (batch, sequence))}
