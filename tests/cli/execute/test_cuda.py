"""What `--device cuda` says where it cannot be had; with a GPU, that it trains like the CPU."""

import json
import shutil
import subprocess

import pytest
import yaml

from gpus import has_driver
from pipelines import (BUILD, clean_environment, difference, execute, execute_json, good_plan,
                       load_file, model_path, needs_backend, torch, vectors, write_plan)

pytestmark = needs_backend

MODULE = BUILD / "penstock-cuda.so"
needs_module = pytest.mark.skipif(not MODULE.exists(),
                                  reason="penstock-cuda.so is not built: no CUDA headers")


def refused(done, *says):
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    message = done.stderr.strip()
    assert message.count("\n") <= 1, message
    for text in ("--device cuda", *says):
        assert text in message


@needs_module
@pytest.mark.skipif(has_driver(), reason="this machine has NVIDIA's driver")
@pytest.mark.parametrize("flags", [[], ["--ranks-per-device", "2"]])
def test_a_machine_without_a_driver_is_one_message(tmp_path, flags):
    refused(execute(good_plan(tmp_path), "--device", "cuda", *flags), "libcuda.so.1", "CUDA 13.0",
            "--device cpu")


def test_a_build_without_the_module_is_one_message(tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("penstock", "penstock-worker"):
        shutil.copy(BUILD / name, programs)
    done = subprocess.run([programs / "penstock", "execute", good_plan(tmp_path),
                           "--device", "cuda"], capture_output=True, text=True, timeout=60,
                          env=clean_environment())
    refused(done, str(programs / "penstock-cuda.so"), "-Dcuda=enabled")


def test_a_module_that_cannot_be_loaded_is_one_message(tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("penstock", "penstock-worker"):
        shutil.copy(BUILD / name, programs)
    (programs / "penstock-cuda.so").write_text("no library\n")
    done = subprocess.run([programs / "penstock", "execute", good_plan(tmp_path),
                           "--device", "cuda"], capture_output=True, text=True, timeout=60,
                          env=clean_environment())
    refused(done, "cannot load its module", "tools/build")


@pytest.mark.gpu
@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1"])
def test_two_ranks_on_one_gpu_train_like_the_cpu(tmp_path, schedule):
    """In float64 a sum of n = 48 products in another order differs by at most n x 1.1e-16 of the
    sum of their absolute values: 5e-15, in each of some ten layers on the way. A factor 1000 is for
    what cancels in a sum."""
    data = vectors(tmp_path, "x", 32, torch.float64)
    plan = write_plan(tmp_path, model_path("pippy-f64"), data, ["", "layer2"], 4, 2,
                      schedule=schedule)
    gradients = {}
    losses = {}
    for device in ("cpu", "cuda"):
        file = tmp_path / f"{device}.safetensors"
        flags = ["--ranks-per-device", "2"] if device == "cuda" else []
        result = execute_json(plan, "--device", device, *flags, "--dump-gradients", file)
        losses[device], gradients[device] = result["losses"], load_file(file)
    # The last was the GPU's; a CPU reserves nothing.
    assert all(0 < peak <= reserved for peak, reserved in
               zip(result["peak_memory_bytes"], result["peak_reserved_bytes"], strict=True))
    assert losses["cuda"] == pytest.approx(losses["cpu"], rel=1e-10)
    assert difference(gradients["cuda"], gradients["cpu"]) < 1e-10


@pytest.mark.gpu
@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1", "interleaved-1f1b"])
def test_cuda_graphs_train_as_without(tmp_path, schedule):
    """The same kernels on the same numbers: not even a sum is in another order."""
    data = vectors(tmp_path, "x", 32, torch.float64)
    ranks = [0, 1, 0, 1] if schedule.startswith("interleaved") else None
    begins = ["", "layer1", "layer2", "output_proj"] if ranks else ["", "layer2"]
    plan = write_plan(tmp_path, model_path("pippy-f64"), data, begins, 4, 2, schedule=schedule,
                      ranks=ranks)
    runs, saved = {}, {}
    for graphs in ("off", "on"):
        folder = tmp_path / graphs
        runs[graphs] = execute_json(plan, "--device", "cuda", "--ranks-per-device", "2",
                                    "--cuda-graphs", graphs, "--steps", "5", "--save", folder)
        saved[graphs] = {key: value for file in sorted(folder.glob("step-5/stage-*.safetensors"))
                         for key, value in load_file(file).items()}
        assert [rank["on"] for rank in runs[graphs]["cuda_graphs"]] == [graphs == "on"] * 2
    assert runs["on"]["losses"] == runs["off"]["losses"]
    assert saved["on"] and saved["on"].keys() == saved["off"].keys()
    assert all(torch.equal(value, saved["off"][key]) for key, value in saved["on"].items())


def profiled(folder, device, *flags):
    """The profile of a job that can be trained, and where it is."""
    job, profile = folder / "job.yaml", folder / "profile.json"
    job.write_text(yaml.safe_dump({
        "penstock": "job", "model": str(model_path("pippy")), "loss": "cross_entropy",
        "data": str(vectors(folder, "x", 512, torch.float32)), "global_batch": 16,
        "optimizer": {"kind": "sgd", "learning_rate": 0.05}}))
    done = subprocess.run([BUILD / "penstock", "profile", job, "--device", device, *flags,
                           "-o", profile], capture_output=True, text=True, timeout=300,
                          env=clean_environment())
    assert done.returncode == 0, done.stderr
    return json.loads(profile.read_text()), profile


def check_one_stage_is_predicted(folder, profile, device):
    """A plan of one rank needs no link, so none has to be in the profile."""
    plan = folder / "plan.yaml"
    done = subprocess.run([BUILD / "penstock", "plan", profile, "--ranks", "1", "-o", plan],
                          capture_output=True, text=True, timeout=120, env=clean_environment())
    assert done.returncode == 0, done.stderr
    run = execute_json(plan, "--device", device, "--steps", "5")
    assert run["predicted_step_s"] > 0 and run["predicted_peak_memory_bytes"][0] > 0


def test_a_profile_of_one_rank_is_enough_for_a_plan_of_one(tmp_path):
    measured, profile = profiled(tmp_path, "cpu", "--ranks", "1", "--quick")
    assert measured["links"] == []
    check_one_stage_is_predicted(tmp_path, profile, "cpu")


@pytest.mark.gpu
def test_a_gpu_is_profiled_and_planned_for(tmp_path):
    measured, profile = profiled(tmp_path, "cuda")
    assert measured["device"]["kind"] == "cuda" and measured["device"]["memory_bytes"] > 2**30
    check_one_stage_is_predicted(tmp_path, profile, "cuda")


@pytest.mark.gpu
def test_two_ranks_on_one_gpu_are_profiled_with_their_link(tmp_path):
    measured, _ = profiled(tmp_path, "cuda", "--ranks", "2", "--ranks-per-device", "2")
    assert "nccl" in [link["kind"] for link in measured["links"]]


@pytest.mark.gpu
def test_too_few_gpus_are_one_message(tmp_path):
    data = vectors(tmp_path, "x", 32, torch.float64)
    many = torch.cuda.device_count() + 1
    plan = write_plan(tmp_path, model_path("pippy-f64"), data,
                      ["", "layer1", "layer2", "output_proj"][:many], 4, 2)
    if many > 4:
        pytest.skip("this machine has more GPUs than the model has stages")
    refused(execute(plan, "--device", "cuda"), "--ranks-per-device", str(many))
