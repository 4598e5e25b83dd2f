"""The commands from Python: export, write_job, profile, plan, simulate, and how they show
themselves."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from feeding import penstock
from pipelines import PENSTOCK, needs_backend, torch

pytestmark = needs_backend
MODEL_JOB = {"loss": "cross_entropy", "global_batch": 16, "seed": 3,
             "optimizer": {"kind": "adamw", "learning_rate": 1e-3}}


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop = torch.nn.Linear(16, 32), torch.nn.Dropout(0.1)
        self.second = torch.nn.Linear(32, 10)

    def forward(self, x):
        h = self.drop(torch.relu(self.first(x)))
        penstock.pipe_split()
        return self.second(h)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    penstock.export(Network(), (torch.randn(4, 16),), folder / "m.pt2")
    return folder


@pytest.fixture(scope="module")
def plan(folder):
    job = penstock.write_job(folder / "job.yaml", model=folder / "m.pt2", **MODEL_JOB)
    profile = penstock.profile(job, folder / "profile.json", quick=True)
    return penstock.plan(profile, folder / "plan.yaml", ranks=2, data_parallel=1, schedule="1f1b",
                         microbatches=4, split="pipe_split")


def test_a_job_names_its_files_as_seen_from_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    penstock.export(Network(), (torch.randn(4, 16),), "m.pt2")
    validation = {"data": "held_out.safetensors", "every": 5}
    job = penstock.write_job("jobs/job.yaml", model="m.pt2", data="data.safetensors",
                             validation=validation, **MODEL_JOB)
    written = yaml.safe_load(job.read_text())
    assert (written["model"], written["data"]) == ("../m.pt2", "../data.safetensors")
    assert written["validation"] == {"data": "../held_out.safetensors", "every": 5}
    assert validation["data"] == "held_out.safetensors"


def test_an_export_leaves_the_module_the_randomness_and_the_environment(tmp_path, capfd):
    model, inputs = Network(), torch.randn(4, 16)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    environment, random = dict(os.environ), torch.random.get_rng_state()
    path = penstock.export(model, (inputs,), tmp_path / "m.pt2", dtype=torch.float64)
    assert path == tmp_path / "m.pt2" and os.environ == environment
    assert torch.random.get_rng_state().equal(random)
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert model.training and capfd.readouterr() == ("", "")
    exported = torch.export.load(path)
    assert exported.state_dict["first.weight"].dtype == torch.float64
    assert exported.state_dict["first.weight"].equal(before["first.weight"].double())


def test_a_model_whose_samples_are_coupled_is_warned_of(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    with pytest.warns(UserWarning, match="samples of a batch influence each other"):
        penstock.export(model, torch.randn(4, 4), tmp_path / "m.pt2")


@pytest.mark.parametrize("make, message", [
    (lambda f: penstock.export(len, (torch.randn(4, 4),), f / "x.pt2"), "give a torch.nn.Module"),
    (lambda f: penstock.export(Network(), (torch.randn(4, 16),), f / "x.pth"), "end with .pt2"),
    (lambda f: penstock.export(Network(), (torch.randn(4, 16),), f / "x.pt2", dtype="int8"),
     "dtype is int8"),
    (lambda f: penstock.export(Network(), (torch.randn(1, 16),), f / "x.pt2"), "a batch of 1"),
    (lambda f: penstock.export(Network(), (torch.randn(4, 3),), f / "x.pt2"), "cannot export"),
    (lambda f: penstock.export(Network(), (), f / "x.pt2"), "a tuple of tensors"),
    (lambda f: penstock.write_job(f / "x.yaml", model="m.pt2", lose="mse"), "lose"),
    (lambda f: penstock.write_job(f / "x.yaml", model=torch), "model is <module 'torch'"),
    (lambda f: penstock.write_job(f / "x.yaml", model="m.pt2", loss="cross_entropi"), "x.yaml"),
    (lambda f: penstock.write_job(f / "none" / "x.yaml", model="m.pt2"), "cannot be written"),
    (lambda f: penstock.profile("none.yaml", f / "x.json"), "profile: none.yaml"),
    (lambda f: penstock.plan(f / "profile.json", f / "x.yaml", rankz=2), "--ranks"),
    (lambda f: penstock.plan(f / "profile.json", f / "x.yaml", schedule="1f2b"), "1f2b"),
    (lambda f: penstock.plan(f / "job.yaml", f / "x.yaml"), "job"),
    (lambda f: penstock.simulate(f / "none.yaml"), "simulate: "),
    (lambda f: penstock.simulate(f / "plan.yaml", set={"schedul": "gpipe"}), "schedul")])
def test_mistakes_are_one_message_and_nothing_is_written(folder, plan, make, message):
    files = sorted(folder.iterdir())
    with pytest.raises(penstock.InputError) as caught:
        make(folder)
    assert message in str(caught.value)
    assert sorted(folder.iterdir()) == files


def test_a_job_is_what_was_given_with_paths_as_seen_from_its_file(folder, plan, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "jobs").mkdir(exist_ok=True)
    path = penstock.write_job("jobs/job.yaml", model="m.pt2", data=["a.safetensors"], **MODEL_JOB)
    job = yaml.safe_load(path.read_text())
    assert job == {"penstock": "job", "model": "../m.pt2", "data": ["../a.safetensors"],
                   **MODEL_JOB}
    path.unlink()


def test_a_job_behind_a_link_finds_its_files(tmp_path, folder, plan, monkeypatch):
    monkeypatch.chdir(folder)
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    path = penstock.write_job(tmp_path / "link" / "job.yaml", model="m.pt2", **MODEL_JOB)
    model = yaml.safe_load(path.read_text())["model"]
    assert (tmp_path / "far" / "away" / model).resolve() == (folder / "m.pt2").resolve()


def test_its_version_is_that_of_the_programs():
    done = subprocess.run([PENSTOCK, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"penstock {penstock.__version__}\n"
    assert not hasattr(penstock, "version_of_something_else")


def test_a_plan_is_made_with_the_flags_given(plan):
    content = yaml.safe_load(plan.read_text())
    assert (content["schedule"], content["microbatches"]) == ("1f1b", 4)
    assert len(content["stages"]) == 2


def test_a_simulation_is_the_commands_json_with_what_ifs(plan):
    done = subprocess.run([PENSTOCK, "simulate", plan, "--json", "--set", "speed=2", "--set",
                           "links.bandwidth=1GB/s"], capture_output=True, text=True, check=True)
    found = penstock.simulate(plan, set={"speed": 2, "links.bandwidth": "1GB/s"})
    wanted = json.loads(done.stdout)
    del wanted["elapsed_s"], found["elapsed_s"]  # of the simulation itself
    assert found == wanted


def test_a_notebook_shows_plans_and_simulations_as_their_page(plan):
    for shown in plan, penstock.simulate(plan, set={"speed": 2}):
        frame = shown._repr_html_()
        assert frame.startswith("<iframe srcdoc=") and "&lt;script" in frame
        assert len(frame) > 10_000


class Notebook:
    """IPython with a kernel, as far as it is asked."""

    def __init__(self):
        self.kernel, self.lines, self.shown = object(), 0, []
        self.get_ipython = lambda: self

    def display(self, content, raw, display_id):
        self.lines += 1
        return self

    def update(self, content, raw):
        self.shown.append(content["text/plain"])


def test_in_a_notebook_progress_is_one_line(folder, plan, monkeypatch, capfd):
    notebook = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    penstock.profile(folder / "job.yaml", folder / "again.json", quick=True)
    assert notebook.lines == 1 and capfd.readouterr() == ("", "")
    shares = [line for line in notebook.shown if "%" in line]
    assert len(shares) > 1 and all("\n" not in line and "\r" not in line for line in shares)
    with pytest.raises(penstock.InputError, match="^profile: none.yaml"):
        penstock.profile("none.yaml", folder / "other.json")


@pytest.mark.parametrize("variable", ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"])
def test_what_writes_a_file_is_refused_under_a_launcher(folder, plan, monkeypatch, variable):
    monkeypatch.setenv(variable, "4")
    for call in penstock.profile, penstock.plan:
        with pytest.raises(penstock.InputError, match=f"{variable} is 4"):
            call(folder / "job.yaml", folder / "other")


def test_the_command_of_the_package_is_the_program():
    code = "from penstock.programs import main; main()"
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(penstock.__file__))}
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True,
                          env=environment)
    assert done.returncode == 0 and done.stdout.startswith("penstock ")
