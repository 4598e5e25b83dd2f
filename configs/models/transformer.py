"""The transformer of PyTorch's pipelining tutorial: token embedding, decoder layers called as
`layer(h, h)`, a final norm and the output projection.

The reference form is `model()` without settings. It has `batch_first=False` and no mask: the layers
read the *first* dimension of `[batch, sequence]` tokens as the sequence, so the samples of a batch
attend to each other, and every position sees its own target. It is the form to compare with other
pipelines, not the form to train on text. For text use

    --set batch_first=true --set causal=true --set positions=true --set dropout=0

`causal` hides later positions in the self-attention and in the attention to the memory, which is
`h` itself: with only the first one masked, a position would read its own target through the
second.
"""

import torch
from torch import nn


class Transformer(nn.Module):
    def __init__(self, layers, heads, dim, vocabulary, sequence, feedforward, batch_first, causal,
                 positions, dropout):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, dim)
        self.pos_embeddings = nn.Embedding(sequence, dim) if positions else None
        # A dictionary keeps the names of the remaining layers when a stage drops the others.
        self.layers = nn.ModuleDict({
            str(i): nn.TransformerDecoderLayer(dim, heads, feedforward, dropout,
                                               batch_first=batch_first)
            for i in range(layers)
        })
        self.norm = nn.LayerNorm(dim)
        self.output = nn.Linear(dim, vocabulary)
        self.causal = causal
        if causal:  # a constant: no parameter, not in the state dictionary
            mask = nn.Transformer.generate_square_subsequent_mask(sequence)
            self.register_buffer("mask", mask, persistent=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        if self.pos_embeddings is not None:
            h = h + self.pos_embeddings(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers.values():
            if self.causal:
                h = layer(h, h, tgt_mask=self.mask, memory_mask=self.mask,
                          tgt_is_causal=True, memory_is_causal=True)
            else:
                h = layer(h, h)
        return self.output(self.norm(h))


def model(layers=8, heads=8, dim=512, vocabulary=10000, sequence=128, feedforward=2048,
          batch_first=False, causal=False, positions=False, dropout=0.1):
    """`feedforward` and `dropout` default as in `nn.TransformerDecoderLayer`."""
    if causal and not batch_first:
        raise ValueError("causal=true needs batch_first=true: without it the layers read the batch "
                         "as the sequence, and the mask would hide samples, not positions")
    return Transformer(layers, heads, dim, vocabulary, sequence, feedforward, batch_first, causal,
                       positions, dropout)


def example_inputs(batch=4, sequence=128, vocabulary=10000):
    return {"tokens": torch.randint(vocabulary, (batch, sequence))}
