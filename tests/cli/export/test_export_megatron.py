"""penstock export --format megatron: Megatron's own code reads the line as the plan means it."""

import argparse
import csv
import itertools
import shlex
import warnings

import pytest

from exporting import export, require_package, tokens
from pipelines import model_path, torch, write_plan

require_package("megatron")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Megatron's, about kernels that are not installed
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel.schedules import (get_pp_rank_microbatches,
                                                           get_schedule_table)
    from megatron.core.transformer.enums import LayerType
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
    from megatron.core.transformer.transformer_config import TransformerConfig

LAYERS = 4
# schedule, ranks, microbatches, and where the stages of the four-layer transformer begin
CASES = {"uneven": ("1f1b", 2, 8, ["", "layers.1"]),
         "repeated": ("1f1b", 6, 8, ["", "layers.0", "layers.1", "layers.2", "layers.3", "norm"]),
         "fewer microbatches than ranks": ("1f1b", 3, 2, ["", "layers.1", "layers.3"]),
         "interleaved": ("interleaved-1f1b", 2, 8, ["", "layers.0", "layers.2", "norm"]),
         "rounds of three": ("interleaved-1f1b", 2, 3, ["", "layers.0", "layers.1", "layers.3"])}


def plan_of(folder, case, **more):
    schedule, ranks, microbatches, begins = CASES[case]
    return write_plan(folder, model_path("transformer-f64"), tokens(folder), begins, microbatches,
                      2, schedule, ranks=[stage % ranks for stage in range(len(begins))], **more)


def arguments(plan, out):
    """The exported line as Megatron-LM's parser reads it: these names, types and defaults are its
    own."""
    done = export(plan, "megatron", out)
    assert done.returncode == 0, done.stderr
    line = out.read_text()
    assert line.count("\n") == 1 and line in done.stdout + "\n"
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("pipeline-model-parallel-size", "num-layers",
                 "tensor-model-parallel-size",
                 "micro-batch-size", "global-batch-size", "recompute-num-layers",
                 "microbatch-group-size-per-virtual-pipeline-stage"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--pipeline-model-parallel-layout")
    parser.add_argument("--recompute-granularity", choices=["full", "selective"])
    parser.add_argument("--recompute-method", choices=["uniform", "block"])
    for name in ("untie-embeddings-and-output-weights", "sequence-parallel",
                 "use-distributed-optimizer"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args(shlex.split(line))


def config_of(args):
    """Megatron's config, which checks the layout against the rest."""
    return TransformerConfig(
        num_layers=args.num_layers, hidden_size=32, num_attention_heads=4,
        pipeline_dtype=torch.float64,
        pipeline_model_parallel_size=args.pipeline_model_parallel_size,
        tensor_model_parallel_size=args.tensor_model_parallel_size or 1,
        sequence_parallel=args.sequence_parallel,
        pipeline_model_parallel_layout=args.pipeline_model_parallel_layout,
        microbatch_group_size_per_vp_stage=args.microbatch_group_size_per_virtual_pipeline_stage,
        recompute_granularity=args.recompute_granularity, recompute_method=args.recompute_method,
        recompute_num_layers=args.recompute_num_layers)


def planned_stages(begins):
    """What each stage of the plan holds: embedding, layers by number, output."""
    starts = {"": 0, "norm": 1 + LAYERS} | {f"layers.{i}": 1 + i for i in range(LAYERS)}
    pieces = ["embedding", *range(LAYERS), "loss"]
    bounds = [starts[begin] for begin in begins] + [len(pieces)]
    return [pieces[first:end] for first, end in itertools.pairwise(bounds)]


def megatron_stages(layout, ranks):
    """The same as Megatron's layout has it, stage after stage."""
    chunks = layout.virtual_pipeline_model_parallel_size
    parallel_state.set_virtual_pipeline_model_parallel_world_size(chunks if chunks > 1 else None)
    stages = []
    for chunk in range(chunks):
        for rank in range(ranks):
            kinds = layout.layout[rank][chunk]
            stages.append(["embedding"] * kinds.count(LayerType.embedding) +
                          layout.get_layer_id_list(vp_stage=chunk, pp_rank=rank) +
                          ["loss"] * kinds.count(LayerType.loss))
    return stages


@pytest.fixture(autouse=True)
def no_parallel_state():
    yield
    parallel_state.set_virtual_pipeline_model_parallel_world_size(None)
    parallel_state.set_pipeline_model_parallel_world_size(None)
    parallel_state.set_pipeline_model_parallel_rank(None)


@pytest.mark.parametrize("case", CASES)
def test_megatron_reads_the_stages_of_the_plan(tmp_path, case):
    _, ranks, microbatches, begins = CASES[case]
    args = arguments(plan_of(tmp_path, case), tmp_path / "megatron.txt")
    assert args.pipeline_model_parallel_size == ranks
    layout = config_of(args).pipeline_model_parallel_layout
    assert isinstance(layout, PipelineParallelLayerLayout)
    assert megatron_stages(layout, ranks) == planned_stages(begins)
    assert (args.micro_batch_size, args.global_batch_size) == (2, 2 * microbatches)
    assert args.untie_embeddings_and_output_weights  # this transformer has two weights


def megatron_order(config, ranks, chunks, microbatches, rank):
    """F and B of a rank: Megatron's tables, in its warm-up, one-F-one-B and cool-down."""
    parallel_state.set_pipeline_model_parallel_world_size(ranks)
    parallel_state.set_pipeline_model_parallel_rank(rank)
    parallel_state.set_virtual_pipeline_model_parallel_world_size(chunks if chunks > 1 else None)
    group = config.microbatch_group_size_per_vp_stage
    _, _, warm_up, remaining = get_pp_rank_microbatches(microbatches, chunks, group)
    table = get_schedule_table(microbatches, chunks, group)
    forward = [f"{chunk * ranks + rank}F{m}" for m, chunk in table]
    backward = [f"{(chunks - 1 - chunk) * ranks + rank}B{m}" for m, chunk in table]
    steady = [action for i in range(remaining) for action in (forward[warm_up + i], backward[i])]
    return forward[:warm_up] + steady + backward[remaining:]


@pytest.mark.parametrize("case", CASES)
def test_megatron_runs_the_schedule_of_the_plan(tmp_path, case):
    _, ranks, microbatches, begins = CASES[case]
    plan = plan_of(tmp_path, case)
    config = config_of(arguments(plan, tmp_path / "megatron.txt"))
    assert export(plan, "torch-csv", tmp_path / "schedule.csv").returncode == 0
    for rank, row in enumerate(csv.reader((tmp_path / "schedule.csv").open())):
        ours = [cell for cell in row if cell]
        assert ours == megatron_order(config, ranks, len(begins) // ranks, microbatches, rank)


def test_recomputation_is_in_chunks_that_fit_the_layers_of_every_stage(tmp_path):
    schedule, _, microbatches, _ = CASES["uneven"]
    plan = write_plan(tmp_path, model_path("transformer-f64"), tokens(tmp_path), ["", "layers.2"],
                      microbatches, 2, schedule)
    plan.write_text(plan.read_text().replace("rank:", "recompute: true\n  rank:"))
    config = config_of(arguments(plan, tmp_path / "megatron.txt"))
    assert (config.recompute_granularity, config.recompute_method) == ("full", "uniform")
    layout = config.pipeline_model_parallel_layout
    for rank in range(2):
        layers = layout.get_num_layers_to_build(vp_stage=0, pp_rank=rank)
        assert layers == config.recompute_num_layers == 2  # one chunk, as the stage is for us


COLUMNS_AND_ROWS = {"token_embedding.weight": {"split": 0},
                    "*.qkv.weight": {"split": 0, "blocks": 3}, "*.projection.weight": {"split": 1},
                    "*.mlp.0.weight": {"split": 0}, "*.mlp.2.weight": {"split": 1},
                    "head.weight": {"split": 0}}


@pytest.mark.parametrize("between, sequence_parallel", [({"split": 1}, True), ("whole", False)])
def test_tensor_groups_and_sharded_state_are_what_megatron_has(tmp_path, between,
                                                               sequence_parallel):
    plan = write_plan(tmp_path, model_path("gpt"), tmp_path / "no.safetensors", ["", "blocks.1"], 4,
                      2, tensor_parallel=2, data_parallel=2, optimizer_state="sharded",
                      sharding={"parameters": COLUMNS_AND_ROWS, "values": {"blocks.*": between}})
    done = export(plan, "megatron", tmp_path / "megatron.txt")
    assert done.returncode == 0 and "in its own way" not in done.stdout, done.stdout + done.stderr
    args = arguments(plan, tmp_path / "megatron.txt")
    config = config_of(args)
    assert config.tensor_model_parallel_size == 2 and args.use_distributed_optimizer
    assert config.sequence_parallel == sequence_parallel


def test_what_tensor_groups_hold_otherwise_is_said(tmp_path):
    held = COLUMNS_AND_ROWS | {"head.weight": {"split": 1}, "*.projection.weight": "whole"}
    plan = write_plan(tmp_path, model_path("gpt"), tmp_path / "no.safetensors", [""], 4, 2,
                      tensor_parallel=2, sharding={"parameters": held})
    done = export(plan, "megatron", tmp_path / "megatron.txt")
    words = " ".join(done.stdout.split())
    assert ("without the plan's layouts of blocks.*.attention.projection.weight, head.weight: "
            "Megatron splits them in its own way") in words, done.stdout + done.stderr
