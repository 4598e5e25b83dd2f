#!/usr/bin/env python3
"""Prints the loss of a model that knows only how frequent each byte of a job's text is.

    .venv/bin/python tools/byte_entropy.py configs/jobs/transformer.yaml

It is the entropy of the byte frequencies in nats, what a language model has to come below.
"""

import argparse
import math
from collections import Counter
from pathlib import Path

import yaml


def entropy(counts):
    """In nats, of the distribution that the counts stand for."""
    total = sum(counts)
    return -sum(count / total * math.log(count / total) for count in counts if count)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job", type=Path, metavar="JOB.yaml")
    path = parser.parse_args().job
    files = yaml.safe_load(path.read_text())["data"]
    if isinstance(files, str):
        files = [files]
    counts = Counter(b"".join((path.parent / file).read_bytes() for file in files))
    loss = entropy(counts.values())
    print(f"Knowing only how frequent each byte is would give a loss of {loss:.3f}.")


if __name__ == "__main__":
    main()
