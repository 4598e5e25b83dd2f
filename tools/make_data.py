#!/usr/bin/env python3
"""Makes the small data sets of the jobs in configs/jobs, the same bytes every time.

    .venv/bin/python tools/make_data.py -o build/data

Each is a `.safetensors` file whose tensors are named like the inputs of the job's model, and
`target`; the first dimension is the sample. A file appears complete or not at all.
"""

import argparse
import os

import numpy as np
from safetensors.numpy import save_file

SAMPLES = 320  # a whole number of global batches of every job
CLASSES = 10
CONTRAST = 8  # so that 20 steps of SGD at 0.001 show a falling loss


def points(random):
    """For the PiPPy network: points around one centre per class."""
    target = random.integers(CLASSES, size=SAMPLES)
    centres = random.standard_normal((CLASSES, 512))
    return {"x": centres[target] + random.standard_normal((SAMPLES, 512)), "target": target}


def linear_map(random):
    """For the iterative network: a linear map of the input, of unit variance."""
    x = random.standard_normal((SAMPLES, 512))
    weights = random.standard_normal((512, CLASSES))
    return {"x": x, "target": x @ weights / 512 ** 0.5}


def pictures(random):
    """For the image classifier: a smooth random shape per class, with noise."""
    target = random.integers(CLASSES, size=SAMPLES)
    shapes = np.kron(random.standard_normal((CLASSES, 1, 7, 7)), np.ones((4, 4)))
    noise = 0.5 * random.standard_normal((SAMPLES, 1, 28, 28))
    return {"image": CONTRAST * (shapes[target] + noise), "target": target}


MAKERS = {"pippy": points, "iterative": linear_map, "image_classifier": pictures}


def stored(values):
    """As the models take them: float32, classes as int64."""
    kind = np.int64 if np.issubdtype(values.dtype, np.integer) else np.float32
    return np.ascontiguousarray(values, dtype=kind)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER")
    folder = parser.parse_args().output
    os.makedirs(folder, exist_ok=True)
    for seed, (name, maker) in enumerate(MAKERS.items()):
        path = os.path.join(folder, f"{name}.safetensors")
        tensors = maker(np.random.Generator(np.random.PCG64(seed)))
        save_file({key: stored(value) for key, value in tensors.items()}, path + ".new")
        os.replace(path + ".new", path)
        print(f"wrote {path}: {SAMPLES} samples, {os.path.getsize(path):,} bytes")


if __name__ == "__main__":
    main()
