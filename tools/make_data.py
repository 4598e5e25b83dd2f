#!/usr/bin/env python3
"""Makes the small data sets of the jobs in configs/jobs, the same bytes every time.

    .venv/bin/python tools/make_data.py -o build/data

Each is a `.safetensors` file whose tensors are named like the inputs of the job's model, and
`target`; the first dimension is the sample. `--shards 4` divides its samples among four files,
NAME-00000-of-00004.safetensors and so on. A file appears complete or not at all. The text is that
of a license which Debian and Ubuntu install; without it this ends with 1.
"""

import argparse
import os
import sys

import numpy as np
from safetensors.numpy import save_file

SAMPLES = 320  # a whole number of global batches of every job
CLASSES = 10
CONTRAST = 8  # so that 20 steps of SGD at 0.001 show a falling loss
TEXT = "/usr/share/common-licenses/GPL-3"
WINDOW = 64
MASK = 256  # the token after the bytes
IGNORED = -100  # a target that does not count


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


def small_pictures(random):
    """For ResNet and ViT: a smooth random shape per class in three colours, with noise."""
    target = random.integers(CLASSES, size=SAMPLES)
    shapes = np.kron(random.standard_normal((CLASSES, 3, 8, 8)), np.ones((4, 4)))
    noise = random.standard_normal((SAMPLES, 3, 32, 32))
    return {"image": shapes[target] + noise, "target": target}


def discs_and_squares(random):
    """For the U-Net: a disc (class 1) and over it a square (class 2), with colours and noise."""
    rows, columns = np.mgrid[:32, :32]
    disc, square = random.uniform(6, 26, size=(2, 2, SAMPLES, 1, 1))  # row and column of the centre
    sizes = random.uniform(3, 6, size=(2, SAMPLES, 1, 1))
    inside = np.hypot(rows - disc[0], columns - disc[1]) < sizes[0]
    over = np.maximum(np.abs(rows - square[0]), np.abs(columns - square[1])) < sizes[1]
    target = np.where(over, 2, np.where(inside, 1, 0))
    colours = random.standard_normal((SAMPLES, 3, 3))  # by class
    image = np.take_along_axis(colours, target.reshape(SAMPLES, -1, 1), axis=1)
    image = np.moveaxis(image.reshape(SAMPLES, 32, 32, 3), 3, 1)
    return {"image": image + 0.2 * random.standard_normal(image.shape), "target": target}


def windows():
    """The first windows of the text, a token for each byte."""
    try:
        text = np.fromfile(TEXT, dtype=np.uint8, count=SAMPLES * WINDOW)
    except OSError as error:
        sys.exit(f"make_data: {TEXT}: {error.strerror}; Debian's package base-files has it")
    return text.astype(np.int64).reshape(SAMPLES, WINDOW)


def masked_text(random):
    """For BERT: 15 % of the bytes are masked, and only they count."""
    text = windows()
    masked = random.random(text.shape) < 0.15
    return {"tokens": np.where(masked, MASK, text), "target": np.where(masked, text, IGNORED)}


def text_to_restore(random):
    """For T5: the encoder reads the text with 15 % masked, the decoder writes all of it."""
    text = windows()
    before = np.pad(text, ((0, 0), (1, 0)))[:, :-1]  # what the decoder wrote so far, from a 0 on
    return {"tokens": np.where(random.random(text.shape) < 0.15, MASK, text),
            "decoder_tokens": before, "target": text}


MAKERS = {"pippy": points, "iterative": linear_map, "image_classifier": pictures,
          "small_pictures": small_pictures, "discs_and_squares": discs_and_squares,
          "masked_text": masked_text, "text_to_restore": text_to_restore}


def stored(values):
    """As the models take them: float32, classes as int64."""
    kind = np.int64 if np.issubdtype(values.dtype, np.integer) else np.float32
    return np.ascontiguousarray(values, dtype=kind)


def write(path, tensors):
    save_file(tensors, path + ".new")
    os.replace(path + ".new", path)
    samples = len(next(iter(tensors.values())))
    print(f"wrote {path}: {samples} samples, {os.path.getsize(path):,} bytes")


def divided(tensors, shards):
    """The samples of each shard, as many in one as in another but for one."""
    parts = {key: np.array_split(value, shards) for key, value in tensors.items()}
    return [{key: part[shard] for key, part in parts.items()} for shard in range(shards)]


def shard_count(text):
    count = int(text)
    if 1 <= count <= SAMPLES:
        return count
    raise argparse.ArgumentTypeError(f"{count} shards of {SAMPLES} samples")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER")
    parser.add_argument("--shards", type=shard_count, default=1, metavar="N",
                        help="files for each set of data (default: 1)")
    given = parser.parse_args()
    os.makedirs(given.output, exist_ok=True)
    for seed, (name, maker) in enumerate(MAKERS.items()):
        tensors = maker(np.random.Generator(np.random.PCG64(seed)))
        tensors = {key: stored(value) for key, value in tensors.items()}
        for shard, part in enumerate(divided(tensors, given.shards)):
            place = f"-{shard:05}-of-{given.shards:05}" if given.shards > 1 else ""
            write(os.path.join(given.output, f"{name}{place}.safetensors"), part)


if __name__ == "__main__":
    main()
