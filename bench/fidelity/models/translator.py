"""torch's own encoder and decoder (Vaswani et al., "Attention Is All You Need", 2017, with the
norms first): every layer of the decoder reads the encoder's result, which so crosses several
cuts."""

import torch
from torch import nn


class Translator(nn.Module):
    """Source and target tokens [batch, sequence] to logits [batch, sequence, vocabulary]."""

    def __init__(self, layers, hidden, heads, sequence, vocabulary):
        super().__init__()
        self.source_embedding = nn.Embedding(vocabulary, hidden)
        self.target_embedding = nn.Embedding(vocabulary, hidden)
        self.positions = nn.Parameter(0.02 * torch.randn(sequence, hidden))
        shape = {"d_model": hidden, "nhead": heads, "dim_feedforward": 4 * hidden, "dropout": 0.0,
                 "batch_first": True, "norm_first": True}
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(**shape) for _ in range(layers))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(**shape) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary)
        self.register_buffer("later", torch.full((sequence, sequence), float("-inf")).triu(1))

    def forward(self, source, tokens):
        memory = self.source_embedding(source) + self.positions
        for layer in self.encoder:
            memory = layer(memory)
        h = self.target_embedding(tokens) + self.positions
        for layer in self.decoder:
            h = layer(h, memory, tgt_mask=self.later)
        return self.head(self.norm(h))


def model(layers=2, hidden=64, heads=4, sequence=32, vocabulary=128):
    return Translator(layers, hidden, heads, sequence, vocabulary)


def example_inputs(batch=4, sequence=32, vocabulary=128):
    return {"source": torch.randint(vocabulary, (batch, sequence)),
            "tokens": torch.randint(vocabulary, (batch, sequence))}


def blocks(layers=2):
    return [f"{part}.{layer}" for part in ("encoder", "decoder") for layer in range(layers)]
