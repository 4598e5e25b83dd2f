"""Split points of every form, down to the training: modules, their calls, and pipe_split() in the
model's code."""

import subprocess

import pytest
import yaml

from pipelines import (BUILD, PENSTOCK, Reference, difference, execute_json, load_file, model_path,
                       needs_backend, torch, vectors)


def plan(folder, model, points):
    """Plans four microbatches of two samples, split at `points`; returns the run of the planner."""
    synthetic = BUILD / "tests" / "planner" / "synthetic-profile"
    subprocess.run([synthetic, model_path(model), folder / "profile.json", "8", "2"], check=True)
    return subprocess.run([PENSTOCK, "plan", folder / "profile.json", "--split", points,
                           "--microbatches", "4", "-o", folder / "plan.yaml"], capture_output=True,
                          text=True, check=False)


FORMS = [("pipe_split", ["", "twice", "twice.down", "twice.down@1"]),
         ("pipe_split@1", ["", "twice.down"]),
         ("pipe_split@2,twice:beginning", ["", "twice", "twice@1", "twice.down@1"]),
         ("twice@1:beginning", ["", "twice@1"])]


@pytest.mark.parametrize("points, begins", FORMS)
def test_every_form_of_split_point_becomes_the_begin_of_a_stage(tmp_path, points, begins):
    done = plan(tmp_path, "markers-f64", points)
    assert done.returncode == 0, done.stderr
    stages = yaml.safe_load((tmp_path / "plan.yaml").read_text())["stages"]
    assert [stage["begin"] for stage in stages] == begins


@needs_backend
def test_a_model_split_at_its_markers_trains_as_pytorch(tmp_path):
    """The module's own forward, pipe_split() included, is the reference: 1e-10, as the project
    promises."""
    assert plan(tmp_path, "markers-f64", "pipe_split").returncode == 0
    path = tmp_path / "plan.yaml"
    content = yaml.safe_load(path.read_text())
    content["job"]["model"] = str(model_path("markers-f64"))
    content["job"]["optimizer"] = {"kind": "sgd", "learning_rate": 0.05}
    content["job"]["data"] = str(vectors(tmp_path, "x", 16, torch.float64))
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    run = execute_json(path, "--steps", "3", "--dump-gradients", tmp_path / "gradients.safetensors")
    assert run["ranks"] == 4
    losses, expected = Reference(path).train(3)
    assert run["losses"] == pytest.approx(losses, rel=1e-10)
    assert difference(load_file(tmp_path / "gradients.safetensors"), expected) <= 1e-10


def test_a_model_without_markers_has_none_to_split_at(tmp_path):
    done = plan(tmp_path, "pippy", "pipe_split")
    assert done.returncode == 2
    assert "calls pipe_split() nowhere" in done.stderr and not (tmp_path / "plan.yaml").exists()
