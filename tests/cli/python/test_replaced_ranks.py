"""A Pipeline that survives: ranks are killed at exact places and at any time, and the script sees
the losses, weights and results of an undisturbed run."""

import itertools
import os
import random
import re
import shutil
import signal
import sys
import threading
from functools import partial

import pytest

import fed_script
from feeding import batches, feed, launchers, penstock, pipeline
from pipelines import (good_plan, load_file, needs_backend, model_path, torch, vectors,
                       write_plan)
from running import endless_plan, workers_of
from surviving import fault_list, positions
from test_launched import SCRIPT, scripts

pytestmark = needs_backend

ADAMW = {"kind": "adamw", "learning_rate": 0.01, "clip_norm": 1.0}


def call_all(pipe, plan, folder, steps, around=lambda call: call()):
    """All that a script may ask for, each with batches and rates of its own; what it is told."""
    source, told = batches(plan), []
    for step in range(1, steps + 1):
        (inputs, target), (others, other) = itertools.islice(source, 2)
        told += [around(call) for call in (
            partial(pipe.step, **inputs, target=target, learning_rate=0.01 / step),
            partial(pipe.evaluate, **others, target=other),
            partial(pipe.forward, **others),
            pipe.state_dict,
            partial(pipe.save, folder))][:-1]
    return told


def assert_equal(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if not isinstance(one, dict):
            assert one == other
            continue
        assert one.keys() == other.keys()
        assert all(torch.equal(value, other[name]) for name, value in one.items())


def saved(folder):
    """The bytes of its newest checkpoint."""
    newest = max(folder.iterdir(), key=lambda each: int(each.name.removeprefix("step-")))
    return {file.name: file.read_bytes() for file in newest.iterdir()}


def with_faults(monkeypatch, folder, faults):
    for name, file in fault_list(folder, faults).items():
        monkeypatch.setenv(name, file)


def kill(pipe, rank):
    os.kill(workers_of(pipe._server._process)[rank], signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:rank")
def test_ranks_that_are_killed_before_each_action_cost_the_script_nothing(tmp_path, monkeypatch):
    plan = endless_plan(tmp_path, optimizer=ADAMW)
    places = [(number % 3, number) for number in range(min(positions(plan)))]
    places += [(rank, place) for rank in range(3) for place in ("end", "copy")]
    steps = 2 * len(places) + 2
    with pipeline(plan) as pipe:
        undisturbed = call_all(pipe, plan, tmp_path / "whole", steps)
        assert pipe.restarts == 0
    with_faults(monkeypatch, tmp_path,
                [f"{rank} {2 * step} {at} kill" for step, (rank, at) in enumerate(places, 1)])
    with pipeline(plan, survive="local") as pipe:
        found = call_all(pipe, plan, tmp_path / "saved", steps)
        assert pipe.restarts == len(places) and pipe.steps_done == steps
    assert_equal(found, undisturbed)
    assert saved(tmp_path / "saved") == saved(tmp_path / "whole")


@pytest.mark.filterwarnings("ignore:rank")
def test_ranks_that_are_killed_at_any_time_cost_the_script_nothing(tmp_path):
    """During a call or between two of them: whichever it is, what comes out is the same."""
    plan, steps = endless_plan(tmp_path, optimizer=ADAMW), 12
    with pipeline(plan) as pipe:
        undisturbed = call_all(pipe, plan, tmp_path / "whole", steps)
    draw, number = random.Random(24), itertools.count()
    struck = {5 * step + draw.randrange(5) for step in range(steps)}  # one call in each step
    with pipeline(plan, survive="local") as pipe:
        def strike(call):
            killer = threading.Timer(draw.uniform(0, 0.02), kill, [pipe, draw.randrange(3)])
            if next(number) not in struck:
                return call()
            killer.start()
            told = call()
            killer.join()
            return told

        found = call_all(pipe, plan, tmp_path / "saved", steps, strike)
        pipe.state_dict()  # a rank killed after the last call is replaced by then
        assert pipe.restarts == steps
    assert_equal(found, undisturbed)
    assert saved(tmp_path / "saved") == saved(tmp_path / "whole")


@pytest.mark.filterwarnings("ignore:rank")
def test_after_a_loss_that_is_not_finite_and_after_load_ranks_are_replaced_too(tmp_path):
    data = vectors(tmp_path, "image", None, torch.float32, shape=[1, 28, 28])
    plan = write_plan(tmp_path, model_path("image_classifier"), data, ["", "stage1"], 2, 8,
                      data_parallel=2, optimizer=ADAMW)
    with pipeline(plan) as pipe:
        undisturbed = feed(pipe, plan, 5)
    with pipeline(plan, survive="local") as pipe:
        found = feed(pipe, plan, 3)
        pipe.save(tmp_path / "saved")
        inputs, target = next(batches(plan))
        with pytest.raises(penstock.LossNotFinite):
            pipe.step(image=inputs["image"] / 0, target=target)
        kill(pipe, 3)
        feed(pipe, plan, 1)
        pipe.load(tmp_path / "saved")
        kill(pipe, 0)
        assert found + feed(pipe, plan, 2) == undisturbed
        assert pipe.restarts == 2 and pipe.steps_done == 5


def test_a_killed_server_is_told_with_the_cure(tmp_path):
    plan = good_plan(tmp_path)
    pipe = pipeline(plan)
    feed(pipe, plan, 1)
    pipe._server._process.kill()
    with pytest.raises(penstock.RunError, match="killed by SIGKILL: start the pipeline again"):
        feed(pipe, plan, 2)


@pytest.mark.filterwarnings("ignore:rank")
def test_what_it_does_not_survive_ends_with_place_and_checkpoint(tmp_path, monkeypatch):
    plan = good_plan(tmp_path)
    with_faults(monkeypatch, tmp_path, ["1 3 2 throw"] * 2)
    pipe = pipeline(plan, survive="local", save=tmp_path / "saved", save_every=1)
    with pytest.raises(penstock.RunError, match="It failed there before") as caught:
        feed(pipe, plan, 4)
    assert (caught.value.rank, caught.value.step) == (1, 3)
    assert caught.value.action and caught.value.checkpoint.name == "step-2"
    assert load_file(tmp_path / "saved" / "step-2" / "stage-0.safetensors")


def test_the_warning_says_who_was_killed(tmp_path):
    plan = good_plan(tmp_path)
    with pipeline(plan, survive="local") as pipe:
        feed(pipe, plan, 1)
        kill(pipe, 1)
        with pytest.warns(UserWarning, match=r"^rank 1 \(process .*SIGKILL(.|\n)*goes on with"):
            pipe.state_dict()


def test_under_a_launcher_they_cost_the_scripts_nothing_either(tmp_path):
    """While a state is copied, after a step, in an action, and at any time during a call: between
    the answers to two scripts, too."""
    plan = endless_plan(tmp_path, optimizer=ADAMW)
    places = [(0, "copy"), (1, "end"), (2, 5)]
    steps = 2 * len(places) + 1
    with pipeline(plan) as pipe:
        undisturbed = fed_script.call_all(pipe, plan, steps)
    whole = saved(tmp_path / "saved")
    shutil.rmtree(tmp_path / "saved")
    faults = fault_list(tmp_path, [f"{rank} {2 * step} {at} kill"
                               for step, (rank, at) in enumerate(places, 1)])
    first, *others = scripts(plan, 3, steps, "is struck", **faults)
    assert first["told"] == undisturbed
    for other in others:
        assert numbers(other["told"]) == numbers(undisturbed)
    assert saved(tmp_path / "saved") == whole
    assert [each["restarts"] for each in (first, *others)] == [2 * len(places) + 1] * 3


def test_srun_sees_nothing_of_it(tmp_path, request):
    prefix, variables = launchers.prefix_of("srun", 3, request)
    (status, output, errors), = launchers.end_all([launchers.start(
        [*prefix, sys.executable, SCRIPT, endless_plan(tmp_path), 3, "is struck", 0],
        launchers.marked_environment(**variables))])
    assert status == 0, errors
    assert re.findall(r'"restarts": (\d+)', output) == ["2"] * 3


def numbers(told):
    return [each for each in told if isinstance(each, float)]


def test_other_ways_to_survive_are_refused(tmp_path):
    with pytest.raises(penstock.InputError, match='survive is True: give "off", "local" or "auto"'):
        pipeline(good_plan(tmp_path), survive=True)
