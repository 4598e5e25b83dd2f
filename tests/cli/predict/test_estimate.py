"""penstock profile --device estimate: plans without a device, fits to a measured profile, and what
is refused."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
PENSTOCK = BUILD / "penstock"
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", BUILD / "tests" / "models"))
DEVICES = ROOT / "configs" / "devices"
H100 = DEVICES / "h100.yaml"
ACTIONS = ["forward", "backward", "backward_input", "backward_weight"]

needs_worker = pytest.mark.skipif(not (BUILD / "penstock-worker").exists(),
                                  reason="penstock-worker is not built: it needs LibTorch")


def model(name):
    path = MODELS / f"{name}.pt2"
    if not path.exists():
        pytest.skip(f"{path} is missing: the tests export it with torch from .venv")
    return path


def write_job(folder, name="gpt-meta", batch=8, loss="cross_entropy"):
    path = folder / "job.yaml"
    path.write_text(f"penstock: job\nmodel: {model(name)}\nloss: {loss}\n"
                    f"optimizer: {{kind: adamw, learning_rate: 1e-3}}\nglobal_batch: {batch}\n")
    return path


def run(*arguments):
    return subprocess.run([str(PENSTOCK), *map(str, arguments)], capture_output=True, text=True,
                          timeout=120)


def estimate(folder, *more, spec=H100, output="profile.json", **job):
    return run("profile", write_job(folder, **job), "--device", "estimate", "--spec", spec, "-o",
               folder / output, *more)


def profile_of(folder, *more, **options):
    done = estimate(folder, *more, **options)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / options.get("output", "profile.json")).read_text())


def test_a_model_without_weights_is_planned_and_simulated_on_a_device_that_is_not_here(tmp_path):
    done = estimate(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "estimated from the figures of NVIDIA H100 SXM" in done.stdout and done.stderr == ""
    plan = run("plan", tmp_path / "profile.json", "--ranks", 2, "--microbatches", 4,
               "-o", tmp_path / "plan.yaml")
    assert plan.returncode == 0, plan.stderr
    assert "costs      estimated from the figures of NVIDIA H100 SXM, not measured" in plan.stdout
    simulated = run("simulate", tmp_path / "plan.yaml", "--json")
    assert simulated.returncode == 0, simulated.stderr
    step_s = json.loads(simulated.stdout)["step_s"]
    predicted = next(line for line in (tmp_path / "plan.yaml").read_text().splitlines()
                     if "step_s" in line)
    assert f"{step_s:.6g}"[:6] in predicted and step_s > 0


def test_holds_every_divisor_of_the_batch_and_the_device(tmp_path):
    profile = profile_of(tmp_path, batch=12)
    assert [size["microbatch"] for size in profile["microbatches"]] == [1, 2, 3, 4, 6, 12]
    assert profile["device"]["kind"] == "cuda" and profile["device"]["memory_bytes"] == 80 * 10**9
    assert profile["device"]["details"]["source"] == "estimate"
    assert profile["device"]["details"]["spec"] == "h100.yaml"
    assert profile["links"][0]["bandwidth_bytes_per_s"] == 450e9
    assert profile["optimizer_s_per_byte"] == pytest.approx(7 / (3.35e12 * 0.8), rel=1e-12)


def test_units_are_the_sums_of_their_operators(tmp_path):
    for size in profile_of(tmp_path)["microbatches"]:
        for unit in size["units"]:
            own = size["operators"][unit["begin"]:unit["end"]]
            for action in ACTIONS:
                # The same additions in the same order.
                assert (sum(op["times"][action]["mean_s"] for op in own)
                        == unit["times"][action]["mean_s"])
            for action in ["forward", "backward", "backward_input", "backward_weight"]:
                assert (sum(op["held_bytes"][action]["net"] for op in own)
                        == unit["held_bytes"][action]["net"])


def test_is_the_same_to_the_byte_every_time(tmp_path):
    profile_of(tmp_path, output="a.json")
    profile_of(tmp_path, output="b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize("spec", sorted(path.name for path in DEVICES.glob("*.yaml")))
def test_works_with_every_device_that_is_shipped(tmp_path, spec):
    profile = profile_of(tmp_path, spec=DEVICES / spec)
    assert profile["microbatches"][0]["operators"]


def test_a_faster_memory_is_never_slower(tmp_path):
    slow = profile_of(tmp_path)
    spec = tmp_path / "fast.yaml"
    spec.write_text(H100.read_text().replace("bandwidth: 3.35TB/s", "bandwidth: 6.7TB/s"))
    fast = profile_of(tmp_path, spec=spec)
    for before, after in zip(slow["microbatches"], fast["microbatches"], strict=True):
        for old, new in zip(before["operators"], after["operators"], strict=True):
            for action in ACTIONS:
                assert new["times"][action]["mean_s"] <= old["times"][action]["mean_s"]


def test_a_link_of_samples_keeps_its_residual(tmp_path):
    samples = ", ".join(f"{{bytes: {8 ** i}, seconds: {1e-5 + 8 ** i / 1e9:.6g}}}"
                        for i in range(1, 9))
    spec = tmp_path / "d.yaml"
    spec.write_text(H100.read_text().replace("latency: 5us, bandwidth: 450GB/s",
                                             f"samples: [{samples}]"))
    link = profile_of(tmp_path, spec=spec)["links"][0]
    assert len(link["samples"]) == 8
    # Samples are written with 6 digits, of which the two that the line goes through lose 5e-7 each.
    assert link["latency_s"] == pytest.approx(1e-5, rel=1e-4)
    assert link["bandwidth_bytes_per_s"] == pytest.approx(1e9, rel=1e-4)
    assert link["residual"] <= 1e-6


def as_measured(folder, spec=H100, **job):
    """An estimate that says it was measured: a profile of known efficiencies, links taken out."""
    profile = profile_of(folder, spec=spec, output="known.json", **job)
    profile["device"]["details"] = {}
    profile["links"] = []
    path = folder / "measured.json"
    path.write_text(json.dumps(profile))
    (folder / "known.json").unlink()
    return path


def test_a_fit_finds_the_efficiencies_that_a_profile_was_made_with(tmp_path):
    other = tmp_path / "other.yaml"
    device = yaml.safe_load(H100.read_text()) | {"launch": "1us"}
    for kind in ("gemm", "elementwise"):
        device["efficiency"][kind] /= 2
    other.write_text(yaml.safe_dump(device))
    measured = as_measured(tmp_path, spec=H100, name="gpt", batch=64)
    done = estimate(tmp_path, "--fit", measured, spec=other, name="gpt", batch=64)
    assert done.returncode == 0, done.stderr
    details = json.loads((tmp_path / "profile.json").read_text())["device"]["details"]
    assert float(details["fit.residual"]) < 1e-6  # written with 6 digits
    launch = float(yaml.safe_load(H100.read_text())["launch"].removesuffix("us")) * 1e-6
    assert float(details["launch_s"]) == pytest.approx(launch, rel=1e-12)
    assert "fitted to" in done.stdout and "residual   0.0 %" in done.stdout
    plan = run("plan", tmp_path / "profile.json", "--ranks", 2, "--microbatches", 4,
               "-o", tmp_path / "plan.yaml")
    assert "the fit to what was measured on it is off by 0.0 %" in plan.stdout


MISTAKES = [
    (["--device", "estimate"], ["--spec", "missing"]),
    (["--device", "estimate", "--spec", "none.yaml"], ["none.yaml"]),
    (["--device", "estimate", "--spec", "job.yaml"], ["job.yaml", "device"]),
    (["--device", "estimate", "--spec", "broken.yaml"], ["broken.yaml", "memory"]),
    (["--device", "estimate", "--spec", str(DEVICES / "l4.yaml"), "--fit", "none.json"],
     ["none.json"]),
    (["--device", "estimate", "--spec", str(H100), "--fit", "job.yaml"], ["job.yaml"]),
    (["--device", "estimate", "--spec", str(H100), "--fit", "estimated.json"],
     ["estimated.json", "estimate"]),
    (["--device", "estimate", "--spec", str(DEVICES / "xeon_core.yaml"), "--fit", "measured.json"],
     ["measured.json", "cuda", "cpu"]),
    (["--device", "cpu", "--spec", str(H100)], ["--spec", "--device estimate"]),
    (["--device", "cpu", "--fit", "measured.json"], ["--fit", "--device estimate"]),
    (["--device", "h100"], ["--device", "h100", "estimate"]),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    profile_of(folder, output="estimated.json")
    as_measured(folder)
    (folder / "broken.yaml").write_text(H100.read_text().replace("memory: 80GB", "memory: plenty"))
    return folder


@pytest.mark.parametrize("arguments, parts", MISTAKES, ids=[" ".join(a)[-40:] for a, _ in MISTAKES])
def test_a_mistake_ends_with_one_message_and_nothing_written(files, arguments, parts):
    before = sorted(files.iterdir())
    done = subprocess.run([str(PENSTOCK), "profile", "job.yaml", *arguments, "-o", "out.json"],
                          cwd=files, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    for part in parts:
        assert part in done.stderr
    assert sorted(files.iterdir()) == before


def test_refuses_a_type_without_a_figure(tmp_path):
    spec = tmp_path / "d.yaml"
    spec.write_text(H100.read_text().replace(", bfloat16: 989.4e12", ""))
    done = estimate(tmp_path, spec=spec)  # the model is of bfloat16
    assert done.returncode == 2 and "bfloat16" in done.stderr and "d.yaml" in done.stderr
    assert not (tmp_path / "profile.json").exists()


def test_refuses_a_device_that_is_smaller_than_a_unit(tmp_path):
    spec = tmp_path / "d.yaml"
    small = H100.read_text().replace("memory: 80GB", "memory: 4KiB")
    spec.write_text(small.replace("reserved: 1GB\n", ""))
    done = estimate(tmp_path, spec=spec)
    assert done.returncode == 2 and "4.00 KiB" in done.stderr and "microbatch" in done.stderr


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A profile measured on this machine, and the estimate fitted to it."""
    folder = tmp_path_factory.mktemp("measured")
    done = run("profile", write_job(folder, "gpt"), "--ranks", 2, "-o", folder / "measured.json")
    assert done.returncode == 0, done.stderr
    fitted = profile_of(folder, "--fit", folder / "measured.json", spec=DEVICES / "xeon_core.yaml",
                        name="gpt")
    return json.loads((folder / "measured.json").read_text()), fitted


def total(profile):
    return sum(op["times"][action]["mean_s"] for size in profile["microbatches"]
               for op in size["operators"] for action in ["forward", "backward"])


@needs_worker
def test_the_fitted_estimate_is_no_further_off_than_its_residual(measured):
    """By the triangle inequality, whatever was measured; 6 digits of the residual are kept."""
    real, fitted = measured
    assert ([s["microbatch"] for s in fitted["microbatches"]]
            == [s["microbatch"] for s in real["microbatches"]])
    residual = float(fitted["device"]["details"]["fit.residual"])
    assert abs(total(fitted) / total(real) - 1) <= residual * (1 + 1e-5) + 1e-9


@needs_worker
def test_holds_what_a_run_was_measured_to_hold(measured):
    """To the byte, but for the loss's own scalars: its value, the sum of its targets' weights, its
    seed. A run sometimes frees one of them only in W, and the profile shares it out over the
    units."""
    scalars = 3 * 4
    real, fitted = measured
    for size, estimated in zip(real["microbatches"], fitted["microbatches"], strict=True):
        for unit, guess in zip(size["units"], estimated["units"], strict=True):
            for action in ["forward", "backward_weight"]:
                assert abs(unit["held_bytes"][action]["net"]
                           - guess["held_bytes"][action]["net"]) <= scalars
