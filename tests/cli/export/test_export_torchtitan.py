"""penstock export --format torchtitan: TorchTitan reads the file, splits the model as planned,
trains the same step."""

import json

import pytest

from exporting import TRANSFORMERS, export, require_package, run_cases, tokens
from pipelines import Reference, difference, load_file, model_path, write_plan

require_package("torchtitan")
from torchtitan.config import ConfigManager
from torchtitan.distributed import ParallelDims

LOOP, V = [0, 1, 0, 1], [0, 1, 1, 0]
TWO, FOUR = ["", "layers.1"], ["", "layers.1", "layers.2", "norm"]
REFERENCE, TEXT = TRANSFORMERS  # the second has position embeddings, of no input, and a mask
# The schedule that TorchTitan is told; zb-h1 is no schedule of torch's, and goes into a file.
CASES = {"text": (TEXT, "1f1b", "1F1B", [0, 1], TWO),
         "interleaved": (REFERENCE, "interleaved-1f1b", "Interleaved1F1B", LOOP, FOUR),
         "v": (REFERENCE, "zbv", "ZBVZeroBubble", V, FOUR),
         "file": (REFERENCE, "zb-h1", "PipelineScheduleMulti", [0, 1], TWO)}
PARTS = {0: {"tok_embeddings", "layers.0"}, 1: {"layers.1"}, 2: {"layers.2", "layers.3"},
         3: {"norm", "output"}}


@pytest.fixture(scope="module")
def titan_folder(tmp_path_factory):
    """A folder for each case with our plan, and the loss and gradients that TorchTitan got from its
    export."""
    root, cases = tmp_path_factory.mktemp("titan"), []
    for case, (model, schedule, name, ranks, begins) in CASES.items():
        folder = root / case
        folder.mkdir()
        data = tokens(folder)
        plan = write_plan(folder, model_path(model), data, begins, 4, 2, schedule, ranks=ranks)
        done = export(plan, "torchtitan", folder / "pipeline.toml")
        assert done.returncode == 0, done.stderr
        assert f'pipeline_parallel_schedule = "{name}"' in (folder / "pipeline.toml").read_text()
        assert (folder / "pipeline.csv").exists() == (name == "PipelineScheduleMulti")
        cases.append({"config": str(folder / "pipeline.toml"), "model": str(model_path(model)),
                      "settings": TRANSFORMERS[model], "data": str(data), "folder": str(folder)})
    return run_cases(root, "titan_runtime.py", cases)


def test_torchtitan_builds_the_mesh_of_tensor_groups_and_sharded_state(tmp_path):
    plan = write_plan(tmp_path, model_path("gpt"), tmp_path / "no.safetensors", ["", "blocks.1"], 4,
                      2, tensor_parallel=2, data_parallel=3, optimizer_state="sharded")
    done = export(plan, "torchtitan", tmp_path / "pipeline.toml")
    assert done.returncode == 0, done.stderr
    config = ConfigManager().parse_args([f"--job.config_file={tmp_path / 'pipeline.toml'}"])
    given = config.parallelism
    dims = ParallelDims(dp_replicate=given.data_parallel_replicate_degree,
                        dp_shard=given.data_parallel_shard_degree, cp=1,
                        tp=given.tensor_parallel_degree, pp=given.pipeline_parallel_degree, ep=1,
                        etp=1, world_size=12)  # which it compares with the product
    assert dims.tp_enabled and dims.fsdp_enabled and not dims.dp_replicate_enabled
    assert given.fsdp_reshard_after_forward == "never" and given.disable_loss_parallel


def stage_gradients(folder):
    return [load_file(file) for file in sorted(folder.glob("gradients-*.safetensors"))]


@pytest.mark.parametrize("case", CASES)
def test_torchtitan_trains_the_same_step_as_the_unsplit_model(titan_folder, case):
    folder = titan_folder / case
    reference = Reference(folder / "plan.yaml")
    loss = reference.backward(0)
    # float64: sums in another order
    assert json.loads((folder / "loss.json").read_text()) == pytest.approx(loss, rel=1e-12)
    stages = stage_gradients(folder)
    theirs = {name: gradient for stage in stages for name, gradient in stage.items()}
    assert len(theirs) == sum(map(len, stages)), "a parameter in two stages"
    expected = {name: p.grad for name, p in reference.parameters.items()}
    assert difference(theirs, expected) <= 1e-10


@pytest.mark.parametrize("case", ["interleaved", "v"])
def test_torchtitan_gives_each_stage_the_modules_that_the_plan_has(titan_folder, case):
    stages = stage_gradients(titan_folder / case)
    assert len(stages) == 4
    for stage, gradients in enumerate(stages):
        modules = {".".join(name.split(".")[:2 if name.startswith("layers") else 1])
                   for name in gradients}
        assert modules == PARTS[stage]
