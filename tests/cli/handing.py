"""A folder with a file of each kind that penstock reads, and runs of penstock in it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
PENSTOCK = BUILD / "penstock"
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", BUILD / "tests" / "models"))
DEVICE = ROOT / "configs" / "devices" / "h100.yaml"
LAYERS = DEVICE.parent.parent / "layers" / "gpt_96.yaml"
STUDY = ["simulate", "--schedule", "gpipe", "--ranks", 2, "--microbatches", 2, "--forward", "1ms",
         "--backward", "2ms"]

JOB = """penstock: job
model: model.pt2
loss: cross_entropy
optimizer: {kind: sgd, learning_rate: 0.05}
data: data.safetensors
global_batch: 8
steps: 2
"""
CLUSTER = "penstock: cluster\nranks: 2\nlink: {latency: 10us, bandwidth: 1GB/s}\n"


def penstock(folder, *words, **how):
    return subprocess.run([str(PENSTOCK), *map(str, words)], cwd=folder, capture_output=True,
                          text=True, errors="replace", timeout=300, **how)


def refused(folder, *words, says=()):
    """One message, which says all that, and no file is new or another than before."""
    before = contents(folder)
    done = penstock(folder, *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("penstock: ") == 1 and done.stdout == ""
    for text in says:
        assert text in done.stderr
    assert contents(folder) == before
    return done.stderr


def contents(folder):
    return {path: path.readlink() if path.is_symlink() else path.read_bytes()
            for path in sorted(Path(folder).rglob("*")) if path.is_symlink() or path.is_file()}


def succeeds(folder, *words, **how):
    done = penstock(folder, *words, **how)
    assert done.returncode == 0, done.stderr
    return done


def make_files(folder):
    """model.pt2, data.safetensors, job.yaml, profile.json, cluster.yaml, layers.yaml, plan.yaml,
    program.csv, trace.json, page.html, and a folder `saved` that looks like a checkpoint of step
    50."""
    if not (MODELS / "pippy.pt2").exists():
        pytest.skip("pippy.pt2 is missing: the tests export it with torch from .venv")
    shutil.copy(MODELS / "pippy.pt2", folder / "model.pt2")
    (folder / "data.safetensors").write_bytes(safetensors_of("x", "target"))
    (folder / "job.yaml").write_text(JOB)
    (folder / "cluster.yaml").write_text(CLUSTER)
    shutil.copy(DEVICE, folder / "device.yaml")
    shutil.copy(LAYERS, folder / "layers.yaml")
    succeeds(folder, "profile", "job.yaml", "--device", "estimate", "--spec", "device.yaml", "-o",
             "profile.json")
    succeeds(folder, "plan", "profile.json", "--cluster", "cluster.yaml", "--schedule", "1f1b",
             "--split", "layer1:end", "-o", "plan.yaml")
    succeeds(folder, "export", "plan.yaml", "--format", "torch-csv", "-o", "program.csv")
    succeeds(folder, "simulate", "plan.yaml", "--trace", "trace.json", "--html", "page.html")
    checkpoint = folder / "saved" / "step-50"
    checkpoint.mkdir(parents=True)
    (checkpoint / "manifest.json").write_text('{"penstock": "checkpoint", "version": 1}')
    (checkpoint / "stage-0.safetensors").write_bytes(safetensors_of("parameter.x"))
    (folder / "weights.pt").write_bytes(b"PK\x03\x04" + bytes(22) + b"\x10\x00\x00\x00"
                                        + b"archive/data.pkl")
    (folder / "model.py").write_text("import torch\n\n\ndef model():\n    return None\n")
    (folder / "empty").write_bytes(b"")
    return folder


def safetensors_of(*names):
    """Tensors of one float32 each."""
    entries = ", ".join(f'"{name}": {{"dtype": "F32", "shape": [1], "data_offsets": '
                        f'[{4 * i}, {4 * i + 4}]}}' for i, name in enumerate(names))
    header = f"{{{entries}}}".encode()
    return len(header).to_bytes(8, "little") + header + bytes(4 * len(names))
