"""penstock show: what is in a model or a plan."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
PENSTOCK = BUILD / "penstock"
SYNTHETIC = BUILD / "tests" / "planner" / "synthetic-profile"
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", BUILD / "tests" / "models"))


def show(path, *options):
    return subprocess.run([str(PENSTOCK), "show", str(path), *map(str, options)],
                          capture_output=True, text=True, timeout=120)


def model(name):
    path = MODELS / f"{name}.pt2"
    if not path.exists():
        pytest.skip(f"{path} is missing: the tests export it with torch from .venv")
    return path


def shown(path, *options):
    done = show(path, *options)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def row(text, name):
    """The cells of a module's row."""
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [name])


def test_the_modules_of_the_pippy_network(tmp_path):
    text = shown(model("pippy"))
    # 512*512 + 512 = 262,656; 512*1024 + 1024 = 525,312; 1024*256 + 256 = 262,400; 256*10 + 10 =
    # 2,570
    assert "parameters 1.05 M in 8 tensors" in text
    assert row(text, "layer1")[1:3] == ["525", "k"]
    # A linear layer is (2 * 256 + 1) * 10 FLOPs a sample, the one for the bias.
    assert row(text, "output_proj")[1:] == ["2.57", "k", "5.13", "k", "1"]
    assert "[batch, 512]" in text and "[batch, 10]" in text


def test_a_module_called_three_times_says_so_and_its_parameters_count_once():
    text = shown(model("iterative"))
    assert row(text, "iter_block")[1:5] == ["(3", "calls)", "1.06", "k"]  # 32*32 + 32
    assert "parameters 1.39 k in 4 tensors" in text  # and 32*10 + 10


def test_equal_layers_are_drawn_together():
    text = shown(model("transformer-text"))
    assert any(line.split()[:1] and line.split()[0].startswith("0-") and ", each" in line
               for line in text.splitlines()), text


def test_a_plan_shows_its_stages_and_what_crosses_them(tmp_path):
    path = model("pippy")
    assert subprocess.run([SYNTHETIC, path, tmp_path / "profile.json", "32", "8"]).returncode == 0
    done = subprocess.run([PENSTOCK, "plan", tmp_path / "profile.json",
                           "--split", "layer0:end,layer1:end", "--microbatches", "4",
                           "-o", tmp_path / "plan.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = shown(tmp_path / "plan.yaml")
    assert "on 3 ranks, 4 microbatches of 8 samples" in text
    for name in ["layer0", "layer1", "layer2", "output_proj"]:
        assert name in text
    lines = [line.split() for line in text.splitlines()]
    crossing = [line for line in lines if line[1:2] == ["to"]]
    # 8 samples of 512 floats are 16 KiB, of 1024 floats 32 KiB; the gradients are as large.
    assert [line[:3] + line[-4:] for line in crossing] == [
        ["0", "to", "1", "16.0", "KiB", "16.0", "KiB"],
        ["1", "to", "2", "32.0", "KiB", "32.0", "KiB"]]


def test_what_a_stage_has_of_a_divided_module_is_named(tmp_path):
    profile, plan = tmp_path / "profile.json", tmp_path / "plan.yaml"
    assert subprocess.run([SYNTHETIC, model("gpt2"), profile, "8", "2"]).returncode == 0
    assert subprocess.run([PENSTOCK, "plan", profile,
                           "--split", "transformer.h.1:beginning,transformer.ln_f:beginning",
                           "--microbatches", "4", "-o", plan], capture_output=True).returncode == 0
    text = shown(plan)
    assert "  transformer.{wte, wpe, h.0}  " in text
    assert "  transformer.h.1  " in text
    assert "  transformer.ln_f, lm_head  " in text


PLAN = """\
PLAN: 1f1b on 3 ranks, 4 microbatches of 2 samples

Stages; FLOPs and times of one microbatch; memory held throughout and per microbatch

  stage  rank  modules        operators  parameters     bytes   FLOPs  forward  backward      held\
  per microbatch
      0     0  first                  4      1.07 k  8.38 KiB  4.29 k  33.1 us   36.2 us  33.5 KiB\
        1.50 KiB
      1     1  twice                  4      1.07 k  8.38 KiB  4.29 k  23.1 us   36.2 us  33.5 KiB\
        1.50 KiB
      2     2  twice@1, head          5      1.24 k  9.70 KiB  4.95 k  45.9 us   41.8 us  38.8 KiB\
        1.67 KiB

What crosses between stages, per microbatch

  stages  value   of     is                   forward  backward
  0 to 1  add_9   first  float64 [batch, 16]    256 B     256 B
  1 to 2  add_22  twice  float64 [batch, 16]    256 B     256 B

Parameters of several stages: replicated, their gradients summed

  parameter             bytes  stages
  twice.up.weight    4.00 KiB  1, 2
  twice.up.bias         256 B  1, 2
  twice.down.weight  4.00 KiB  1, 2
  twice.down.bias       128 B  1, 2

Predicted when planned: 851 us per step, bubble 65.2 %

next       penstock simulate PLAN --html timeline.html
           penstock execute PLAN --trace measured.json
"""


def markers_plan(folder):
    """A profile and a plan of the network with markers: blocks of 16 x 32 and 32 x 16 doubles,
    AdamW."""
    path = model("markers-f64")
    subprocess.run([SYNTHETIC, path, folder / "profile.json", "8", "2"], check=True)
    done = subprocess.run([PENSTOCK, "plan", folder / "profile.json",
                           "--split", "pipe_split@0,twice@1:beginning", "--schedule", "1f1b",
                           "--microbatches", "4", "-o", folder / "plan.yaml"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "plan.yaml"


def test_a_plan_shows_every_stage_with_what_it_takes_and_what_crosses_every_cut(tmp_path):
    """By hand: 16*32 + 32 + 32*16 + 16 = 1072 parameters of 8 bytes, held four times (value,
    gradient, AdamW's two); 2 samples x 16 doubles are 256 bytes. FLOPs 2 x ((2*16+1)*32 + 32 +
    (2*32+1)*16 + 16) = 4288."""
    plan = markers_plan(tmp_path)
    assert shown(plan).replace(str(plan), "PLAN") == PLAN


def test_a_plan_whose_profile_is_gone_is_shown_without_times(tmp_path):
    plan = markers_plan(tmp_path)
    (tmp_path / "profile.json").unlink()
    done = show(plan)
    assert done.returncode == 0
    assert "profile.json" in done.stderr and "without times" in done.stderr
    assert "held" not in done.stdout and "1 to 2  add_22" in done.stdout


MODULES = """\
  module            parameters  FLOPs per sample  operators  forward  backward
  first                 1.07 k            2.14 k          4  13.1 us   26.2 us
    up                     544            1.06 k          1  4.34 us   8.67 us
    down                   528            1.04 k          1  4.29 us   8.58 us
  twice (2 calls)       1.07 k            4.29 k          8  26.2 us   52.5 us
    up (2 calls)           544            2.11 k          2  8.67 us   17.3 us
    down (2 calls)         528            2.08 k          2  8.58 us   17.2 us
  head                     170               330          1  2.77 us   5.55 us
  (all)                 2.31 k            6.76 k         13  42.1 us   84.3 us
"""


def test_a_model_with_its_profile_shows_measured_times_in_the_tree_and_its_markers(tmp_path):
    markers_plan(tmp_path)
    path = model("markers-f64")
    text = shown(path, "--profile", tmp_path / "profile.json")
    assert MODULES + "\nnext       write a job" in text
    assert "of a microbatch of 2, as profiled" in text
    for line in ["@0 before twice (linear_2)", "@1 before twice.down (linear_3)",
                 "@2 before twice.down@1 (linear_5)"]:
        assert "pipe_split " + line in text
    done = show(model("pippy"), "--profile", tmp_path / "profile.json")
    assert done.returncode == 2 and "not of the model" in done.stderr


def test_gpt3_is_read_in_a_fraction_of_its_memory_limit():
    """175 billion parameters, exported on the meta device: 300 MB are promised."""
    # A child's peak counts from the fork, so a process that is small itself starts it.
    measure = ("import resource, subprocess, sys\n"
               "subprocess.run(sys.argv[1:], check=True)\n"
               "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
               "print(used.ru_maxrss, used.ru_utime + used.ru_stime, file=sys.stderr)")
    done = subprocess.run([sys.executable, "-c", measure, PENSTOCK, "show", model("gpt3-meta")],
                          capture_output=True, text=True, check=True)
    assert "parameters 175 G in 1157 tensors" in done.stdout and "0-95, each" in done.stdout
    kibibytes, seconds = done.stderr.split()
    print(f"{int(kibibytes) / 1000:.0f} MB, {float(seconds):.2f} s of processor time")
    assert int(kibibytes) * 1024 < 300e6


@pytest.mark.parametrize("name, content, text", [
    ("model.txt", "hello", "MODEL.pt2"), ("broken.pt2", "not a zip", "broken.pt2"),
    ("model.txt", "hello", "docs/files.md"), ("missing.pt2", None, "No such file")])
def test_what_is_neither_is_refused(tmp_path, name, content, text):
    if content is not None:
        (tmp_path / name).write_text(content)
    done = show(tmp_path / name)
    assert done.returncode == 2
    assert done.stdout == "" and text in done.stderr
