"""What a run records step by step: --metrics, --tensorboard and the line on a terminal, each beside
what --json says."""

import json
import re
import signal
import subprocess
import time

import numpy as np
import pytest

from pipelines import (PENSTOCK, any_device, clean_environment, device_flags, execute,
                       execute_json, good_plan, model_path, needs_backend, text_file, torch,
                       write_plan)
from running import endless_plan, running
from terminals import on_terminal

event_accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator",
    reason="tools/requirements-test.txt has tensorboard")

pytestmark = needs_backend
COSINE = {"kind": "adamw", "learning_rate": 0.01, "clip_norm": 1, "warmup_steps": 2,
          "decay": "cosine", "final_learning_rate": 0.001}


def lines_of(path):
    text = path.read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def text_plan(folder, **more):
    """GPT-2 on two ranks, trained on windows of text."""
    return write_plan(folder, model_path("gpt2-bytes"), text_file(folder),
                      ["", "transformer.h.1"], 2, 2, sequence=32, optimizer=COSINE, steps=5, **more)


def learning_rates(steps):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=COSINE["learning_rate"])
    schedule = pytest.importorskip("transformers").get_cosine_with_min_lr_schedule_with_warmup(
        optimizer, 2, 5, min_lr=0.001)
    for _ in range(steps):
        yield schedule.get_last_lr()[0]
        optimizer.step()
        schedule.step()


def test_a_line_a_step_has_what_the_report_has(tmp_path):
    plan, metrics = text_plan(tmp_path), tmp_path / "metrics.jsonl"
    run = execute_json(plan, "--metrics", metrics)
    lines = lines_of(metrics)
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5]
    for key, told in (("loss", "losses"), ("gradient_norm", "gradient_norms"),
                      ("step_s", "step_s")):
        assert [line[key] for line in lines] == run[told]
    assert [line["learning_rate"] for line in lines] == pytest.approx(list(learning_rates(5)))
    for line in lines:
        assert line["tokens_per_s"] == pytest.approx(4 * 32 / line["step_s"])  # 4 windows of 32
        assert len(line["peak_memory_bytes"]) == 2
    assert lines[-1]["peak_memory_bytes"] == run["peak_memory_bytes"]


@any_device
def test_the_bubble_is_the_time_that_is_not_compute(tmp_path):
    """Of one rank, whose step and compute the report has for the median step."""
    plan = write_plan(tmp_path, model_path("pippy"), good_plan(tmp_path).with_name(
        "data.safetensors"), [""], 2, 4)
    run = execute_json(plan, "--steps", 5, "--metrics", tmp_path / "m.jsonl")
    (line,) = [line for line in lines_of(tmp_path / "m.jsonl")
               if line["step_s"] == run["measured_step_s"]]
    assert line["bubble"] == pytest.approx(1 - run["compute_s"][0] / line["step_s"])
    assert "samples_per_s" in line and "gradient_norm" not in line


def scalars(folder):
    """By tag the (step, value) that TensorBoard shows."""
    events = event_accumulator.EventAccumulator(str(folder)).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)]
            for tag in events.Tags()["scalars"]}


def flat(line):
    for key, value in line.items():
        for rank, one in enumerate(value if isinstance(value, list) else ()):
            yield f"{key}/rank_{rank}", one
        if not isinstance(value, list) and key != "step":
            yield key, value


def tags_of(lines):
    """The same of lines of --metrics; TensorBoard has numbers of 32 bits."""
    expected = {}
    for line in lines:
        for tag, value in flat(line):
            expected.setdefault(tag, []).append((line["step"], float(np.float32(value))))
    return expected


def test_tensorboard_reads_the_numbers_of_every_step(tmp_path):
    execute_json(text_plan(tmp_path), "--metrics", tmp_path / "m.jsonl", "--tensorboard",
                 tmp_path / "board")
    found = scalars(tmp_path / "board")
    assert found == tags_of(lines_of(tmp_path / "m.jsonl"))
    assert {"loss", "gradient_norm", "learning_rate", "step_s", "tokens_per_s", "bubble",
            "peak_memory_bytes/rank_0", "peak_memory_bytes/rank_1"} == found.keys()


def test_a_resumed_run_goes_on_after_the_steps_that_were_done(tmp_path):
    """The run before went on for two steps after its checkpoint, and was cut off in a line."""
    plan, metrics = text_plan(tmp_path), tmp_path / "m.jsonl"
    record = ["--metrics", metrics, "--tensorboard", tmp_path / "board"]
    execute_json(plan, "--steps", 4, "--save", tmp_path / "saved", "--save-every", 2, *record)
    before = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(before) + '{"step":5,"lo')
    execute_json(plan, "--resume", tmp_path / "saved" / "step-2", *record)
    after = metrics.read_text().splitlines(keepends=True)
    assert after[:2] == before[:2] and after[2:4] != before[2:4]
    lines = lines_of(metrics)
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5]
    assert scalars(tmp_path / "board") == tags_of(lines)


def test_another_run_begins_its_files_anew(tmp_path):
    plan, metrics = good_plan(tmp_path), tmp_path / "m.jsonl"
    record = ["--metrics", metrics, "--tensorboard", tmp_path / "board"]
    execute_json(plan, "--steps", 3, *record)
    execute_json(plan, "--steps", 2, *record)
    lines = lines_of(metrics)
    assert [line["step"] for line in lines] == [1, 2]
    assert scalars(tmp_path / "board") == tags_of(lines)


@pytest.mark.parametrize("text, place", [("a shopping list\n", "m.jsonl:1"),
                                         ('{"step": 1}\n{"epoch": 2}\n', "m.jsonl:2")])
def test_a_resumed_run_does_not_go_on_in_a_file_of_another_kind(tmp_path, text, place):
    plan, metrics = good_plan(tmp_path), tmp_path / "m.jsonl"
    execute_json(plan, "--steps", 2, "--save", tmp_path / "saved")
    metrics.write_text(text)
    done = execute(plan, "--resume", tmp_path / "saved", "--metrics", metrics)
    assert done.returncode == 2 and place in done.stderr and "--metrics" in done.stderr
    assert metrics.read_text() == text


def test_forwards_have_times_and_memory(tmp_path):
    execute_json(good_plan(tmp_path), "--forward-only", "--output", tmp_path / "o.safetensors",
                 "--metrics", tmp_path / "m.jsonl")
    (line,) = lines_of(tmp_path / "m.jsonl")
    assert set(line) == {"step", "step_s", "samples_per_s", "bubble", "peak_memory_bytes"}


def test_lines_are_there_whole_while_the_run_goes_on(tmp_path):
    plan, metrics = good_plan(tmp_path), tmp_path / "m.jsonl"
    command = [PENSTOCK, "execute", plan, "--steps", "1000000", "--metrics", metrics]
    process = subprocess.Popen([*map(str, command), *device_flags(plan)],
                               stderr=subprocess.DEVNULL, env=clean_environment())
    try:
        seen = ""
        while seen.count("\n") < 5 and process.poll() is None:
            seen = metrics.read_text() if metrics.exists() else ""
            time.sleep(0.01)
        assert process.poll() is None and seen.endswith("\n")
        assert [json.loads(line)["step"] for line in seen.splitlines()[:5]] == [1, 2, 3, 4, 5]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    lines_of(metrics)


def test_a_trace_that_cannot_be_written_costs_nothing_else(tmp_path):
    traces, saved = tmp_path / "traces", tmp_path / "saved"
    traces.mkdir()
    plan = endless_plan(tmp_path, steps=60)
    with running(plan, "--trace", traces / "trace.json", "--survive", "local", "--save", saved,
                 "--json") as process:
        traces.rmdir()
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 2 and f"{traces}/trace.json: cannot be written" in errors
    assert len(json.loads(output)["losses"]) == 60
    assert [path.name for path in saved.iterdir()] == ["step-60"]


def test_a_full_disk_ends_the_record_and_not_the_training(tmp_path, mount_disk):
    disk = mount_disk(tmp_path / "disk", "8k")
    (disk / "filler").write_bytes(bytes(4096))
    done = execute(good_plan(tmp_path), "--steps", 60, "--metrics", disk / "m.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["losses"]) == 60
    assert done.stderr.count("cannot be written: No space left on device") == 1
    assert "Training goes on without it." in done.stderr
    steps = [line["step"] for line in lines_of(disk / "m.jsonl")]
    assert steps == list(range(1, len(steps) + 1)) and 0 < len(steps) < 60


def test_metrics_do_not_go_to_standard_output_which_has_the_report(tmp_path, standard_output):
    done = execute(good_plan(tmp_path), "--metrics", standard_output)
    assert done.returncode == 2
    assert f"--metrics: {standard_output} is standard output" in done.stderr


def test_a_terminal_shows_loss_time_and_what_is_left(tmp_path):
    text = on_terminal(80, PENSTOCK, "execute", text_plan(tmp_path), cwd=tmp_path)
    drawn = re.findall(r"\r\x1b\[K(\[.*?) *(?=\r)", text)
    assert len(drawn) == 4  # the last step is a line of its own
    for step, line in enumerate(drawn, 1):
        assert re.match(rf"\[[=-]{{10}}\]  {20 * step} %  \d+:\d\d left  step {step}/5  "
                        r"loss \d\.\d+  \S+ m?s/step  gradient ", line), line
        assert len(line) < 80
