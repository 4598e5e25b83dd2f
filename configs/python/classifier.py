"""OneFlow's image classifier over two stages, with epochs, a test set and checkpoints.

    python configs/python/classifier.py [EPOCHS]

Goes on from the last checkpoint. Files are left in build/python/classifier.
"""

import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "configs" / "models"), str(ROOT / "python")]

import image_classifier
import penstock


def pictures(samples, seed):
    """Ten shapes, blurred, in noise."""
    shapes = torch.rand(10, 1, 7, 7, generator=torch.Generator().manual_seed(0))
    shapes = torch.nn.functional.interpolate(shapes, size=28, mode="bilinear")
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(10, (samples,), generator=generator)
    noise = torch.randn(samples, 1, 28, 28, generator=generator)
    return TensorDataset(shapes[label] + 0.3 * noise, label)


def plan(folder):
    folder.mkdir(parents=True, exist_ok=True)
    file = penstock.export(image_classifier.model(), (torch.randn(4, 1, 28, 28),),
                           folder / "model.pt2")
    job = penstock.write_job(folder / "job.yaml", model=file, loss="cross_entropy",
                             global_batch=16, optimizer={"kind": "sgd", "learning_rate": 0.01})
    profile = penstock.profile(job, folder / "profile.json", quick=True)
    return penstock.plan(profile, folder / "plan.yaml", split="stage0:end", microbatches=4,
                         data_parallel=1)


def train(pipe, data):
    """An epoch; the mean of its losses."""
    losses = [pipe.step(image, target=label) for image, label in
              DataLoader(data, pipe.batch_size, shuffle=True, drop_last=True)]
    return sum(losses) / len(losses)


def test(pipe, data):
    """The loss on a test set, and the share of pictures that are told rightly."""
    losses, right, count = [], 0, 0
    for image, label in DataLoader(data, pipe.batch_size, drop_last=True):
        losses.append(pipe.evaluate(image, target=label))
        (output,) = pipe.forward(image).values()
        right += (output.argmax(1) == label).sum().item()
        count += len(label)
    return sum(losses) / len(losses), right / count


def main(folder=ROOT / "build" / "python" / "classifier", epochs=5):
    torch.manual_seed(0)
    folder = Path(folder)
    path, saved = folder / "plan.yaml", folder / "saved"
    if not path.exists():
        plan(folder)
    results = []
    with penstock.Pipeline(path, save=saved, resume=saved) as pipe:
        for _ in range(epochs):
            results.append((train(pipe, pictures(1024, 1)), *test(pipe, pictures(256, 2))))
            print("step {}: loss {:.4f}, test loss {:.4f}, right {:.1%}".format(
                pipe.steps_done, *results[-1]))
            pipe.save()
        model = image_classifier.model()
        model.load_state_dict(pipe.state_dict())
    return results, model


if __name__ == "__main__":
    main(epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 5)
