"""penstock show: what is in a model or a plan."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
PENSTOCK = BUILD / "penstock"
SYNTHETIC = BUILD / "tests" / "planner" / "synthetic-profile"
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", BUILD / "tests" / "models"))


def show(path):
    return subprocess.run([str(PENSTOCK), "show", str(path)], capture_output=True, text=True, timeout=120)


def model(name):
    path = MODELS / f"{name}.pt2"
    if not path.exists():
        pytest.skip(f"{path} is missing: the tests export it with torch from .venv")
    return path


def shown(path):
    done = show(path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def row(text, name):
    """The cells of a module's row."""
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [name])


def test_the_modules_of_the_pippy_network(tmp_path):
    text = shown(model("pippy"))
    # 512*512 + 512 = 262,656; 512*1024 + 1024 = 525,312; 1024*256 + 256 = 262,400; 256*10 + 10 = 2,570
    assert "parameters  1.05 M in 8 tensors" in text
    assert row(text, "layer1")[1:3] == ["525", "k"]
    # A linear layer is (2 * 256 + 1) * 10 FLOPs a sample, the one for the bias.
    assert row(text, "output_proj")[1:] == ["2.57", "k", "5.13", "k", "1"]
    assert "[batch, 512]" in text and "[batch, 10]" in text


def test_a_module_called_three_times_says_so_and_its_parameters_count_once():
    text = shown(model("iterative"))
    assert row(text, "iter_block")[1:5] == ["(3", "calls)", "1.06", "k"]  # 32*32 + 32
    assert "parameters  1.39 k in 4 tensors" in text  # and 32*10 + 10


def test_equal_layers_are_drawn_together():
    text = shown(model("transformer-text"))
    assert any(line.split()[:1] and line.split()[0].startswith("0-") and ", each" in line
               for line in text.splitlines()), text


def test_a_plan_shows_its_stages_and_what_crosses_them(tmp_path):
    path = model("pippy")
    assert subprocess.run([SYNTHETIC, path, tmp_path / "profile.json", "32", "8"]).returncode == 0
    done = subprocess.run([PENSTOCK, "plan", tmp_path / "profile.json", "--split", "layer0:end,layer1:end",
                           "--microbatches", "4", "-o", tmp_path / "plan.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = shown(tmp_path / "plan.yaml")
    assert "on 3 ranks, 4 microbatches of 8 samples" in text
    for name in ["layer0", "layer1", "layer2", "output_proj"]:
        assert name in text
    lines = [line.split() for line in text.splitlines()]
    crossing = [line for line in lines if line[1:2] == ["to"]]
    # 8 samples of 512 floats are 16 KiB, of 1024 floats 32 KiB; the gradients are as large.
    assert [line[:3] + line[-4:] for line in crossing] == [
        ["0", "to", "1", "16.0", "KiB", "16.0", "KiB"], ["1", "to", "2", "32.0", "KiB", "32.0", "KiB"]]


@pytest.mark.parametrize("name, content, text", [
    ("model.txt", "hello", "MODEL.pt2"), ("broken.pt2", "not a zip", "broken.pt2"),
    ("plan.yaml", "penstock: job\n", "plan.yaml"), ("missing.pt2", None, "no such file")])
def test_what_is_neither_is_refused(tmp_path, name, content, text):
    if content is not None:
        (tmp_path / name).write_text(content)
    done = show(tmp_path / name)
    assert done.returncode == 2
    assert done.stdout == "" and text in done.stderr
