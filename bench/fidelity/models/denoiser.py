"""The U-Net of a diffusion model (Ho et al., 2020): group norm, SiLU, the time step added in every
block and attention at the bottom, so that time and skips cross the whole model. It says the noise
in a picture."""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, inputs, outputs, time):
        super().__init__()
        self.norm0, self.norm1 = nn.GroupNorm(4, inputs), nn.GroupNorm(4, outputs)
        self.conv0 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv1 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, time):
        h = self.conv0(functional.silu(self.norm0(x))) + self.time(time)[:, :, None, None]
        return self.conv1(functional.silu(self.norm1(h))) + self.skip(x)


class Attention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.attention = nn.MultiheadAttention(channels, 4, batch_first=True)

    def forward(self, x):
        h = self.norm(x).flatten(2).transpose(1, 2)
        h = self.attention(h, h, h, need_weights=False)[0]
        return x + h.transpose(1, 2).unflatten(2, x.shape[2:])


class Denoiser(nn.Module):
    def __init__(self, levels, width):
        super().__init__()
        widths = [width << level for level in range(levels)]
        time = 4 * width
        self.time = nn.Sequential(nn.Linear(1, time), nn.SiLU(), nn.Linear(time, time), nn.SiLU())
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(
            Block(inputs, outputs, time)
            for inputs, outputs in zip([width, *widths[:-1]], widths, strict=True))
        self.middle = Block(widths[-1], widths[-1], time)
        self.attention = Attention(widths[-1])
        self.up = nn.ModuleList(
            Block(below + here, here, time)
            for below, here in zip([widths[-1], *widths[:0:-1]], widths[::-1], strict=True))
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, image, time):
        time = self.time(time)
        h, passed = self.enter(image), []
        for down in self.down:
            passed.append(down(h, time))
            h = functional.avg_pool2d(passed[-1], 2)
        h = self.attention(self.middle(h, time))
        for up in self.up:
            h = up(torch.cat([functional.interpolate(h, scale_factor=2.0), passed.pop()], 1), time)
        return self.leave(functional.silu(h))


def model(levels=2, width=8):
    return Denoiser(levels, width)


def example_inputs(batch=4, side=16):
    return {"image": torch.randn(batch, 3, side, side), "time": torch.rand(batch, 1)}


def blocks(levels=2):
    return ([f"down.{level}" for level in range(levels)] + ["middle"]
            + [f"up.{level}" for level in range(levels)])
