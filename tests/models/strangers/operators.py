"""Models as others write them: operators, norms and statistics that the models of configs/ do
without."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations


class Statistics(nn.Module):
    """Batch norms and a moving average of the model's own."""

    def __init__(self):
        super().__init__()
        self.enter, self.first = nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8)
        self.mix, self.second = nn.Linear(8, 8, bias=False), nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 3)
        self.register_buffer("average", torch.zeros(8))

    def forward(self, x):
        h = F.relu(self.first(self.enter(x)), inplace=True)
        h = self.second(self.mix(h))
        self.average.mul_(0.9).add_(h.detach().mean(0) * 0.1)
        return self.head(h - self.average)

    @staticmethod
    def inputs():
        return {"x": torch.randn(4, 6)}


class Pictures(nn.Module):
    """Grouped and transposed convolutions, group and instance norms, unpooling, interpolation,
    reflections."""

    def __init__(self):
        super().__init__()
        self.enter, self.group = nn.Conv2d(2, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.down = nn.Conv2d(8, 8, 3, stride=2, groups=4)
        self.up = nn.ConvTranspose2d(8, 8, 4, stride=2)
        self.affine, self.plain = nn.InstanceNorm2d(8, affine=True), nn.InstanceNorm2d(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        h = F.gelu(self.group(self.enter(x)))
        low, places = F.max_pool2d(self.down(h), 2, return_indices=True)
        low = F.silu(self.affine(self.up(F.max_unpool2d(low, places, 2))))
        low = F.interpolate(low, size=h.shape[-2:], mode="bilinear")
        h = F.pad(h + torch.tanh(self.plain(low)), (1, 1, 1, 1), mode="reflect")
        return self.head(F.adaptive_avg_pool2d(h, 1).flatten(1))

    @staticmethod
    def inputs():
        return {"x": torch.randn(4, 2, 10, 10)}


class Scatters(nn.Module):
    """Parameters in a list and a dictionary; writes through indices, into slices, and past a
    mask."""

    def __init__(self):
        super().__init__()
        self.enter, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.scales = nn.ParameterDict({"scale": nn.Parameter(torch.randn(())),
                                        "shift": nn.Parameter(torch.randn(8))})
        self.mixes = nn.ParameterList([nn.Parameter(torch.randn(8, 8)) for _ in range(2)])
        self.register_buffer("lower", torch.tril(torch.ones(8, 8)), persistent=False)

    def forward(self, x, places):
        h = self.enter(x)
        z = torch.zeros_like(h).scatter_add(1, places, h)
        z = torch.where(z > 0, z, z * 0.1)
        z = (torch.einsum("bi,ij->bj", z, self.mixes[0] * self.lower) * self.scales["scale"]
             + self.scales["shift"])
        z = torch.cumsum(z, 1).masked_fill(places == 0, 0.5)
        z = z.index_select(1, torch.arange(7, -1, -1))
        z = torch.stack([z, h]).mean(0) @ self.mixes[1]
        z[:, 0] = h[:, 1] * 2
        z[:, 2:4] += 1
        return self.head(torch.roll(z, 1, 1) + z.flip(1)), (z.amax(1), [places.sum(1), None])

    @staticmethod
    def inputs():
        return {"x": torch.randn(4, 6), "places": torch.randint(8, (4, 8))}


class Distances(nn.Module):
    """Bags of embeddings, a padding index, a bilinear layer, PReLU, gates, distances and angles."""

    def __init__(self):
        super().__init__()
        self.embed, self.bag = nn.Embedding(9, 6, padding_idx=0), nn.EmbeddingBag(9, 8, mode="mean")
        self.both, self.slope = nn.Bilinear(6, 6, 8), nn.PReLU()
        self.gate, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, ids):
        e = self.embed(ids)
        h = self.slope(self.both(e[:, 0], e[:, 1])) + self.bag(ids)
        h = F.normalize(F.glu(torch.cat([h, self.gate(h)], -1)), dim=-1)
        distance = torch.cdist(e, e).mean((1, 2)).unsqueeze(-1)
        return self.head(h + distance) + F.cosine_similarity(e[:, 0], e[:, 2]).unsqueeze(-1)

    @staticmethod
    def inputs():
        return {"ids": torch.randint(1, 9, (4, 5))}


class Recurrent(nn.Module):
    """A bidirectional LSTM of two layers, of which the last states are used, a GRU and a cell in a
    loop."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.gru, self.cell, self.head = (nn.GRU(12, 6, batch_first=True), nn.LSTMCell(6, 6),
                                          nn.Linear(12, 3))

    def forward(self, x):
        y, (states, _) = self.lstm(x)
        y, _ = self.gru(y)
        h = c = torch.zeros_like(y[:, 0])
        for step in range(y.shape[1]):
            h, c = self.cell(y[:, step], (h, c))
        return self.head(torch.cat([states[-2], states[-1]], -1) + h.repeat(1, 2))

    @staticmethod
    def inputs():
        return {"x": torch.randn(4, 3, 5)}


class Reparametrised(nn.Module):
    """Weight norms of both kinds and RMS norm."""

    def __init__(self):
        super().__init__()
        self.enter = parametrizations.weight_norm(nn.Linear(6, 8))
        self.mix = nn.utils.weight_norm(nn.Linear(8, 8))
        self.norm, self.head = nn.RMSNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.norm(torch.tanh(self.mix(torch.relu(self.enter(x))))))

    @staticmethod
    def inputs():
        return {"x": torch.randn(4, 6)}


KINDS = (Statistics, Pictures, Scatters, Distances, Recurrent, Reparametrised)
MODELS = {kind.__name__.lower(): kind for kind in KINDS}


def model(kind):
    return MODELS[kind]()


def example_inputs(kind):
    return MODELS[kind].inputs()
