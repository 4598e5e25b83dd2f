"""A script's mistakes with the Python module end in one message with the cure, and nothing stays
behind."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from feeding import batches, feed, launchers, penstock, pipeline
from pipelines import (ROOT, execute_json, good_plan, model_path, needs_backend, text_file, torch,
                       vectors, write_plan)

pytestmark = needs_backend


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mistakes")


@pytest.fixture(scope="module")
def plan(folder):
    return good_plan(folder)


@pytest.fixture(scope="module")
def pipe(plan):
    with pipeline(plan) as pipe:
        yield pipe


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    plan = write_plan(folder, model_path("transformer-text"), text_file(folder),
                      ["", "layers.1"], 2, 4, sequence=16)
    with pipeline(plan) as pipe:
        yield pipe


X, TARGET = torch.randn(8, 512), torch.randint(10, (8,))
ARGUMENTS = {
    "fewer samples": (lambda p: p.step(X[:6], target=TARGET[:6]),
                      "step: x has 6 samples, the plan takes 8: pass drop_last=True"),
    "more samples": (lambda p: p.step(X.repeat(2, 1), target=TARGET),
                     "x has 16 samples, the plan takes 8: give the DataLoader batch_size="),
    "fewer targets": (lambda p: p.step(X, target=TARGET[:5]), "target has 5 samples"),
    "one sample": (lambda p: p.step(X[0], target=TARGET), "x is one sample, [512]"),
    "shape": (lambda p: p.step(X[:, :100], target=TARGET),
              "x is [8, 100], the plan takes [8, 512]: give samples of that shape"),
    "targets as classes by one": (lambda p: p.step(X, target=TARGET.view(8, 1)),
                                  "target is [8, 1], the plan takes [8]"),
    "float64": (lambda p: p.step(X.double(), target=TARGET),
                "x is float64, the plan takes float32: convert it with .to(torch.float32)"),
    "half": (lambda p: p.evaluate(X.half(), target=TARGET), "evaluate: x is float16"),
    "ids for numbers": (lambda p: p.step(X.long(), target=TARGET), "x is int64"),
    "numbers for classes": (lambda p: p.step(X, target=TARGET.float()),
                            "target is float32, the plan takes int64"),
    "truth values": (lambda p: p.step(X, target=TARGET > 3), "target is bool"),
    "a list": (lambda p: p.step({"x": 3}, target=TARGET), "x is a int: give a torch.Tensor"),
    "text": (lambda p: p.step("x", target=TARGET), "x is a str: give a torch.Tensor"),
    "meta": (lambda p: p.step(X.to("meta"), target=TARGET), "x is on the meta device"),
    "sparse": (lambda p: p.step(X.to_sparse(), target=TARGET), "give a dense tensor"),
    "a class too high": (lambda p: p.step(X, target=TARGET + 10), "allowed are 0 to 9 and -100"),
    "a negative class": (lambda p: p.step(X, target=TARGET - 90), "target[0] is"),
    "no target": (lambda p: p.step(X), "the target is missing, which the job's loss compares"),
    "no target to evaluate": (lambda p: p.evaluate(X), "evaluate: the target is missing"),
    "no input": (lambda p: p.step(target=TARGET), "x is missing: pass it as to the model's"),
    "the target as an input": (lambda p: p.step(X, TARGET),
                               "2 inputs, but the model takes 1: x; pass the target as target="),
    "an unknown input": (lambda p: p.step(xs=X, target=TARGET),
                         "the model has no input xs; it takes x: did you mean x?"),
    "an input twice": (lambda p: p.step(X, x=X, target=TARGET), "x is given twice"),
    "a negative rate": (lambda p: p.step(X, target=TARGET, learning_rate=-1), "learning_rate is"),
    "no rate": (lambda p: p.step(X, target=TARGET, learning_rate=float("nan")), "learning_rate is"),
    "a rate as text": (lambda p: p.step(X, target=TARGET, learning_rate="1e-3"),
                       "learning_rate is '1e-3': give a number"),
    "a target of forward": (lambda p: p.forward(X, target=TARGET), "has no input target"),
    "an extra that is no JSON": (lambda p: p.step(X, target=TARGET, extra={1, 2}),
                                 "step: extra is {1, 2}, which JSON cannot hold"),
    "nowhere to save": (lambda p: p.save(), "save: no folder: pass one"),
    "an empty path": (lambda p: p.save(""), "save: '' is no path"),
    "a number for a path": (lambda p: p.load(3), "load: 3 is no path"),
    "nothing to load": (lambda p: p.load("/nowhere"), "load: /nowhere"),
    "a folder that cannot be made": (lambda p: p.save("/dev/null/saved"), "save: "),
    "pickled": (pickle.dumps, "a Pipeline cannot be copied or pickled"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_wrong_argument_is_told_and_the_pipeline_goes_on(pipe, plan, name):
    call, message = ARGUMENTS[name]
    steps = pipe.steps_done
    with pytest.raises(penstock.InputError) as caught:
        call(pipe)
    assert message in str(caught.value)
    assert pipe.steps_done == steps
    inputs, target = next(batches(plan))
    assert pipe.evaluate(**inputs, target=target) > 0


@pytest.mark.parametrize("wrong, message", [
    (lambda ids: ids + 300, "is 3"), (lambda ids: ids - 300, "allowed are 0 to")])
def test_ids_beyond_the_vocabulary_are_told_with_their_place(texts, wrong, message):
    ids = torch.randint(64, (8, 16))
    name = texts.inputs[0]
    with pytest.raises(penstock.InputError, match=f"step: {name}") as caught:
        texts.step(wrong(ids), target=ids)
    assert message in str(caught.value)
    assert texts.step(ids.to(torch.int32), target=ids) > 0  # of any width


@pytest.mark.parametrize("options, message", [
    ({"device": "tpu"}, "--device: workers cannot compute on tpu"),
    ({"resume": "/nowhere"}, "/nowhere"),
    ({"resume": ""}, "resume: '' is no path"),
    ({"save": "/dev/null/saved"}, "save"),
    ({"save_every": 3}, "save_every is given, but no folder"),
    ({"save": "saved", "save_every": -1}, "save_every is -1"),
    ({"save": "saved", "keep": 0}, "keep is 0: give a number from 1 on"),
    ({"save": "saved", "save_every": 0.5}, "save_every is 0.5")])
def test_a_wrong_option_is_told(plan, options, message):
    with pytest.raises(penstock.InputError) as caught:
        pipeline(plan, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("content, message", [
    (None, "no such file"), ("penstock: job\n", "job"), ("what: ever\n", "plan.yaml")])
def test_a_wrong_plan_is_told(tmp_path, content, message):
    plan = tmp_path / "plan.yaml"
    if content:
        plan.write_text(content)
    with pytest.raises(penstock.InputError) as caught:
        pipeline(plan)
    assert message in str(caught.value).lower()


def test_a_checkpoint_of_another_optimizer_is_told_and_the_pipeline_goes_on(tmp_path):
    plan, other = good_plan(tmp_path), good_plan(tmp_path, name="other.yaml", optimizer={
        "kind": "adamw", "learning_rate": 1e-3})
    execute_json(other, "--steps", "1", "--save", tmp_path / "saved")
    with pipeline(plan) as pipe:
        with pytest.raises(penstock.InputError, match="adamw"):
            pipe.load(tmp_path / "saved")
        assert feed(pipe, plan, 3) == execute_json(plan)["losses"]


def test_a_model_without_an_evaluation_mode_is_trained_but_not_evaluated(tmp_path):
    """Its file was not written by the exporter, which would have found what to change."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(),
                                torch.nn.Linear(16, 10))
    batch = torch.export.Dim("batch")
    program = torch.export.export(model, (torch.randn(4, 16),), dynamic_shapes=[{0: batch}])
    torch.export.save(program, tmp_path / "foreign.pt2")
    plan = write_plan(tmp_path, tmp_path / "foreign.pt2",
                      vectors(tmp_path, "input", 16, torch.float32), ["", "2"], 2, 4)
    with pipeline(plan) as pipe:
        inputs, target = next(batches(plan))
        with pytest.raises(penstock.InputError, match="foreign.pt2"):
            pipe.evaluate(**inputs, target=target)
        with pytest.raises(penstock.InputError, match="foreign.pt2"):
            pipe.forward(**inputs)
        assert feed(pipe, plan, 3) == execute_json(plan)["losses"]


@pytest.mark.parametrize("call", ["step", "evaluate", "forward", "state_dict", "save", "load"])
def test_a_closed_pipeline_says_so(plan, folder, call):
    pipe = pipeline(plan)
    pipe.close()
    pipe.close()
    arguments = {"load": [folder]}.get(call, [])
    with pytest.raises(penstock.InputError, match=f"{call}: the pipeline is closed"):
        getattr(pipe, call)(*arguments)


def test_another_thread_and_a_loaders_worker_are_refused(pipe):
    caught = []

    def call():
        try:
            pipe.state_dict()
        except penstock.InputError as error:
            caught.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "called from another thread" in caught.pop()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        call()
        os.write(write, caught.pop().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert "not in a DataLoader's worker" in os.read(read, 1000).decode()


SCRIPT = """
import os, signal, sys
sys.path[:0] = {paths!r}
import penstock, torch
pipe = penstock.Pipeline({plan!r})
x, target = torch.randn(8, 512), torch.randint(10, (8,))
pipe.step(x, target=target)
{end}
"""
ENDS = {
    "killed": "print('ready', flush=True); import time; time.sleep(300)",
    "an exception": "print('ready', flush=True); raise KeyError",
    "no close": "print('ready', flush=True)",
    "exit": "print('ready', flush=True); os._exit(0)",
    "killed beside workers of a loader": """
loader = iter(torch.utils.data.DataLoader(list(range(1000)), num_workers=2))
next(loader)
print('ready', flush=True)
import time
time.sleep(300)""",
}


def start_script(plan, end):
    environment = launchers.marked_environment()
    code = SCRIPT.format(paths=[str(ROOT / "python")], plan=str(plan), end=end)
    return launchers.start([sys.executable, "-c", code], environment), environment


@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_left_of_a_script_that_ends(plan, end):
    process, environment = start_script(plan, ENDS[end])
    assert process.stdout.readline() == "ready\n"
    if "killed" in end:
        process.kill()
    process.wait(timeout=60)
    launchers.wait_until_none_is_left(environment)


def test_ctrl_c_reaches_only_the_script_which_may_go_on(plan):
    """The terminal sends SIGINT to the script's process group."""
    process, environment = start_script(plan, """
print('ready', flush=True)
try:
    while True:
        pipe.step(x, target=target)
except KeyboardInterrupt:
    steps = pipe.steps_done
loss = pipe.step(x, target=target)
pipe.close()
print(pipe.steps_done - steps in (1, 2) and loss > 0)
""")
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.05)  # in a step, or between two
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert output == "True\n", errors
    launchers.wait_until_none_is_left(environment)


def test_a_worker_that_dies_is_named_with_the_step(tmp_path):
    plan = good_plan(tmp_path)
    pipe = pipeline(plan, save=tmp_path / "saved")
    feed(pipe, plan, 1)
    checkpoint = pipe.save()
    server = pipe._server._process.pid
    children = subprocess.run(["pgrep", "-P", str(server)], capture_output=True, text=True)
    os.kill(int(children.stdout.split()[0]), signal.SIGKILL)
    with pytest.raises(penstock.RunError, match="SIGKILL") as caught:
        feed(pipe, plan, 1)
    assert caught.value.rank in (0, 1) and caught.value.checkpoint == checkpoint
    with pytest.raises(penstock.InputError, match="is closed"):
        feed(pipe, plan, 1)


def test_a_missing_program_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.programs.os.access", lambda path, mode: False)
    with pytest.raises(penstock.InputError, match="install the wheel"):
        penstock.simulate("plan.yaml")


def test_shared_memory_is_given_back(tmp_path):
    def memories():
        return [line for line in Path("/proc/self/maps").read_text().splitlines()
                if "penstock" in line and "memfd" in line]

    gc.collect()  # of other tests
    before, descriptors = memories(), len(os.listdir("/proc/self/fd"))
    pipe = pipeline(good_plan(tmp_path))
    assert len(memories()) > len(before)
    pipe.state_dict()
    pipe.close()
    del pipe
    gc.collect()
    assert memories() == before and len(os.listdir("/proc/self/fd")) == descriptors


def test_vectors_of_the_wrong_kind_are_refused_before_anything_starts(tmp_path):
    plan = write_plan(tmp_path, model_path("pippy"), vectors(tmp_path, "x", 512, torch.float32),
                      ["", "layer1"], 2, 3)
    plan.write_text(plan.read_text().replace("microbatch: 3", "microbatch: 5"))
    with pytest.raises(penstock.InputError, match="global_batch 6 is not"):
        pipeline(plan)
