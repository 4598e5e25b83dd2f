"""Which shardings completing finds for the models that people know, at sizes at which they train:
Megatron's, with a split sequence, or better ones."""

import argparse
import json
import math
import os
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "python"))
from penstock.exporter.cpu import limit_onednn
from penstock.exporter.export import run
from penstock.exporter.source import Source

BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
PARTS, BATCH = 8, 2  # samples do not divide: a sequence has to
PRICES = {"state": 1000, "saved": 100}
MOST_STATES = 150_000  # some seconds on any machine

TEXT = "layers=2 hidden=1024 heads=16 sequence=512"
MODELS = {
    "gpt2": f"{TEXT} vocabulary=50304",
    "bert": f"{TEXT} vocabulary=30528",
    "vit": "layers=2 hidden=1024 heads=16 side=224 patch=14 classes=1000",  # 257 tokens
    "transformer": "layers=2 dim=1024 heads=16 vocabulary=32000 sequence=512 feedforward=4096 "
                   "batch_first=true causal=true positions=true dropout=0.0",
    "moe": f"{TEXT} vocabulary=32000 feedforward=4096 experts=2",
    "llama": f"{TEXT} vocabulary=32000 key_heads=8 feedforward=4096",
    "t5": f"{TEXT} vocabulary=32128 feedforward=4096",
    "unet": "levels=4 width=64 side=128",
}
# Columns and rows as Megatron has them.
MEGATRON = {
    "gpt2": {"*.c_attn.weight": "S(1, 3)", "*.attn.c_proj.weight": "S(0)",
             "*.c_fc.weight": "S(1)", "*.mlp.c_proj.weight": "S(0)"},
    "bert": {"*.query.weight": "S(0)", "*.key.weight": "S(0)", "*.value.weight": "S(0)",
             "*.attention.output.dense.weight": "S(1)", "*.intermediate.dense.weight": "S(0)",
             "*.layer.?.output.dense.weight": "S(1)"},
    "vit": {"*.in_proj_weight": "S(0, 3)", "*.out_proj.weight": "S(1)",
            "*.linear1.weight": "S(0)", "*.linear2.weight": "S(1)"},
    "moe": {"*.qkv.weight": "S(0, 3)", "*.projection.weight": "S(1)",
            "*.experts.?.0.weight": "S(0)", "*.experts.?.2.weight": "S(1)"},
    "llama": {"*.q_proj.weight": "S(0)", "*.k_proj.weight": "S(0)", "*.v_proj.weight": "S(0)",
              "*.o_proj.weight": "S(1)", "*.gate_proj.weight": "S(0)", "*.up_proj.weight": "S(0)",
              "*.down_proj.weight": "S(1)"},
    "t5": {"*.q.weight": "S(0)", "*.k.weight": "S(0)", "*.v.weight": "S(0)", "*.o.weight": "S(1)",
           "*.wi.weight": "S(0)", "*.wo.weight": "S(1)"},
    # Channels out of a convolution, and out of a transposed one.
    "unet": {"down.?.0.weight": "S(0)", "middle.0.weight": "S(0)",
             "up.?.merge.0.weight": "S(0)", "up.?.grow.weight": "S(1)"},
}
MEGATRON["transformer"] = MEGATRON["vit"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Exports on demand, without weights."""
    folder = tmp_path_factory.mktemp("models")
    limit = limit_onednn()

    def export(name):
        path = folder / f"{name}.pt2"
        if not path.exists():
            source = Source.load(str(ROOT / "configs" / "models" / f"{name}.py"),
                                 MODELS[name].split())
            run(source, argparse.Namespace(output=str(path), static=False, decompose=False,
                                           meta=True, dtype=None, seed=0), limit)
        return path

    return export


def completed(path, parameters=(), **given):
    wanted = {"batch": BATCH, "microbatches": 8, **PRICES, "values": [],
              "parameters": list(parameters), **given}
    done = subprocess.run([BUILD / "tests/graph/list-local-graph", path, str(PARTS),
                           json.dumps(wanted)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def layouts(graph):
    return {tensor["name"]: tensor["layout"] for tensor in graph["tensors"].values()}


def moved(graph):
    """The collectives that move a layer's activations: an eighth of them has 100,000 numbers."""
    return [op["target"].removeprefix("penstock::") for op in graph["operators"]
            if op["target"].startswith("penstock::") and math.prod(op["shapes"][0]) > 100_000]


def has_megatrons(graph, name):
    found = layouts(graph)
    for pattern, layout in MEGATRON[name].items():
        meant = {each for tensor, each in found.items() if fnmatch(tensor, pattern)}
        assert meant == {layout}, pattern


@pytest.mark.parametrize("name", ["gpt2", "bert", "transformer", "moe"])
def test_columns_and_rows_with_a_split_sequence(model, name):
    graph = completed(model(name))
    assert graph["exact"]
    has_megatrons(graph, name)
    assert moved(graph).count("reduce_scatter") >= 4  # two a layer
    assert "all_reduce" not in moved(graph)


def test_a_sequence_that_does_not_divide_stays_whole(model):
    graph = completed(model("vit"))
    assert graph["exact"]
    has_megatrons(graph, "vit")
    assert moved(graph).count("all_reduce") >= 3
    assert moved(graph).count("reduce_scatter") <= 1  # of patches


@pytest.mark.parametrize("prices", [{"state": 0, "saved": 0}, PRICES,
                                    {"state": 100_000, "saved": 1000}])
@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_dearer_than_megatrons_pins_and_few_states_are_looked_at(model, name, prices):
    path = model(name)
    free = completed(path, **prices)
    pinned = completed(path, MEGATRON[name].items(), **prices)
    assert free["weighed"] <= pinned["weighed"]
    assert free["states"] <= MOST_STATES
