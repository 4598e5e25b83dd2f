"""Checkpoints that a script's pipeline writes and loads."""

import itertools

import pytest

from feeding import batches, feed, penstock, pipeline
from pipelines import execute_json, good_plan, needs_backend, save_file, torch, write_plan

pytestmark = needs_backend


def test_a_checkpoint_that_nobody_waits_for_is_the_same(tmp_path):
    plan = good_plan(tmp_path, optimizer={"kind": "adamw", "learning_rate": 0.01})
    with pipeline(plan) as pipe:
        feed(pipe, plan, 2)
        later = pipe.save(tmp_path / "later", wait=False)
        feed(pipe, plan, 1)
        assert later.name == "step-2" and (later / "manifest.json").exists()
        assert pipe.load(later) is None
        now = pipe.save(tmp_path / "now")
    assert {file.name: file.read_bytes() for file in later.iterdir()} == \
        {file.name: file.read_bytes() for file in now.iterdir()}


def test_what_kept_such_a_checkpoint_from_being_written_is_raised_by_the_next_call(tmp_path):
    plan = good_plan(tmp_path)
    with pipeline(plan) as pipe:
        feed(pipe, plan, 1)
        (tmp_path / "file").write_text("")
        pipe.save(tmp_path / "file", wait=False)
        with pytest.raises(penstock.InputError, match="file"):
            pipe.state_dict()
        assert feed(pipe, plan, 1) and pipe.steps_done == 2
        pipe.save(tmp_path / "saved", wait=False)  # closing waits for it
    assert (tmp_path / "saved" / "step-2" / "manifest.json").exists()


def test_checkpoints_are_those_of_execute_and_go_on(tmp_path):
    plan = good_plan(tmp_path, steps=6)
    losses = execute_json(plan)["losses"]
    with pipeline(plan, save=tmp_path / "saved", save_every=2) as pipe:
        assert feed(pipe, plan, 3) == losses[:3]
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["step-2", "step-3"]
    with pipeline(plan, resume=tmp_path / "saved") as pipe:
        assert pipe.steps_done == 3
        assert feed(pipe, plan, 3) == losses[3:]
        pipe.load(tmp_path / "saved" / "step-2")
        assert pipe.steps_done == 2
        assert feed(pipe, plan, 1) == losses[2:3]
        assert pipe.save(tmp_path / "other").name == "step-3"
    assert execute_json(plan, "--resume", tmp_path / "other")["losses"] == losses[3:]


def test_a_checkpoint_keeps_what_the_script_adds_and_the_newest_intact_one_is_taken(tmp_path):
    plan, saved = good_plan(tmp_path, steps=6), tmp_path / "saved"
    with pipeline(plan, save=saved, resume=saved, save_every=1, keep=2) as pipe:  # the first time
        assert pipe.extra is None
        for step, (inputs, target) in enumerate(itertools.islice(batches(plan), 4)):
            pipe.step(**inputs, target=target, extra={"batch": step})
        assert sorted(path.name for path in saved.iterdir()) == ["step-3", "step-4"]
        assert pipe.load(saved / "step-3") == {"batch": 2}
    (saved / "step-4" / "stage-0.safetensors").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="step-4"):
        pipe = pipeline(plan, save=saved, resume=saved)
    with pipe:
        assert (pipe.steps_done, pipe.extra) == (3, {"batch": 2})
        assert feed(pipe, plan, 3) == execute_json(plan)["losses"][3:]


class Scaled(torch.nn.Module):
    """What a frozen scale gives is computed once."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)
        self.scale = torch.nn.Parameter(torch.zeros(8))

    def forward(self, x):
        scale = self.scale.exp().expand(x.shape[0], 8)  # all rows in one place
        return self.second(torch.relu(self.first(x)) * scale)


def test_a_checkpoint_with_another_frozen_parameter_counts_once_it_is_loaded(tmp_path):
    model, inputs = tmp_path / "m.pt2", torch.randn(16, 8)
    penstock.export(Scaled(), (torch.randn(4, 8),), model)
    save_file({"x": inputs, "target": torch.arange(16) % 4}, tmp_path / "data.safetensors")

    def plan(name, **more):
        optimizer = {"kind": "sgd", "learning_rate": 0.5, **more}
        return write_plan(tmp_path, model, tmp_path / "data.safetensors", ["", "second"], 2, 4,
                          optimizer=optimizer, name=name)

    trained, frozen = plan("trained.yaml"), plan("frozen.yaml", frozen=["scale"])
    with pipeline(trained) as pipe:
        feed(pipe, trained, 4)
        assert pipe.state_dict()["scale"].abs().min() > 0
        saved = pipe.save(tmp_path / "saved")
    with pipeline(frozen, resume=saved) as pipe:
        wanted = pipe.forward(x=inputs[:8])["output"], feed(pipe, frozen, 2)
    with pipeline(frozen) as pipe:
        feed(pipe, frozen, 1)
        pipe.forward(x=inputs[:8])
        pipe.load(saved)
        assert pipe.forward(x=inputs[:8])["output"].equal(wanted[0])
        assert feed(pipe, frozen, 2) == wanted[1]


def test_the_same_step_may_be_saved_again_with_other_parameters(tmp_path):
    plan = good_plan(tmp_path)
    with pipeline(plan) as pipe:
        (inputs, target), (others, labels) = itertools.islice(batches(plan), 2)
        start = pipe.save(tmp_path / "start")
        for name, batch in ("one", (inputs, target)), ("other", (others, labels)):
            pipe.load(start)
            pipe.step(**batch[0], target=batch[1])
            pipe.save(tmp_path / name)
        last = pipe.state_dict()
        pipe.load(tmp_path / "one")
        assert not all(value.equal(last[key]) for key, value in pipe.state_dict().items())
        pipe.load(tmp_path / "other")
        assert all(value.equal(last[key]) for key, value in pipe.state_dict().items())
