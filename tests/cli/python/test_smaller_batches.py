"""evaluate and forward of fewer samples than the plan's batch, such as a DataLoader's last ones."""

import json
import math
import sys
from pathlib import Path

import pytest

from feeding import batches, feed, launchers, penstock, pipeline
from pipelines import model_path, needs_backend, torch, vectors, write_plan
from trainings import FLOAT64

pytestmark = [needs_backend,
              pytest.mark.filterwarnings("ignore:samples of a batch influence each other")]
nn, cross_entropy = torch.nn, torch.nn.functional.cross_entropy


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 8),
                         nn.Tanh(), nn.Linear(8, 5)).double()


def plan_of(folder, model, begins=("", "3"), microbatches=2, microbatch=3, **more):
    example = torch.randn(4, 6, dtype=torch.float64)
    file = penstock.export(model, (example,), folder / "model.pt2")
    data = vectors(folder, "input", 6, torch.float64, classes=5)
    return write_plan(folder, file, data, list(begins), microbatches, microbatch, **more)


def samples_of(plan, count):
    inputs, target = next(batches(plan))
    return {name: value[:count] for name, value in inputs.items()}, target[:count]


@pytest.mark.parametrize("more", [
    {"data_parallel": 2}, {"schedule": "interleaved-1f1b", "begins": ["", "1", "3", "5"],
                           "ranks": [0, 1, 0, 1]}])
def test_each_number_of_samples_is_evaluated_as_by_pytorch(tmp_path, more):
    model = network()
    plan = plan_of(tmp_path, model, **more)
    model.eval()
    with pipeline(plan) as pipe:
        for count in range(1, pipe.batch_size + 1):
            inputs, target = samples_of(plan, count)
            target[1::3] = -100
            expected = model(inputs["input"])
            (found,) = pipe.forward(**inputs).values()
            torch.testing.assert_close(found, expected, rtol=FLOAT64, atol=FLOAT64)
            assert pipe.evaluate(**inputs, target=target) == \
                pytest.approx(cross_entropy(expected, target).item(), rel=FLOAT64)


def test_it_changes_no_later_bit(tmp_path):
    plan = plan_of(tmp_path, network())
    with pipeline(plan) as pipe:
        undisturbed = feed(pipe, plan, 3)
    losses = []
    with pipeline(plan) as pipe:
        for count in (4, 1, 5):
            inputs, target = samples_of(plan, count)
            pipe.evaluate(**inputs, target=target)
            pipe.forward(**inputs)
            losses += feed(pipe, plan, 1)
    assert losses == undisturbed


def test_numbers_left_by_an_earlier_batch_do_not_matter(tmp_path):
    plan = plan_of(tmp_path, network())
    with pipeline(plan) as pipe:
        whole, targets = samples_of(plan, 6)
        inputs, target = samples_of(plan, 3)
        loss, (output,) = pipe.evaluate(**inputs, target=target), pipe.forward(**inputs).values()
        with pytest.raises(penstock.LossNotFinite):
            pipe.step(whole["input"] * math.nan, target=targets)
        assert pipe.evaluate(**inputs, target=target) == loss
        (again,) = pipe.forward(**inputs).values()
        assert again.equal(output)


class WithLoss(nn.Module):
    """Its loss is a mean over the samples that it is given, so no others can be among them."""

    def __init__(self):
        super().__init__()
        self.inside = network()

    def forward(self, input):
        return self.inside(input).square().mean()


def test_a_models_own_loss_is_that_of_the_samples(tmp_path):
    model = WithLoss()
    plan = plan_of(tmp_path, model, begins=["", "inside.3"], loss="output")
    model.eval()
    with pipeline(plan) as pipe:
        for count in range(1, 7):
            inputs, _ = samples_of(plan, count)
            assert pipe.evaluate(**inputs) == pytest.approx(model(**inputs).item(), rel=FLOAT64)


def test_the_parts_of_a_tensor_group_evaluate_fewer_samples_too(tmp_path):
    data = model_path("resnet-f64").with_name("resnet-f64.data.safetensors")
    found = []
    for parts in (1, 2):
        plan = write_plan(tmp_path, model_path("resnet-f64"), data, ["", "groups.1"], 2, 4,
                          tensor_parallel=parts)
        with pipeline(plan) as pipe:
            inputs, target = samples_of(plan, 7)
            found.append((pipe.evaluate(**inputs, target=target), pipe.forward(**inputs)))
    assert found[1][0] == pytest.approx(found[0][0], rel=FLOAT64)
    torch.testing.assert_close(found[1][1], found[0][1], rtol=FLOAT64, atol=FLOAT64)


def test_what_a_fixed_batch_cannot_take_is_said_and_nothing_was_done(tmp_path):
    plan = write_plan(tmp_path, model_path("transformer-static"), "random", [""], 2, 4)
    tokens = torch.zeros(8, 16, dtype=torch.int64)
    with pipeline(plan) as pipe:
        whole = pipe.evaluate(tokens, target=tokens)
        assert pipe.evaluate(tokens[:4], target=tokens[:4]) == pytest.approx(whole, rel=1e-6)
        with pytest.raises(penstock.InputError, match="6 samples are 2 more than whole "
                                                      "microbatches of 4"):
            pipe.evaluate(tokens[:6], target=tokens[:6])
        assert pipe.evaluate(tokens, target=tokens) == whole


def test_unequally_many_and_none_are_refused(tmp_path):
    plan = plan_of(tmp_path, network())
    with pipeline(plan) as pipe:
        x, target = samples_of(plan, 6)[0]["input"], samples_of(plan, 6)[1]
        with pytest.raises(penstock.InputError, match="input has 5 samples, target has 4: pass"):
            pipe.evaluate(x[:5], target=target[:4])
        with pytest.raises(penstock.InputError, match="input has 0 samples, the plan takes 6"):
            pipe.forward(x[:0])
        assert pipe.evaluate(x[:5], target=target[:5]) > 0


@pytest.mark.parametrize("own", [False, True])
def test_scripts_of_replicas_pass_equally_many_of_their_own(tmp_path, own):
    model = network()
    plan = plan_of(tmp_path, model, data_parallel=2)
    found = scripts(plan, 4, "5", *(["own"] if own else []))
    whole, targets = next(batches(plan))
    at = [*range(5), *range(6, 11)]
    expected = model.eval()(whole["input"][at])
    loss = cross_entropy(expected, targets[at]).item()
    assert [each["loss"] for each in found] == pytest.approx([loss] * 4, rel=FLOAT64)
    assert [each["outputs"] is None for each in found] == [False, True, True, True]
    torch.testing.assert_close(torch.tensor(found[0]["outputs"], dtype=torch.float64), expected,
                               rtol=FLOAT64, atol=FLOAT64)


def test_scripts_that_pass_unequally_many_are_told(tmp_path):
    plan = plan_of(tmp_path, network())
    for each in scripts(plan, 2, "5", "fewer on 1"):
        assert "rank 0 was given 5 samples, rank 1 4" in each["message"]


def scripts(plan, ranks, *arguments):
    command = [sys.executable, Path(__file__).with_name("evaluating_script.py"), plan, *arguments]
    done = launchers.ranks_by_hand([command] * ranks)
    assert [status for status, *_ in done] == [0] * ranks, done
    return sorted((json.loads(output) for _, output, _ in done), key=lambda each: each["rank"])
