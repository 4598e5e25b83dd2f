"""A GPT: token and position embedding, pre-norm blocks of causal self-attention and MLP, a final
norm, the output head.

Blocks are `blocks.0` … . GPT-3 175B, as Table 2.1 of Brown et al., "Language Models are Few-Shot
Learners" (2020), gives it, too big to hold and so exported without weights:

    --set layers=96 --set hidden=12288 --set heads=96 --set sequence=2048 --set vocabulary=50257
    --set dtype=bfloat16 --meta

`tied` shares the weight of token embedding and head, as GPT-2 and GPT-3 do: a parameter of two
stages, whose gradients are summed. The attention of all layers is dense (GPT-3 alternated with
sparse layers).
"""

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.projection = nn.Linear(hidden, hidden)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        q, k, v = (part.view(batch, sequence, self.heads, hidden // self.heads).transpose(1, 2)
                   for part in self.qkv(x).split(hidden, dim=-1))
        dropout = self.dropout if self.training else 0.0
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.projection(y.transpose(1, 2).reshape(batch, sequence, hidden))


class Block(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.attention_norm = nn.LayerNorm(hidden)
        self.attention = Attention(hidden, heads, dropout)
        self.mlp_norm = nn.LayerNorm(hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(),
                                 nn.Linear(4 * hidden, hidden), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class GPT(nn.Module):
    def __init__(self, layers, hidden, heads, sequence, vocabulary, tied, dropout):
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, hidden)
        self.position_embedding = nn.Embedding(sequence, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        if tied:
            self.head.weight = self.token_embedding.weight

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def model(layers=4, hidden=256, heads=4, sequence=128, vocabulary=256, tied=False, dropout=0.0,
          dtype="float32"):
    if hidden % heads:
        raise ValueError(f"hidden={hidden} is not a multiple of heads={heads}")
    gpt = GPT(layers, hidden, heads, sequence, vocabulary, tied, dropout)
    return gpt.to(getattr(torch, dtype))


def example_inputs(batch=4, sequence=128, vocabulary=256):
    return {"tokens": torch.randint(vocabulary, (batch, sequence))}
