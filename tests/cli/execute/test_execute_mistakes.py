"""What penstock execute refuses: exit status 2, one message, nothing written, no worker started."""

import pytest
import yaml

from pipelines import (execute, execute_json, good_plan, load_file, model_path, needs_backend,
                       save_file, torch, vectors, write_plan)

pytestmark = needs_backend


def edited(plan, change):
    content = yaml.safe_load(plan.read_text())
    change(content)
    plan.write_text(yaml.safe_dump(content, sort_keys=False))
    return plan


@pytest.mark.parametrize("change, says", [
    (lambda p: p.update(model_sha256="0" * 64), "0000"),
    (lambda p: p["stages"].append({"rank": 2, "begin": "layer3"}), "layer"),
    (lambda p: p["job"].update(global_batch=9), "9"),
    (lambda p: p["job"].update(data="missing.safetensors"), "missing.safetensors"),
    (lambda p: p["job"].update(data="."), "`.` is read as texts"),
    (lambda p: p["job"].update(model="missing.pt2"), "missing.pt2"),
    (lambda p: p.update(microbatchs=3), "microbatchs"),
    (lambda p: p.update(microbatches=-1), "-1"),
    (lambda p: p["job"]["optimizer"].update(learning_rate="fast"), "fast"),
    (lambda p: p.update(schedule="2f2b"), "2f2b"),
], ids=["fingerprint", "cut", "batch", "data", "folder", "model", "key", "range", "type",
        "schedule"])
def test_a_bad_plan_is_refused(tmp_path, change, says):
    plan = edited(good_plan(tmp_path), change)
    before = sorted(tmp_path.iterdir())
    done = execute(plan, "--dump-gradients", tmp_path / "g.safetensors")
    assert done.returncode == 2, done.stderr
    assert says in done.stderr and done.stdout == ""
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("tensors, says", [
    (lambda: {"x": torch.zeros(8, 512)}, "target"),
    (lambda: {"x": torch.zeros(8, 511), "target": torch.zeros(8).long()}, "[samples, 511]"),
    (lambda: {"x": torch.zeros(8, 512).double(), "target": torch.zeros(8).long()}, "float64"),
    (lambda: {"x": torch.zeros(8, 512), "target": torch.zeros(7).long()}, "7 samples"),
    (lambda: {"x": torch.zeros(8, 512), "target": torch.full((8,), 10)},
     "target of sample 0: target 10 is not in 0..9"),
], ids=["missing", "shape", "dtype", "samples", "class"])
def test_data_that_does_not_fit_is_named(tmp_path, tensors, says):
    plan = good_plan(tmp_path)
    save_file(tensors(), tmp_path / "data.safetensors")
    done = execute(plan, "--save", tmp_path / "c")
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("content",
                         [b"", b"\x00", b"[[[", b"penstock: plan\n", b"&a [*a]", b"\xff" * 64])
def test_garbage_is_no_plan(tmp_path, content):
    (tmp_path / "plan.yaml").write_bytes(content)
    done = execute(tmp_path / "plan.yaml")
    assert done.returncode == 2 and "plan.yaml" in done.stderr


@pytest.mark.parametrize("flags, says", [
    (["--forward-only", "--save", "o"], "--save: is for training"),
    (["--output", "o.safetensors"], "--forward-only"),
    (["--steps", "0"], "step"),
    (["--start-timeout", "0s"], "--start-timeout: 0s is out of range"),
    (["--start-timeout", "1e300s"], "--start-timeout: 1e300s is out of range"),
    (["--forward-only", "--output", "/nowhere/o.safetensors"], "/nowhere"),
    (["--save-every", "2"], "Add --save DIR"), (["--keep", "2"], "Add --save DIR"),
    (["--save", "c", "--keep", "0"], "--keep"),
    (["--device", "quantum"], "cpu or cuda"), (["--ranks-per-device", "2"], "--device cuda"),
    (["--cuda-graphs", "on"], "--device cuda"), (["--transport", "rdma"], "auto (memory"),
    (["--device", "cuda", "--cuda-graphs", "maybe"], "auto, on"),
])
def test_flags_that_make_no_sense(tmp_path, flags, says):
    done = execute(good_plan(tmp_path), *flags)
    assert done.returncode == 2 and says in done.stderr


class Phases(torch.nn.Module):
    """Has a parameter and an output of complex128."""

    def __init__(self):
        super().__init__()
        self.phase = torch.nn.Parameter(torch.randn(4, dtype=torch.complex128))

    def forward(self, x):
        z = x * self.phase
        return z.real, z


def test_what_safetensors_cannot_hold_is_refused_before_anything_runs(tmp_path):
    x = torch.randn(8, 4, dtype=torch.float64)
    torch.export.save(torch.export.export(Phases(), (x,),
                                          dynamic_shapes=({0: torch.export.Dim("batch")},)),
                      tmp_path / "model.pt2")
    save_file({"x": x, "target": torch.randint(4, (8,))}, tmp_path / "data.safetensors")
    plan = write_plan(tmp_path, tmp_path / "model.pt2", tmp_path / "data.safetensors", [""], 2, 2)
    before = sorted(tmp_path.iterdir())
    for flags, tensor in ((["--save"], "phase"), (["--dump-gradients"], "phase"),
                          (["--forward-only", "--output"], "output 1")):
        done = execute(plan, *flags, tmp_path / "out")
        assert done.returncode == 2, done.stderr
        assert (f"{flags[-1]}: {tensor} is complex128" in done.stderr
                and "view_as_complex" in done.stderr)
        assert sorted(tmp_path.iterdir()) == before
    execute_json(plan, "--steps", 1)


def test_an_infinite_loss_ends_the_run_before_the_optimizer(tmp_path):
    plan = good_plan(tmp_path)
    data = load_file(tmp_path / "data.safetensors")
    data["x"][12, 0] = float("inf")  # in step 2
    save_file(data, tmp_path / "data.safetensors")
    done = execute(plan, "--save", tmp_path / "c")
    assert done.returncode == 1
    assert "the loss of step 2 is" in done.stderr
    assert not (tmp_path / "c").exists()


def test_a_damaged_checkpoint_is_refused(tmp_path):
    plan = write_plan(tmp_path, model_path("pippy"), vectors(tmp_path, "x", 512, torch.float32),
                      ["", "layer2"], 2, 4)
    execute_json(plan, "--steps", 1, "--save", tmp_path / "c")
    file = tmp_path / "c" / "step-1" / "stage-1.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    done = execute(plan, "--resume", tmp_path / "c")
    assert done.returncode == 2
    assert "stage-1.safetensors" in done.stderr and "sha256" in done.stderr
    done = execute(plan, "--resume", tmp_path)
    assert done.returncode == 2 and "no checkpoint" in done.stderr
