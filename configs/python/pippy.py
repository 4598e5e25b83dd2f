"""PiPPy's network over three stages, then its unrolled loop, a block called three times, over four
stages that share the block's weights.

    python configs/python/pippy.py [STEPS]

Files are left in build/python/pippy.
"""

import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "configs" / "models"), str(ROOT / "python")]

import iterative
import penstock
import pippy


def points(samples=512, width=512, classes=10):
    """Points around ten centres."""
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(classes, (samples,), generator=generator)
    centres = torch.randn(classes, width, generator=generator)
    return TensorDataset(centres[label] + torch.randn(samples, width, generator=generator), label)


def plan(folder, model, split):
    """A plan of the module with a stage behind each of the split points."""
    folder.mkdir(parents=True, exist_ok=True)
    file = penstock.export(model, (torch.randn(4, 512),), folder / "model.pt2")
    job = penstock.write_job(folder / "job.yaml", model=file, loss="cross_entropy",
                             global_batch=32, optimizer={"kind": "sgd", "learning_rate": 0.01,
                                                         "momentum": 0.9})
    profile = penstock.profile(job, folder / "profile.json", quick=True)
    return penstock.plan(profile, folder / "plan.yaml", split=split, schedule="1f1b",
                         microbatches=8, data_parallel=1)


def train(plan, steps):
    losses = []
    with penstock.Pipeline(plan) as pipe:
        loader = DataLoader(points(), pipe.batch_size, shuffle=True, drop_last=True)
        while len(losses) < steps:
            for x, label in loader:
                losses.append(pipe.step(x, target=label))
    return losses


def main(folder=ROOT / "build" / "python" / "pippy", steps=48):
    torch.manual_seed(0)
    results = {}
    for name, model, split in [
            ("network", pippy.model(), ["layer0:end", "layer1:end"]),
            ("loop", iterative.model(), ["iter_block:end"])]:  # after each of its three calls
        results[name] = train(plan(Path(folder) / name, model, split), steps)
        print(f"{name}: loss {results[name][0]:.4f} to {results[name][-1]:.4f}")
    return results


if __name__ == "__main__":
    main(steps=int(sys.argv[1]) if len(sys.argv) > 1 else 48)
