"""Models as others write them: the heart of some that people know, by other means than those of
configs/."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations


class Rotary(nn.Module):
    """Llama's attention as Meta wrote it: positions turn complex numbers, einsum, a mask made in
    forward."""

    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.embed, self.head, self.heads = nn.Embedding(13, dim), nn.Linear(dim, 13), heads
        self.query, self.key, self.value = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        angles = torch.outer(torch.arange(16.0), 0.1 ** torch.arange(0, 1, 2 * heads / dim))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles),
                             persistent=False)

    def turned(self, x):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * self.turns[:x.shape[1], None]).flatten(3)

    def forward(self, ids):
        x = self.embed(ids)
        length = ids.shape[1]
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1))
                   for layer in (self.query, self.key, self.value))
        scores = (torch.einsum("blhd,bmhd->bhlm", self.turned(q), self.turned(k))
                  / q.shape[-1] ** 0.5)
        scores = scores + torch.full((length, length), float("-inf")).triu(1)
        attention = scores.softmax(-1).type_as(v)
        return self.head(x + torch.einsum("bhlm,bmhd->blhd", attention, v).flatten(2))

    @staticmethod
    def inputs():
        return {"ids": torch.randint(13, (4, 6))}


class SelectiveScan(nn.Module):
    """Mamba's block: a causal depthwise convolution, and a recurrence as sums of exponentials."""

    def __init__(self, dim=8, states=4):
        super().__init__()
        self.embed, self.enter = nn.Embedding(11, dim), nn.Linear(dim, 2 * dim)
        self.convolution = nn.Conv1d(dim, dim, 3, padding=2, groups=dim)
        self.select, self.step = nn.Linear(dim, 2 * states + 1), nn.Linear(1, dim)
        self.decay = nn.Parameter(torch.log(torch.arange(1.0, states + 1).repeat(dim, 1)))
        self.skip, self.norm = nn.Parameter(torch.ones(dim)), nn.RMSNorm(dim)
        self.head, self.states = nn.Linear(dim, 11, bias=False), states

    def forward(self, ids):
        h = self.embed(ids)
        x, gate = self.enter(self.norm(h)).chunk(2, -1)
        x = F.silu(self.convolution(x.transpose(1, 2))[..., :ids.shape[1]].transpose(1, 2))
        step, write, read = self.select(x).split([1, self.states, self.states], -1)
        step = F.softplus(self.step(step))
        decayed = (step.unsqueeze(-1) * -torch.exp(self.decay)).cumsum(1)
        written = (step * x).unsqueeze(-1) * write.unsqueeze(2)
        state = torch.exp(decayed) * (written * torch.exp(-decayed)).cumsum(1)
        return self.head(h + ((state * read.unsqueeze(2)).sum(-1) + self.skip * x) * F.silu(gate))

    @staticmethod
    def inputs():
        return {"ids": torch.randint(11, (4, 6))}


class Messages(nn.Module):
    """A graph network: all graphs of a batch as one, sums and maxima of what edges bring to
    nodes."""

    def __init__(self):
        super().__init__()
        self.enter, self.head = nn.Linear(5, 8), nn.Linear(8, 3)
        self.messages = nn.ModuleList(nn.Linear(16, 8) for _ in range(2))
        self.updates = nn.ModuleList(nn.GRUCell(8, 8) for _ in range(2))

    def forward(self, nodes, edges):
        graphs, count, _ = nodes.shape
        first = torch.arange(graphs)[:, None, None] * count
        begin, end = (edges + first).flatten(0, 1).unbind(-1)
        h = self.enter(nodes).flatten(0, 1)
        for message, update in zip(self.messages, self.updates, strict=True):
            sent = F.relu(message(torch.cat([h[begin], h[end]], -1)))
            ones = torch.ones_like(sent[:, 0])
            degree = torch.zeros_like(h[:, 0]).index_add_(0, end, ones).clamp(min=1)
            mean = torch.zeros_like(h).index_add(0, end, sent) / degree[:, None]
            most = torch.full_like(h, -10).scatter_reduce(0, end[:, None].expand_as(sent), sent,
                                                          "amax")
            h = update(mean + 0.1 * most, h)
        return self.head(h.unflatten(0, (-1, count)).amax(1))

    @staticmethod
    def inputs():
        return {"nodes": torch.randn(4, 6, 5), "edges": torch.randint(6, (4, 10, 2))}


class Windows(nn.Module):
    """Swin's block: shifted windows, a table of relative positions, patches merged by slices."""

    def __init__(self, dim=8, side=2):
        super().__init__()
        self.patches, self.side = nn.Conv2d(3, dim, 2, 2), side
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * side - 1) ** 2))
        self.merge, self.head = nn.Linear(4 * dim, dim), nn.Linear(dim, 3)
        at = torch.cartesian_prod(torch.arange(side), torch.arange(side))
        apart = at[:, None] - at[None] + side - 1
        self.register_buffer("index", apart[..., 0] * (2 * side - 1) + apart[..., 1])

    def attention(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out((q @ k.mT / q.shape[-1] ** 0.5 + self.table[self.index]).softmax(-1) @ v)

    def forward(self, x):
        x = torch.roll(self.patches(x).permute(0, 2, 3, 1), (-1, -1), (1, 2))
        size, side = x.shape, self.side
        split = (size[0], size[1] // side, side, size[2] // side, side, size[3])
        windows = x.view(split).transpose(2, 3)
        y = self.attention(windows.reshape(-1, side * side, size[3]))
        x = torch.roll(x + y.view(windows.shape).transpose(2, 3).reshape(size), (1, 1), (1, 2))
        x = torch.cat([x[:, i::2, j::2] for i in range(2) for j in range(2)], -1)
        return self.head(self.merge(x).mean((1, 2)))

    @staticmethod
    def inputs():
        return {"x": torch.randn(4, 3, 8, 8)}


class Masked(nn.Module):
    """torch's own encoder and attention, samples of different lengths, a spectral norm with its
    buffers."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
        self.enter = nn.Linear(5, 8)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.cross = nn.MultiheadAttention(8, 2, batch_first=True, kdim=5, vdim=5, add_bias_kv=True)
        self.head = parametrizations.spectral_norm(nn.Linear(8, 3))

    def forward(self, x, padding):
        h = self.encoder(self.enter(x), src_key_padding_mask=padding)
        y, weights = self.cross(h, x, x, key_padding_mask=padding)
        taken = (~padding).unsqueeze(-1).to(h.dtype)
        return self.head(((h + y) * taken).sum(1) / taken.sum(1)), weights

    @staticmethod
    def inputs():
        return {"x": torch.randn(4, 6, 5),
                "padding": torch.arange(6) >= torch.randint(2, 7, (4, 1))}


MODELS = {kind.__name__.lower(): kind
          for kind in (Rotary, SelectiveScan, Messages, Windows, Masked)}


def model(kind):
    return MODELS[kind]()


def example_inputs(kind):
    return MODELS[kind].inputs()
