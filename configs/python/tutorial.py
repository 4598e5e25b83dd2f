"""The transformer of PyTorch's pipelining tutorial over two stages.

    python configs/python/tutorial.py [STEPS]                        # starts both ranks itself
    torchrun --nproc-per-node 2 configs/python/tutorial.py [STEPS]   # once it has been planned

Files are left in build/python/tutorial.
"""

import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "configs" / "models"), str(ROOT / "python")]

import penstock
import transformer

OWN_SIZE = {"layers": 8, "heads": 8, "dim": 512, "vocabulary": 10000, "sequence": 500}


def plan(folder, settings):
    """The first half of the layers on rank 0, the others on rank 1, as in the tutorial."""
    folder.mkdir(parents=True, exist_ok=True)
    model = transformer.model(**settings)
    tokens = torch.randint(settings["vocabulary"], (4, settings["sequence"]))
    file = penstock.export(model, (tokens,), folder / "model.pt2")
    job = penstock.write_job(folder / "job.yaml", model=file, loss="cross_entropy",
                             global_batch=32, optimizer={"kind": "sgd", "learning_rate": 0.1})
    profile = penstock.profile(job, folder / "profile.json")
    # The model reads the batch as its sequence (configs/models/transformer.py), so that the
    # microbatches change what it computes: here as in the tutorial they are given.
    return penstock.plan(profile, folder / "plan.yaml", schedule="gpipe", microbatches=4,
                         split=f"layers.{settings['layers'] // 2}:beginning", data_parallel=1)


def train(plan, settings, steps):
    """The tutorial's x and y: made-up words, the same on all ranks."""
    generator = torch.Generator().manual_seed(0)
    size = (32, settings["sequence"])
    x = torch.randint(settings["vocabulary"], size, generator=generator)
    y = torch.randint(settings["vocabulary"], size, generator=generator)
    with penstock.Pipeline(plan) as pipe:
        losses = [pipe.step(x, target=y) for _ in range(steps)]
        if pipe.rank == 0:
            print(f"loss {losses[0]:.4f} to {losses[-1]:.4f}")
    return losses


def main(folder=ROOT / "build" / "python" / "tutorial", steps=4, settings=OWN_SIZE):
    torch.manual_seed(0)
    path = Path(folder) / "plan.yaml"
    if not path.exists():
        plan(Path(folder), settings)
    return train(path, settings, steps)


if __name__ == "__main__":
    main(steps=int(sys.argv[1]) if len(sys.argv) > 1 else 4)
