"""A network whose inputs have no gradient: one token for each sample."""

import torch

VOCABULARY = 16


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, 24)
        self.hidden = torch.nn.Linear(24, 24)
        self.output_proj = torch.nn.Linear(24, 24)

    def forward(self, x):
        return self.output_proj(self.hidden(self.embedding(x)))


def model():
    return Network()


def example_inputs():
    return {"x": torch.arange(4)}
