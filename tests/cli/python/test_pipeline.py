"""penstock.Pipeline where one process feeds all ranks: it trains as `execute` does."""

import itertools
import math
import os
import subprocess
import sys
import time

import pytest

from feeding import batches, feed, penstock, pipeline
from exporting import export
from pipelines import (BUILD, Reference, difference, execute, execute_json, good_plan, load_file,
                       model_path, needs_backend, save_file, torch, vectors, write_plan)

pytestmark = needs_backend


def test_losses_are_those_of_execute_bit_by_bit(tmp_path):
    plan = good_plan(tmp_path, steps=5)
    with pipeline(plan) as pipe:
        assert (pipe.rank, pipe.ranks, pipe.replica, pipe.replicas) == (0, 2, 0, 1)
        assert pipe.inputs == ("x", "target") and pipe.batch_size == 8
        assert feed(pipe, plan, 5) == execute_json(plan)["losses"]
        assert pipe.steps_done == 5 and pipe.step_seconds > 0


def test_two_replicas_and_ignored_targets(tmp_path):
    data = vectors(tmp_path, "x", 512, torch.float32)
    tensors = load_file(data)
    tensors["target"][::3] = -100
    save_file(tensors, data)
    plan = write_plan(tmp_path, model_path("pippy"), data, ["", "layer1"], 2, 4, data_parallel=2)
    with pipeline(plan) as pipe:
        assert feed(pipe, plan, 3) == execute_json(plan)["losses"]
        assert (pipe.ranks, pipe.batch_size) == (4, 16)


def test_tensor_groups_give_losses_outputs_and_weights_as_whole_ranks_do(tmp_path):
    data = model_path("resnet-f64").with_name("resnet-f64.data.safetensors")
    parts = write_plan(tmp_path, model_path("resnet-f64"), data, ["", "groups.1"], 2, 2,
                       data_parallel=2, tensor_parallel=2)
    whole = write_plan(tmp_path, model_path("resnet-f64"), data, [""], 2, 2, data_parallel=2,
                       name="whole.yaml")
    found = []
    for plan in (parts, whole):
        with pipeline(plan) as pipe:
            inputs, target = next(batches(plan))
            losses = feed(pipe, plan, 2)
            saved = pipe.save(plan.with_suffix(".saved"))
            losses += feed(pipe, plan, 1)
            state, loss = pipe.state_dict(), pipe.evaluate(**inputs, target=target)
            outputs = pipe.forward(**inputs)
            pipe.load(saved)
            assert feed(pipe, plan, 1) == losses[2:]
            found.append((losses + [loss], {**outputs, **state}, pipe.ranks))
    assert [ranks for *_, ranks in found] == [8, 2]
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-10)
    assert found[0][0][:3] == execute_json(parts)["losses"]
    assert found[0][1].keys() == found[1][1].keys()
    for name, tensor in found[1][1].items():
        torch.testing.assert_close(found[0][1][name], tensor, rtol=1e-10, atol=1e-10, msg=name)


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


def test_in_float64_it_trains_as_pytorch_does(tmp_path):
    plan = write_plan(tmp_path, model_path("pippy-f64"),
                      vectors(tmp_path, "x", 32, torch.float64), ["", "layer1", "layer2"], 4, 2)
    reference = Reference(plan)
    losses, _ = reference.train(3)
    with pipeline(plan) as pipe:
        assert feed(pipe, plan, 3) == pytest.approx(losses, rel=1e-10)
        trained = pipe.state_dict()
    wanted = {name: value.detach() for name, value in reference.module.state_dict().items()}
    assert difference(trained, wanted) <= 1e-10


def test_a_scripts_learning_rate_replaces_the_jobs_and_its_groups_keep_their_ratio(tmp_path):
    def with_rates(rate, bias, name):
        groups = [{"parameters": ["*.bias"], "learning_rate": bias}]
        return good_plan(tmp_path, name=name, optimizer={
            "kind": "sgd", "learning_rate": rate, "groups": groups})

    slow, fast = with_rates(1 / 32, 1 / 64, "slow.yaml"), with_rates(1 / 16, 1 / 32, "fast.yaml")
    wanted = execute_json(fast)["losses"]
    assert wanted != execute_json(slow)["losses"]
    with pipeline(slow) as pipe:
        assert feed(pipe, slow, 3, learning_rate=1 / 16) == wanted


def test_a_schedule_of_torch_is_the_jobs_own(tmp_path):
    """get_linear_schedule_with_warmup, as a LambdaLR."""
    plan = good_plan(tmp_path, steps=4, optimizer={
        "kind": "sgd", "learning_rate": 0.5, "decay": "linear"})
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.5)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 4)
    found = []
    with pipeline(plan) as pipe:
        for inputs, target in itertools.islice(batches(plan), 4):
            found.append(pipe.step(**inputs, target=target,
                                   learning_rate=schedule.get_last_lr()[0]))
            optimizer.step()
            schedule.step()
    assert found == execute_json(plan)["losses"]


def test_the_clipped_norm_is_told(tmp_path):
    plan = good_plan(tmp_path, optimizer={"kind": "sgd", "learning_rate": 0.05, "clip_norm": 0.5})
    with pipeline(plan) as pipe:
        feed(pipe, plan, 3)
        assert pipe.gradient_norm == execute_json(plan)["gradient_norms"][-1]


def test_evaluation_changes_no_later_bit(tmp_path):
    data = model_path("resnet").with_name("resnet.data.safetensors")
    plan = write_plan(tmp_path, model_path("resnet"), data, ["", "groups.1"], 4, 2)
    with pipeline(plan) as pipe:
        inputs, target = next(batches(plan))
        before = pipe.evaluate(**inputs, target=target)
        assert before == pipe.evaluate(**inputs, target=target)
        assert feed(pipe, plan, 3) == execute_json(plan)["losses"]
        assert pipe.evaluate(**inputs, target=target) != before


def test_forward_gives_the_outputs_of_execute(tmp_path):
    plan = good_plan(tmp_path)
    outputs = tmp_path / "outputs.safetensors"
    assert execute(plan, "--forward-only", "--output", outputs).returncode == 0
    with pipeline(plan) as pipe:
        inputs, target = next(batches(plan))
        found = pipe.forward(**inputs)
        feed(pipe, plan, 1)
    (name, expected), = load_file(outputs).items()
    assert list(found) == [name] and found[name].equal(expected)


def test_evaluation_is_of_the_outputs_of_forward(tmp_path):
    plan = good_plan(tmp_path)
    with pipeline(plan) as pipe:
        inputs, target = next(batches(plan))
        (logits,) = pipe.forward(**inputs).values()
        loss = torch.nn.functional.cross_entropy(logits, target)
        assert pipe.evaluate(**inputs, target=target) == pytest.approx(float(loss), rel=1e-5)
        assert math.isnan(pipe.evaluate(**inputs, target=torch.full_like(target, -100)))


def test_a_loss_that_is_not_finite_leaves_the_parameters_and_the_pipeline(tmp_path):
    plan = good_plan(tmp_path)
    with pipeline(plan) as pipe:
        inputs, target = next(batches(plan))
        before = pipe.state_dict()
        with pytest.raises(penstock.LossNotFinite, match="the loss of step 1 is nan"):
            pipe.step(inputs["x"] * math.nan, target=target)
        assert pipe.steps_done == 0
        after = pipe.state_dict()
        assert all(after[name].equal(tensor) for name, tensor in before.items())
        assert feed(pipe, plan, 3) == execute_json(plan)["losses"]


def test_a_loss_that_is_not_finite_leaves_running_statistics(tmp_path):
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(),
                          nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 10))
    file = penstock.export(model, (torch.randn(4, 16),), tmp_path / "model.pt2")
    data = vectors(tmp_path, "input", 16, torch.float32)
    plan = write_plan(tmp_path, file, data, ["", "3"], 2, 4)
    with pipeline(plan) as pipe:
        undisturbed = feed(pipe, plan, 3)
        final = pipe.state_dict()
    with pipeline(plan) as pipe:
        losses = feed(pipe, plan, 1)
        before = pipe.state_dict()
        inputs, target = next(batches(plan))
        with pytest.raises(penstock.LossNotFinite):
            pipe.step(inputs["input"] * math.nan, target=target)
        assert all(pipe.state_dict()[name].equal(tensor) for name, tensor in before.items())
        assert losses + feed(pipe, plan, 2) == undisturbed
        assert all(pipe.state_dict()[name].equal(tensor) for name, tensor in final.items())
        assert any(name.endswith("running_mean") for name in final)


def test_a_slow_script_is_named_once(tmp_path, capfd):
    plan = good_plan(tmp_path)
    said, slow = "", f"warning: process {os.getpid()} ("
    with pipeline(plan, patience=1) as pipe:
        deadline = time.monotonic() + 60
        while slow not in said and time.monotonic() < deadline:
            time.sleep(0.1)
            said += capfd.readouterr().err
        assert "has asked for nothing for 1 s after step 0: the ranks wait for it" in said
        losses = feed(pipe, plan, 1)
        time.sleep(1.5)  # as slow once more
        assert losses + feed(pipe, plan, 2) == execute_json(plan)["losses"]
    said += capfd.readouterr().err
    assert said.count(slow) == 1


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


def test_a_state_dict_has_the_modules_names_tied_ones_and_statistics_too(tmp_path):
    for name, begin in ("gpt2", "transformer.h.1"), ("resnet", "groups.1"):
        data = model_path(name).with_name(f"{name}.data.safetensors")
        plan = write_plan(tmp_path, model_path(name), data, ["", begin], 4, 2)
        with pipeline(plan, save=tmp_path / name) as pipe:
            feed(pipe, plan, 2)
            found = pipe.state_dict()
        weights = tmp_path / "weights.safetensors"
        done = export(plan, "state-dict", weights, "--checkpoint", tmp_path / name)
        assert done.returncode == 0, done.stderr
        expected = load_file(weights)
        assert found.keys() == expected.keys()
        assert all(found[key].equal(tensor) for key, tensor in expected.items())


def test_the_module_is_light():
    code = "import sys, penstock; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(penstock.__file__))}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_the_programs_are_those_of_the_build():
    from penstock.programs import program
    assert program() == BUILD / "penstock"
