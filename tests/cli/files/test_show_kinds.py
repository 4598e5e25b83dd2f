"""penstock show of every kind of file, and how wide reports are on a terminal."""

import json

import pytest
import yaml

from handing import MODELS, PENSTOCK, ROOT, refused, safetensors_of, succeeds
from terminals import on_terminal

MANIFEST = {"penstock": "checkpoint", "version": 1, "step": 50, "samples": 400, "seed": 7,
            "model_sha256": "ab" * 32, "optimizer": "adamw",
            "files": {"stage-0.safetensors": "00", "stage-1.safetensors": "00"}}

SHOWN = {  # what has to be said of each file, and which command takes it
    "model.pt2": (["parameters 1.05 M in 8 tensors"], "penstock profile job.yaml -o profile.json"),
    "job.yaml": (["trains     1.05 M of 1.05 M parameters", "loss       ", "optimizer  ",
                  "model.pt2\n"], "penstock profile job.yaml -o profile.json"),
    "profile.json": (["costs      estimated", "microbatch", "step alone", "link       "],
                     "penstock plan profile.json --ranks 2 -o plan.yaml"),
    "plan.yaml": (["1f1b on 2 ranks"], "penstock simulate plan.yaml --html timeline.html"),
    "cluster.yaml": (["ranks      ", "all-reduce ring, in buckets of 23.8 MiB"],
                     "penstock simulate plan.yaml --cluster cluster.yaml"),
    "device.yaml": (["device     ", "  gemm ", "  float32 "], "--spec device.yaml"),
    "trace.json": (["step       ", "  F  ", "on 2 ranks"], "penstock compare "),
    "program.csv": (["program    2 ranks, 2 stages, "], "penstock simulate --program program.csv"),
    "data.safetensors": (["tensors    2, 8 B", "  target  float32  [1]"], None),
}


@pytest.mark.parametrize("name", SHOWN)
def test_every_kind_of_file_is_shown_with_the_command_that_takes_it(folder, name):
    texts, command = SHOWN[name]
    done = succeeds(folder, "show", name)
    for text in texts:
        assert text in done.stdout
    assert (command is None) == ("next       " not in done.stdout)
    assert command is None or command in done.stdout.split("next       ")[1]
    assert done.stderr == ""


def test_a_checkpoint_shows_its_steps_and_whether_its_files_are_all_there(folder):
    manifest = folder / "saved" / "step-50" / "manifest.json"
    manifest.write_text(json.dumps(MANIFEST))
    text = succeeds(folder, "show", "saved").stdout
    for line in ("steps      50\n", "trained    50 steps, 400 samples seen, seed 7\n",
                 "optimizer  adamw\n", "missing: stage-1.safetensors"):
        assert line in text
    assert "penstock execute plan.yaml --resume saved" in text
    (manifest.parent / "stage-1.safetensors").write_bytes(b"1234")
    assert "; damaged: stage-1.safetensors\n" in succeeds(folder, "show", "saved").stdout
    (manifest.parent / "stage-1.safetensors").write_bytes(safetensors_of("parameter.y"))
    assert ", complete\n" in succeeds(folder, "show", "saved/step-50").stdout
    manifest.write_text("{}")
    refused(folder, "show", "saved", says=["manifest.json"])


def test_a_job_whose_model_and_data_are_gone_says_so(folder):
    job = yaml.safe_load((folder / "job.yaml").read_text())
    (folder / "job.yaml").write_text(yaml.safe_dump(
        {"penstock": "job", **job, "model": "gone.pt2", "data": "gone.safetensors"}))
    text = succeeds(folder, "show", "job.yaml").stdout
    assert "gone.pt2 (not there)" in text and "gone.safetensors (not there)" in text
    assert "trains     not known: " in text


def test_a_loss_is_shown_with_its_settings(folder):
    text = (folder / "job.yaml").read_text()
    (folder / "job.yaml").write_text(
        text.replace("cross_entropy", "{kind: cross_entropy, label_smoothing: 0.1}"))
    assert "loss       cross_entropy, label smoothing 0.1\n" in succeeds(folder, "show",
                                                                        "job.yaml").stdout


def test_a_profile_whose_model_is_gone_is_shown_without_the_step_on_one_device(folder):
    (folder / "model.pt2").unlink()
    done = succeeds(folder, "show", "profile.json")
    assert "step alone" not in done.stdout and "model.pt2" in done.stderr


def test_operators_of_a_profile_are_shown_where_more_is_asked_for(folder):
    assert "most expensive" not in succeeds(folder, "show", "profile.json").stdout
    assert "most expensive of" in succeeds(folder, "show", "profile.json", "--verbose").stdout


def test_simulate_names_what_it_wrote_and_what_takes_it(folder):
    done = succeeds(folder, "simulate", "plan.yaml", "--trace", "p.json", "--html", "p.html")
    assert done.stdout.endswith("\nwritten    p.json, p.html\n"
                                "next       penstock execute plan.yaml --trace measured.json\n"
                                "           penstock compare p.json measured.json\n")
    done = succeeds(folder, "simulate", "plan.yaml", "--trace", "p.json", "--set", "speed=2")
    assert done.stdout.endswith("\nwritten    p.json\n")  # nothing like it will be measured
    done = succeeds(folder, "simulate", "plan.yaml", "--trace", "p.json", "--json")
    assert done.stdout.count("\n") == 1


STUDY = ["simulate", "--schedule", "zb-h1", "--ranks", "24", "--microbatches", "32", "--forward",
         "1ms", "--backward-input", "1ms", "--backward-weight", "1ms", "--saved", "1MB",
         "--saved-weight", "1MB", "--message", "1MB", "--latency", "10us"]


def test_no_line_of_a_report_is_wider_than_the_terminal(folder):
    (folder / "saved" / "step-50" / "manifest.json").write_text(json.dumps(MANIFEST))
    (folder / "nodes.yaml").write_bytes((ROOT / "configs/clusters/a100_h100_mixed.yaml")
                                        .read_bytes())
    gpt2 = MODELS / "gpt2.pt2"
    commands = [["show", name] for name in [*SHOWN, "nodes.yaml", "saved"]]
    commands += [["show", gpt2]] if gpt2.exists() else []
    commands += [["show", "profile.json", "--verbose"], ["simulate", "plan.yaml"], STUDY,
                 ["simulate", "plan.yaml", "--cluster", "nodes.yaml", "--set", "speed=2", "--set",
                  "links.latency=2us", "--set", "schedule=gpipe"],
                 ["compare", "trace.json", "trace.json"],
                 ["plan", "profile.json", "--explain", "--verbose", "-o", "again.yaml"],
                 ["profile", "job.yaml", "--device", "estimate", "--spec", "device.yaml",
                  "--verbose", "-o", "again.json"],
                 ["export", "plan.yaml", "--format", "torch-csv", "-o", "again.csv"]]
    for command in commands:
        text = on_terminal(80, PENSTOCK, *command, cwd=folder).split("\nnext  ")[0]
        wide = [line for line in text.splitlines() if len(line) > 80 and "/" not in line]
        assert not wide, (command, wide)


def test_the_first_sixteen_ranks_are_shown_and_how_many_more_there_are(folder):
    text = succeeds(folder, *STUDY).stdout
    assert "  … and 8 more (--verbose)\n" in text
    rows = [line for line in text.splitlines() if line.split()[1:2] == line.split()[:1] != []]
    assert len(rows) == 16
    text = succeeds(folder, *STUDY, "--verbose").stdout
    assert "more (--verbose)" not in text and "\n    23  23 " in text


def test_columns_that_do_not_fit_follow_below_beside_the_first_one(folder):
    lines = on_terminal(60, PENSTOCK, *STUDY, cwd=folder).splitlines()
    headings = [line for line in lines if line.startswith("  rank ")]
    assert len(headings) == 2 and "busy" in headings[0] and "busy" not in headings[1]
    assert sum(line.startswith("    15  ") for line in lines) == 2
