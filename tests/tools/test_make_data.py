"""tools/make_data.py and configs/jobs: the data of a job fits its model and never changes."""

import importlib
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
# jobs with made data
FITTED = ["pippy", "iterative", "image_classifier", "bert", "t5", "resnet", "vit", "unet"]
TEXTS = ["transformer", "gpt2", "llama", "moe"]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "configs" / "models")]

import byte_entropy


def make(folder, *options):
    subprocess.run([sys.executable, ROOT / "tools" / "make_data.py", "-o", folder, *options],
                   check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make(tmp_path_factory.mktemp("data"))


def job(name):
    return yaml.safe_load((JOBS / f"{name}.yaml").read_text())


def model_file(name):
    return importlib.import_module(name)


def test_two_runs_make_the_same_bytes(data, tmp_path):
    make(tmp_path)
    files = sorted(p.name for p in tmp_path.iterdir())
    assert files == sorted({Path(job(name)["data"]).name for name in FITTED})
    for file in files:
        assert (tmp_path / file).read_bytes() == (data / file).read_bytes()


def test_shards_together_have_the_same_samples(data, tmp_path):
    make(tmp_path, "--shards", "3")
    for whole in data.iterdir():
        shards = [load_file(path) for path in sorted(tmp_path.glob(f"{whole.stem}-*-of-00003.*"))]
        assert len(shards) == 3
        for key, tensor in load_file(whole).items():
            assert torch.equal(torch.cat([shard[key] for shard in shards]), tensor)


@pytest.mark.parametrize("name", FITTED)
def test_a_job_reads_the_data_made_for_its_model(data, name):
    settings = job(name)
    tensors = load_file(data / Path(settings["data"]).name)
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
        counted = target[target != -100]
        assert 0 <= counted.min() and counted.max() < output.shape[-1]
    else:
        assert target.shape == output.shape and target.dtype == output.dtype


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_of_a_job_is_installed_and_has_the_stated_entropy(name):
    counts = torch.zeros(256, dtype=torch.int64)
    for file in job(name)["data"]:
        path = Path(file)
        assert path.is_file() and not path.is_symlink(), f"{file} is missing (package base-files)"
        counts += torch.bincount(torch.tensor(list(path.read_bytes())), minlength=256)
    # Releases of the texts differ by a few words.
    assert byte_entropy.entropy(counts.tolist()) == pytest.approx(3.21, abs=0.05)


@pytest.mark.parametrize("name", TEXTS[1:])
def test_a_model_takes_the_windows_of_its_jobs_text(name):
    [(_, tokens)] = model_file(name).example_inputs().items()
    assert tokens.shape[1] == job(name)["sequence"]
    torch.manual_seed(0)
    with torch.no_grad():
        assert model_file(name).model()(tokens).shape == (*tokens.shape, 256)


def test_entropy_of_known_distributions():
    assert byte_entropy.entropy([7]) == 0
    assert byte_entropy.entropy([5, 5, 0, 5, 5]) == pytest.approx(math.log(4), rel=1e-12)
