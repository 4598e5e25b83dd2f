"""A small network with tied weights, a skip, a list of results, a mask and batch norm.

torch-VERSION.pt2 is what tools/export_model.py writes of it under that version of torch; the tests
read them all. To add one: PYTHONPATH=FOLDER_OF_THAT_TORCH tools/export_model.py model.py -o ...
"""

import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, vocabulary, dim, sequence):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        self.norm = nn.BatchNorm1d(sequence)
        self.project = nn.Linear(dim, 3 * dim)
        self.head = nn.Linear(dim, vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("mask", torch.ones(sequence, sequence).tril().bool(), persistent=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        with torch.no_grad():
            scale = x.abs().amax() + 1
        q, k, v = self.project(self.norm(x) / scale).chunk(3, dim=-1)
        y = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], self.mask)
        y = y.reshape(tokens.shape[0] * tokens.shape[1], -1).view_as(x)
        return self.head(x + F.dropout(y, 0.1))


def model(vocabulary=7, dim=4, sequence=3):
    return Net(vocabulary, dim, sequence)


def example_inputs(batch=4, vocabulary=7, sequence=3):
    return {"tokens": torch.randint(vocabulary, (batch, sequence))}
