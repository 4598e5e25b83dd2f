"""The report of penstock plan: a short summary that fits its terminal, and what comes next."""

import json
import os
import re
import shlex
import sys

import pytest
import yaml

from planning import PENSTOCK, ROOT, SYNTHETIC, make_profile, plan, prediction, run
from terminals import on_terminal


def test_the_summary_is_short_and_verbose_has_the_tables(tmp_path):
    profile = make_profile(tmp_path, "transformer-text")
    short = plan(tmp_path, profile, "--ranks", 3).stdout
    long = plan(tmp_path, profile, "--ranks", 3, "--verbose").stdout
    for label in ["plan", "step", "proof", "written", "next"]:
        assert len(re.findall(rf"^{label} ", short, re.M)) == 1, label
        assert len(re.findall(rf"^{label} ", long, re.M)) == 1, label
    for text in ["searched", "least memory", "parameters", "by relaxation alone"]:
        assert text not in short and text in long, text


@pytest.mark.parametrize("columns", [80, 100])
def test_no_line_is_wider_than_the_terminal(tmp_path, columns):
    make_profile(tmp_path, "transformer-text")
    os.chdir(tmp_path)
    for more in [(), ("--explain",)]:
        text = on_terminal(columns, PENSTOCK, "plan", "transformer-text.json", "--ranks", 3,
                           "--verbose", "-o", "plan.yaml", *more)
        shown = [re.sub(r".*\x1b\[K", "", line) for line in text.replace("\r\n", "\n").split("\n")]
        assert max(map(len, shown)) <= columns, max(shown, key=len)


def test_a_message_begins_where_the_line_of_progress_was(tmp_path):
    profile = make_profile(tmp_path, "everything")
    text = on_terminal(80, PENSTOCK, "plan", profile, "--ranks", 3, "--allow-batch-coupling",
                       "-o", tmp_path / "plan.yaml")
    before = text[:text.index("warning: ")]
    assert before == "" or before.endswith(("\n", "\r\x1b[K"))


def test_the_splits_of_a_space_are_counted_in_few_digits(tmp_path):
    text = plan(tmp_path, make_profile(tmp_path, "gpt2-bytes"), "--ranks", 3, "--verbose").stdout
    assert not re.search(r"\d{8}", text.replace(str(tmp_path), "")), text


def test_layouts_that_differ_in_the_order_of_devices_alone_are_one_row(tmp_path):
    cluster = tmp_path / "mixed.yaml"
    cluster.write_text("""penstock: cluster
nodes:
  - {devices: 2, device: slow card, speed: 0.5, link: {latency: 1us, bandwidth: 10GB/s}}
  - {devices: 2, device: fast card, link: {latency: 1us, bandwidth: 10GB/s}}
network: {latency: 2us}
""")
    text = plan(tmp_path, make_profile(tmp_path, "pippy"), "--cluster", cluster,
                "--optimizer-state", "replicated", "--verbose").stdout
    table = text[text.index("least memory"):text.index("\nplan ")].splitlines()[1:]
    rows = [tuple(re.sub(r"^ *\*", "", row).split()[:7]) for row in table if " x " in row]
    assert len(rows) > 3 and len(rows) == len(set(rows))


def test_a_complete_search_does_not_say_how_far_its_plan_is_from_a_bound(tmp_path):
    text = plan(tmp_path, make_profile(tmp_path, "iterative"), "--ranks", 2).stdout
    assert "the best of its space" in text and "no plan can take less" not in text


def test_the_next_command_takes_the_plan_also_where_its_name_has_blanks(tmp_path):
    done = plan(tmp_path, make_profile(tmp_path, "pippy"), output="my plan.yaml")
    words = shlex.split(re.search(r"^next +(.*)", done.stdout, re.M).group(1))
    assert words[:3] == ["penstock", "execute", str(tmp_path / "my plan.yaml")]
    assert re.search(r"^written +(.*)", done.stdout, re.M).group(1) == words[2]
    assert run(PENSTOCK, "simulate", words[2]).returncode == 0


def test_fastest_takes_what_a_simpler_plan_left(tmp_path):
    profile = make_profile(tmp_path, "vit", sizes=(1, 2))
    simple = plan(tmp_path, profile, "--ranks", 3)
    left = re.search(r"^left .*: ([\d.]+ \w+), ([\d.]+) % less,.*--fastest", simple.stdout, re.M)
    step_s = yaml.safe_load((tmp_path / "plan.yaml").read_text())["prediction"]["step_s"]
    fast = plan(tmp_path, profile, "--ranks", 3, "--fastest")
    fastest_s = yaml.safe_load((tmp_path / "plan.yaml").read_text())["prediction"]["step_s"]
    assert left and f"step       {left.group(1)} predicted" in fast.stdout
    assert fastest_s <= step_s <= 1.01 * fastest_s
    assert float(left.group(2)) == pytest.approx(100 * (1 - fastest_s / step_s), abs=0.006)


def test_whole_modules_are_not_divided(tmp_path):
    profile = make_profile(tmp_path, "transformer-text")
    done = plan(tmp_path, profile, "--ranks", 3, "--data-parallel", 1,
                "--whole-modules", "layers.*", "--fastest")
    assert done.returncode == 0, done.stderr
    stages = yaml.safe_load((tmp_path / "plan.yaml").read_text())["stages"]
    assert len(stages) > 1
    assert not [stage for stage in stages if re.match(r"layers\.\d\.", stage.get("begin", ""))]
    wrong = plan(tmp_path, profile, "--whole-modules", "layer.*")
    assert wrong.returncode == 2
    assert "matches layer.*" in wrong.stderr and "Did you mean" in wrong.stderr


SINGLE = """import torch
class Single(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.only = torch.nn.Linear(8, 4)
    def forward(self, x):
        return self.only(x)
model = Single
def example_inputs():
    return {"x": torch.randn(4, 8)}
"""


def test_a_model_of_one_unit_is_said_not_to_be_divided(tmp_path):
    code, model, profile = (tmp_path / f"single.{end}" for end in ("py", "pt2", "json"))
    code.write_text(SINGLE)
    exported = run(sys.executable, ROOT / "tools" / "export_model.py", code, "-o", model)
    assert exported.returncode == 0, exported.stderr
    assert run(SYNTHETIC, model, profile, 8, 1, 2, 4).returncode == 0
    done = plan(tmp_path, profile, "--ranks", 2)
    assert done.returncode == 0 and "the model is one unit, which is not divided" in done.stderr
    alone = plan(tmp_path, profile, "--ranks", 1)
    assert alone.returncode == 0 and alone.stderr == ""


def cores(done):
    return re.findall(r"^cores +(.*)", done.stdout, re.M)


def test_ranks_that_share_cores_are_told_and_gain_nothing(tmp_path):
    profile = make_profile(tmp_path, "transformer-text")
    points = ("layers.0.multihead_attn", "layers.1", "layers.1.multihead_attn")
    split = ("--split", ",".join(f"{point}:beginning" for point in points), "--schedule", "gpipe",
             "--microbatches", 4)
    apart = plan(tmp_path, profile, *split, output="apart.yaml")
    assert apart.returncode == 0 and cores(apart) == [], apart.stderr
    assert cores(run(PENSTOCK, "simulate", tmp_path / "apart.yaml")) == []
    alone = json.loads(run(PENSTOCK, "simulate", tmp_path / "apart.yaml", "--json").stdout)
    content = json.loads(profile.read_text())
    content["device"] |= {"threads": 1, "cores": 2}
    profile.write_text(json.dumps(content))
    shared = plan(tmp_path, profile, *split, output="shared.yaml")
    assert cores(shared) == ["4 ranks share 2 cores"]
    step_s = float(prediction(tmp_path / "shared.yaml", "step_s"))
    assert step_s > max(alone["makespan_s"], sum(alone["busy_s"]) / 2)  # two cores do it all
    simulated = run(PENSTOCK, "simulate", tmp_path / "shared.yaml")
    assert cores(simulated) == ["4 ranks share 2 cores"]
    fewer = plan(tmp_path, profile, "--ranks", 4)
    planned = yaml.safe_load((tmp_path / "plan.yaml").read_text())
    ranks = planned.get("data_parallel", 1) * (1 + planned["stages"][-1]["rank"])
    assert ranks <= 2 and cores(fewer) == [
        f"more ranks than the machine's 2 would share them: {ranks} of 4 planned"]
