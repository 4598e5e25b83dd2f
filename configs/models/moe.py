"""A language model with a mixture of experts in every block, routed densely: each expert computes
every token, and the router's softmax weighs what they say.

Blocks are `blocks.0` …, experts `blocks.0.experts.0` … . No token is dropped and no size depends
on the router, as it would where each token goes to its best experts alone.
"""

import torch
from torch import nn

from gpt import Attention


class Mixture(nn.Module):
    def __init__(self, hidden, feedforward, experts):
        super().__init__()
        self.router = nn.Linear(hidden, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(hidden, feedforward), nn.GELU(), nn.Linear(feedforward, hidden))
            for _ in range(experts))

    def forward(self, x):
        weights = torch.softmax(self.router(x), dim=-1)
        said = torch.stack([expert(x) for expert in self.experts], dim=-1)
        return (said * weights.unsqueeze(-2)).sum(-1)


class Block(nn.Module):
    def __init__(self, hidden, heads, feedforward, experts, dropout):
        super().__init__()
        self.attention_norm = nn.LayerNorm(hidden)
        self.attention = Attention(hidden, heads, dropout)
        self.mixture_norm = nn.LayerNorm(hidden)
        self.mixture = Mixture(hidden, feedforward, experts)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.mixture(self.mixture_norm(x))


class MixtureOfExperts(nn.Module):
    def __init__(self, layers, hidden, heads, feedforward, experts, sequence, vocabulary, dropout):
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, hidden)
        self.position_embedding = nn.Embedding(sequence, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, feedforward, experts, dropout)
                                    for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def model(layers=4, hidden=128, heads=4, feedforward=256, experts=4, sequence=64, vocabulary=256,
          dropout=0.0):
    if hidden % heads:
        raise ValueError(f"hidden={hidden} is not a multiple of heads={heads}")
    return MixtureOfExperts(layers, hidden, heads, feedforward, experts, sequence, vocabulary,
                            dropout)


def example_inputs(batch=4, sequence=64, vocabulary=256):
    return {"tokens": torch.randint(vocabulary, (batch, sequence))}
