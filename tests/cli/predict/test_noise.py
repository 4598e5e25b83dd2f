"""Profiles that know what times vary by: simulate --samples, and what plan makes of it."""

import json
import re

import pytest
import yaml

from planning import PENSTOCK, make_profile, plan, run
from simulating import STUDY, TIMES, refused, simulated
from simulating import run as simulate

ACTIONS = ("forward", "backward", "backward_input", "backward_weight")


def with_noise(profile, jitter, own):
    """Every unit's jitter is two values as likely; rounds of the two ranks are opposed."""
    document = json.loads(profile.read_text())
    for size in document["microbatches"]:
        size["rounds"] = [[1 - own, 1 + own] * 2, [1 + own, 1 - own] * 2]
        for unit in size["units"]:
            unit["jitter"] = {action: [1 - jitter, 1 + jitter] for action in ACTIONS}
    profile.write_text(json.dumps(document))
    return profile


SCHEDULES = ["--ranks", 2, "--data-parallel", 1, "--schedule", "gpipe,1f1b,interleaved-1f1b,zbv"]


@pytest.fixture
def noisy(tmp_path):
    """A plan for a profile that knows noise."""
    profile = with_noise(make_profile(tmp_path, "transformer-text"), 0.9, 0.5)
    done = plan(tmp_path, profile, *SCHEDULES)
    assert done.returncode == 0, done.stderr
    return tmp_path / "plan.yaml"


def test_samples_are_printed_as_mean_and_quantiles(noisy):
    done = simulate(noisy, "--samples", 200)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^samples +200 steps with drawn times: mean [\d.]+ ms, median [\d.]+ ms, "
                     r"5th percentile [\d.]+ ms, 95th [\d.]+ ms$", done.stdout, re.M)
    result = simulated(noisy, "--samples", 200)
    samples = result["samples"]
    assert samples["count"] == 200 and samples["seed"] == 0
    assert samples["p5_s"] < samples["median_s"] < samples["p95_s"]
    assert samples["p5_s"] < samples["mean_s"] < samples["p95_s"]
    assert samples["mean_s"] > result["step_s"]
    assert "samples" not in simulated(noisy)


def test_samples_depend_on_the_seed_alone(noisy):
    def drawn(*more):
        return simulated(noisy, "--samples", 50, *more)["samples"]
    assert drawn() == drawn("--seed", 0)
    assert drawn("--seed", 7) == drawn("--seed", 7) != drawn()


def test_the_page_says_what_was_drawn(noisy):
    page = noisy.parent / "page.html"
    done = simulate(noisy, "--samples", 20, "--html", page)
    assert done.returncode == 0, done.stderr
    assert "20 steps with drawn times" in page.read_text()


def test_a_profile_in_which_nothing_varies_gives_the_step_itself(tmp_path):
    profile = with_noise(make_profile(tmp_path, "transformer-text"), 0, 0)
    assert plan(tmp_path, profile, *SCHEDULES).returncode == 0
    result = simulated(tmp_path / "plan.yaml", "--samples", 1)
    samples = result["samples"]
    assert {samples[key] for key in ("mean_s", "median_s", "p5_s", "p95_s")} == {result["step_s"]}


def test_other_speeds_and_microbatches_vary_as_much(noisy):
    usual = simulated(noisy, "--samples", 50)
    fast = simulated(noisy, "--samples", 50, "--set", "speed=2")
    assert fast["samples"]["mean_s"] < usual["samples"]["mean_s"]
    assert fast["samples"]["mean_s"] > fast["step_s"]


@pytest.mark.parametrize("given", ["0", "ten", "-1", "1.5"])
def test_samples_are_counted_from_one(noisy, given):
    assert "--samples" in refused(noisy, f"--samples={given}")


def test_what_knows_no_noise_is_refused_with_the_cure(tmp_path):
    profile = make_profile(tmp_path, "transformer-text")
    assert plan(tmp_path, profile, *SCHEDULES).returncode == 0
    message = refused(tmp_path / "plan.yaml", "--samples", 10)
    assert "--samples: " in message and str(profile) in message
    assert "Profile the job again" in message
    assert "is for plans" in refused(*STUDY, *TIMES, "--samples", 10)


def test_a_seed_without_samples_is_refused(noisy):
    assert "Add --samples N" in refused(noisy, "--seed", 1)


def test_plan_expects_more_than_on_mean_times_and_says_so(noisy):
    profile = noisy.parent / "transformer-text.json"
    done = plan(noisy.parent, profile, *SCHEDULES, "--fastest", "--verbose")
    prediction = yaml.safe_load(noisy.read_text())["prediction"]
    assert prediction["expected_s"] > prediction["step_s"]
    assert re.search(r"^step .* predicted \([\d.]+ ms expected with noise\)", done.stdout, re.M)
    assert "on mean times" in re.search(r"^proof .*", done.stdout, re.M).group()
    assert re.search(r"least memory +expected$", done.stdout, re.M)
    assert "expected with noise" in run(PENSTOCK, "show", noisy).stdout
    # What simulate gives is the step on mean times, and the mean of the same 64 draws.
    result = simulated(noisy, "--samples", 64)
    assert result["step_s"] == prediction["step_s"]
    assert result["samples"]["mean_s"] == pytest.approx(prediction["expected_s"], rel=1e-12)


def test_plan_says_which_gain_is_below_the_noise(noisy):
    profile = noisy.parent / "transformer-text.json"
    simple = plan(noisy.parent, profile, *SCHEDULES).stdout
    chosen = yaml.safe_load(noisy.read_text())
    left = re.search(r"^left +(.*) on 2 ranks, \d stages each: ([\d.]+ ms) expected, ([\d.]+) % "
                     r"less, which is below the noise of ([\d.]+) %, and less simple",
                     simple, re.M)
    assert left, simple
    assert float(left.group(3)) <= float(left.group(4))
    fast = plan(noisy.parent, profile, *SCHEDULES, "--fastest").stdout
    fastest = yaml.safe_load(noisy.read_text())
    assert fastest["schedule"] == "zbv" != chosen["schedule"]
    assert f"({left.group(2)} expected with noise)" in fast
    assert fast.startswith("plan " + " " * 6 + left.group(1)) and "--fastest" not in fast


def test_plan_is_the_same_to_the_byte_in_two_runs(noisy):
    before = noisy.read_bytes()
    assert plan(noisy.parent, noisy.parent / "transformer-text.json", *SCHEDULES).returncode == 0
    assert noisy.read_bytes() == before
