"""Two LSTMs, exported whole as aten::lstm, and a projection."""

import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self, vocabulary, dim):
        super().__init__()
        self.emb = nn.Embedding(vocabulary, dim)
        self.first = nn.LSTM(dim, dim, num_layers=2, batch_first=True)
        self.second = nn.LSTM(dim, dim, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * dim, vocabulary)

    def forward(self, tokens):
        h, _ = self.first(self.emb(tokens))
        h, _ = self.second(h)
        return self.head(h)


def model(vocabulary=40, dim=16):
    return Recurrent(vocabulary, dim)


def example_inputs(batch=4, vocabulary=40, sequence=6):
    return {"tokens": torch.randint(vocabulary, (batch, sequence))}
