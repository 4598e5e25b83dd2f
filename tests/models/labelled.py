"""A small causal language model that is given its labels and returns its loss, as Hugging Face's
are: targets are the labels shifted by one, those of -100 are left out. By `kind`:

    causal    cross-entropy, mean over the targets that count
    classes   the same with a weight for each class, and labels smoothed
    masked    the sum over a mask that comes with the data, divided by the mask's sum
    scaled    the cross-entropy times a number, so that it is not the loss itself
    whole     no mean but logits
"""

import torch
from torch import nn
from torch.nn import functional as F

IGNORED = -100


class Labelled(nn.Module):
    def __init__(self, kind, hidden, vocabulary):
        super().__init__()
        self.kind = kind
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.body = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, vocabulary)
        if kind == "classes":
            self.register_buffer("weights", torch.linspace(0.5, 2, vocabulary))

    def forward(self, tokens, labels):
        logits = self.head(torch.tanh(self.body(self.embedding(tokens))))
        if self.kind == "whole":
            return logits
        targets = F.pad(labels, (0, 1), value=IGNORED)[..., 1:].reshape(-1)
        logits = logits.view(-1, logits.shape[-1])
        if self.kind == "masked":
            losses = F.cross_entropy(logits, targets, reduction="none")
            mask = targets != IGNORED
            return (losses * mask).sum() / mask.sum()
        more = {"weight": self.weights, "label_smoothing": 0.1} if self.kind == "classes" else {}
        loss = F.cross_entropy(logits, targets, ignore_index=IGNORED, **more)
        return 2 * loss if self.kind == "scaled" else loss


def model(kind="causal", hidden=16, vocabulary=32):
    return Labelled(kind, hidden, vocabulary)


def example_inputs(batch=4, sequence=8, vocabulary=32):
    return {"tokens": torch.randint(vocabulary, (batch, sequence)),
            "labels": torch.randint(vocabulary, (batch, sequence))}
