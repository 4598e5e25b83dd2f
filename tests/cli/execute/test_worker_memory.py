"""What a worker process holds of a model: the weights of its own stages, and none of the
others'."""

import shutil
import sys

from pipelines import BUILD, execute, needs_backend, save_file, torch, write_plan

pytestmark = needs_backend

# In place of penstock-worker: starts it, and leaves the largest resident size of its process (KiB).
MEASURED_WORKER = """#!{python}
import os, resource, sys
process = os.fork()
if process == 0:
    os.execv({worker!r}, sys.argv)
_, status = os.waitpid(process, 0)
with open(os.path.join({folder!r}, str(process)), "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
os._exit(os.waitstatus_to_exitcode(status) & 255)
"""


def measured_programs(folder):
    """A penstock whose workers are measured; the sizes are files in `folder`/sizes."""
    folder.mkdir()
    sizes = folder / "sizes"
    sizes.mkdir()
    shutil.copy(BUILD / "penstock", folder)
    worker = folder / "penstock-worker"
    worker.write_text(MEASURED_WORKER.format(python=sys.executable,
                                             worker=str(BUILD / "penstock-worker"),
                                             folder=str(sizes)))
    worker.chmod(0o755)
    return folder / "penstock", sizes


def uneven_plan(folder, wide):
    """Two stages on two ranks: the first has 16 x 65536 weights, the second 65536 x `wide`."""
    folder.mkdir()
    module = torch.nn.Sequential(torch.nn.Linear(16, 65536, bias=False),
                                 torch.nn.Linear(65536, wide, bias=False))
    batch = torch.export.Dim("batch")
    program = torch.export.export(module, (torch.randn(2, 16),), dynamic_shapes=({0: batch},))
    torch.export.save(program, folder / "model.pt2")
    save_file({"input": torch.randn(2, 16), "target": torch.zeros(2, dtype=torch.int64)},
              folder / "data.safetensors")
    return write_plan(folder, folder / "model.pt2", folder / "data.safetensors", ["", "1"], 2, 1,
                      schedule="gpipe")


def resident_bytes(folder, wide):
    """The largest resident sizes of the two workers, in ascending order."""
    penstock, sizes = measured_programs(folder / f"programs-{wide}")
    done = execute(uneven_plan(folder / f"model-{wide}", wide), "--forward-only", "--output",
                   folder / "out.safetensors", "--steps", 1, program=penstock)
    assert done.returncode == 0, done.stderr
    return sorted(1024 * int(path.read_text()) for path in sizes.iterdir())


def test_a_worker_reads_the_weights_of_its_own_stage_alone(tmp_path):
    """The stage of 4 MiB beside one of 4 MiB, then beside one of 80 MiB: its process must not see a
    difference. Sizes of processes vary by what the system maps of LibTorch; half of those 80 MiB
    tells holding them from not."""
    equal, uneven = resident_bytes(tmp_path, 16), resident_bytes(tmp_path, 320)
    others = 65536 * 320 * 4
    assert uneven[1] - uneven[0] > others / 2  # the measure sees them where they are
    assert uneven[0] - equal[0] < others / 2
