"""Models as others write them: how they pass things along, call their modules and return
results."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Dictionary(nn.Module):
    """One input, a dictionary of tensors of three types; a dictionary with a size in it comes
    back."""

    def __init__(self):
        super().__init__()
        self.embed, self.dense = nn.Embedding(11, 8), nn.Linear(5, 8)
        self.mix, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, batch):
        ids, mask = batch["ids"], batch["mask"]
        h = self.embed(ids) * mask.unsqueeze(-1).to(self.embed.weight.dtype)
        h = h.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        logits = self.head(torch.tanh(self.mix(h) + self.dense(batch["dense"])))
        return {"logits": logits, "top": logits.argmax(-1), "length": ids.shape[1]}

    @staticmethod
    def inputs():
        return {"batch": {"ids": torch.randint(11, (4, 6)), "mask": torch.rand(4, 6) > 0.3,
                          "dense": torch.randn(4, 5)}}


class Pair(nn.Module):
    """A tuple and int8 numbers as inputs; activations in a list."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, pair, *, scale):
        h = [torch.tanh(side(x)) for side, x in zip((self.left, self.right), pair, strict=True)]
        return self.head(h[0] * h[1] * scale.unsqueeze(-1).to(h[0].dtype))

    @staticmethod
    def inputs():
        return {"pair": (torch.randn(4, 6), torch.randn(4, 6)),
                "scale": torch.randint(1, 3, (4,), dtype=torch.int8)}


class Indices(nn.Module):
    """Integers that one stage computes and others index with; a module called twice between
    them."""

    def __init__(self):
        super().__init__()
        self.enter, self.embed = nn.Linear(6, 9), nn.Embedding(9, 9)
        self.mix, self.head = nn.Linear(9, 9), nn.Linear(9, 3)

    def forward(self, x):
        h = self.enter(x)
        values, best = h.topk(3, dim=-1)
        order = h.argsort(dim=-1)
        h = torch.tanh(self.mix(torch.tanh(self.mix(h))))
        first = F.one_hot(best[:, 0], 9).to(h.dtype)
        return self.head(self.embed(best).sum(1) + h.gather(1, order) + values.sum(-1, keepdim=True)
                         + first)

    @staticmethod
    def inputs():
        return {"x": torch.randn(4, 6)}


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.qkv, self.out = (nn.LayerNorm(dim), nn.Linear(dim, 3 * dim),
                                         nn.Linear(dim, dim))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Universal(nn.Module):
    """One block called three times, the embedding tied to the head: parameters of several
    stages."""

    def __init__(self):
        super().__init__()
        self.embed, self.block = nn.Embedding(7, 8), Attention(8)
        self.head = nn.Linear(8, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        h = self.embed(ids)
        for _ in range(3):
            h = self.block(h)
        return self.head(h)

    @staticmethod
    def inputs():
        return {"ids": torch.randint(7, (4, 5))}


class Checkpointed(nn.Module):
    """torch's activation checkpointing, of one block called twice, and activations in place."""

    def __init__(self):
        super().__init__()
        self.enter, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.block = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 8))

    def forward(self, x):
        h = torch.relu_(self.enter(x))
        h = h + checkpoint(self.block, h, use_reentrant=False)
        return self.head(checkpoint(self.block, h, use_reentrant=False))

    @staticmethod
    def inputs():
        return {"x": torch.randn(4, 6)}


class Assigned(nn.Module):
    """A running mean of the model's own, assigned and read at its beginning."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))
        self.layers = nn.Sequential(*(nn.Linear(6, 6) for _ in range(4)))
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        self.mean = torch.lerp(self.mean, x.detach().mean(0), 0.1)
        return self.head(torch.tanh(self.layers(x - self.mean)))

    @staticmethod
    def inputs():
        return {"x": torch.randn(4, 6)}


class Spare(nn.Module):
    """A parameter that nothing reads, as a mask token beside data without masks."""

    def __init__(self):
        super().__init__()
        self.mask = nn.Parameter(torch.ones(6))
        self.enter, self.mix, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.mix(torch.tanh(self.enter(x)))))

    @staticmethod
    def inputs():
        return {"x": torch.randn(4, 6)}


MODELS = {kind.__name__.lower(): kind
          for kind in (Dictionary, Pair, Indices, Universal, Checkpointed, Assigned,
                       Spare)}


def model(kind):
    return MODELS[kind]()


def example_inputs(kind):
    return MODELS[kind].inputs()
