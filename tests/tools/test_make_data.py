"""tools/make_data.py and configs/jobs: the data of a job fits its model and never changes."""

import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "configs" / "jobs"
MADE = ["pippy", "iterative", "image_classifier"]
sys.path.insert(0, str(ROOT / "tools"))

import byte_entropy  # noqa: E402


def make(folder):
    subprocess.run([sys.executable, ROOT / "tools" / "make_data.py", "-o", folder], check=True,
                   capture_output=True)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make(tmp_path_factory.mktemp("data"))


def job(name):
    return yaml.safe_load((JOBS / f"{name}.yaml").read_text())


def model_file(name):
    path = ROOT / "configs" / "models" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_two_runs_make_the_same_bytes(data, tmp_path):
    make(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(f"{n}.safetensors" for n in MADE)
    for name in MADE:
        file = f"{name}.safetensors"
        assert (tmp_path / file).read_bytes() == (data / file).read_bytes()


@pytest.mark.parametrize("name", MADE)
def test_a_job_reads_the_data_made_for_its_model(data, name):
    settings, tensors = job(name), load_file(data / f"{name}.safetensors")
    assert Path(settings["data"]).name == f"{name}.safetensors"
    assert Path(settings["model"]).name == f"{name}.pt2"
    target = tensors.pop("target")
    assert len(target) % settings["global_batch"] == 0
    examples = model_file(name).example_inputs()
    assert tensors.keys() == examples.keys()
    for key, example in examples.items():
        assert (tensors[key].shape[1:], tensors[key].dtype) == (example.shape[1:], example.dtype)
    torch.manual_seed(0)
    with torch.no_grad():
        output = model_file(name).model()(**tensors)
    if settings["loss"] == "cross_entropy":
        assert target.dtype == torch.int64 and target.shape == output.shape[:-1]
        assert 0 <= target.min() and target.max() < output.shape[-1]
    else:
        assert target.shape == output.shape and target.dtype == output.dtype


def test_the_text_of_the_transformer_is_installed_and_has_the_stated_entropy():
    counts = torch.zeros(256, dtype=torch.int64)
    for file in job("transformer")["data"]:
        path = Path(file)
        assert path.is_file() and not path.is_symlink(), f"{file} is missing (package base-files)"
        counts += torch.bincount(torch.tensor(list(path.read_bytes())), minlength=256)
    # Releases of the texts differ by a few words.
    assert byte_entropy.entropy(counts.tolist()) == pytest.approx(3.21, abs=0.05)


def test_entropy_of_known_distributions():
    assert byte_entropy.entropy([7]) == 0
    assert byte_entropy.entropy([5, 5, 0, 5, 5]) == pytest.approx(math.log(4), rel=1e-12)
