#!/usr/bin/env python3
"""GPT-3 175B on 64 A100 as Megatron ran it, beside what an estimate predicts of it: Korthikanti et
al., "Reducing Activation Recomputation in Large Transformer Models" (2022): tensor parallel 8 with
sequence parallelism, pipeline 8 interleaved with 3 stages per rank, 64 microbatches of one sample.
Prints Markdown; needs build/penstock and .venv.

    .venv/bin/python bench/megatron_gpt3.py

Nothing is run on a device: the model is exported without weights, its costs are estimated from the
figures of an A100 (configs/devices/a100.yaml), and the plan is simulated.
"""

import json
import sys
import tempfile
from datetime import date
from pathlib import Path

import yaml

from reporting import PENSTOCK, ROOT, export, run, table

CLUSTER = ROOT / "configs" / "clusters" / "a100_8_nodes.yaml"
DEVICE = ROOT / "configs" / "devices" / "a100.yaml"
TIMEOUT_S = 1800

LAYERS, HIDDEN, SEQUENCE = 96, 12288, 2048
PARTS, PIPELINE, STAGES_PER_RANK, MICROBATCHES = 8, 8, 3, 64
MODEL = {"layers": LAYERS, "hidden": HIDDEN, "heads": 96, "sequence": SEQUENCE,
         "vocabulary": 51200, "dropout": 0.1, "dtype": "bfloat16"}
# Table 5: seconds of an iteration. The paper's selective recomputation, of the attention alone, is
# what fused attention does.
PUBLISHED_S = 13.75
# Columns and rows as in Shoeybi et al. (2019), between them a split sequence, words and output
# split along the vocabulary; each part draws its own dropout. Sequence parallelism keeps parts and
# gathers them again in the backward.
SHARDING = {"parameters": {"token_embedding.weight": {"split": 0},
                           "*.qkv.weight": {"split": 0, "blocks": 3},
                           "*.projection.weight": {"split": 1}, "*.mlp.0.weight": {"split": 0},
                           "*.mlp.2.weight": {"split": 1}, "head.weight": {"split": 0}},
            "values": {"blocks.*": {"split": 1}, "*_norm": {"split": 1}},
            "random": "by_part", "gathered": "again"}


def published_bytes():
    """Equation 6 and section 4.2.3: 34 s b h / t of a layer; the first rank holds those of
    L (1 + (p - 1) / (p v)) layers."""
    layer = 34 * SEQUENCE * HIDDEN / PARTS
    return layer * LAYERS * (1 + (PIPELINE - 1) / (PIPELINE * STAGES_PER_RANK))


def job(folder):
    model = folder / "gpt.pt2"
    export("gpt", model, "--meta", timeout=TIMEOUT_S, **MODEL)
    content = yaml.safe_load((ROOT / "configs" / "jobs" / "gpt3.yaml").read_text())
    content |= {"model": str(model), "global_batch": MICROBATCHES, "precision": "bf16"}
    (folder / "job.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return content


def pins(folder, content, sharding):
    """A plan that has the sharding alone, for the profile."""
    content = {key: value for key, value in content.items() if key != "penstock"}
    plan = {"penstock": "plan", "version": 1, "job": content, "schedule": "1f1b",
            "microbatches": MICROBATCHES, "microbatch": 1, "tensor_parallel": PARTS,
            "sharding": sharding, "stages": [{"rank": 0, "begin": ""}]}
    (folder / "pins.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    return folder / "pins.yaml"


def simulated(folder, content, sharding):
    """What `simulate` says of the published plan."""
    profile, plan = folder / "profile.json", folder / "plan.yaml"
    run(PENSTOCK, "profile", folder / "job.yaml", "--device", "estimate", "--spec", DEVICE,
        "--tensor-parallel", PARTS, "--sharding", pins(folder, content, sharding), "-o", profile,
        timeout=TIMEOUT_S)
    stage = LAYERS // (PIPELINE * STAGES_PER_RANK)
    cuts = ",".join(f"blocks.{layer}:beginning" for layer in range(stage, LAYERS, stage))
    run(PENSTOCK, "plan", profile, "--cluster", CLUSTER, "--tensor-parallel", PARTS, "--schedule",
        "interleaved-1f1b", "--stages-per-rank", STAGES_PER_RANK, "--data-parallel", 1,
        "--microbatches", MICROBATCHES, "--split", cuts, "--fastest", "-o", plan,
        timeout=TIMEOUT_S)
    run(PENSTOCK, "export", plan, "--format", "megatron", "-o", folder / "megatron.txt")
    print((folder / "megatron.txt").read_text(), file=sys.stderr)
    return json.loads(run(PENSTOCK, "simulate", plan, "--json", timeout=TIMEOUT_S))


def row(what, published, predicted, unit):
    return {"GPT-3 175B on 64 A100": what, "published": f"{published:.2f} {unit}",
            "predicted": f"{predicted:.2f} {unit}",
            "error": f"{100 * (predicted / published - 1):+.1f} %"}


def rows(found, where=""):
    saved = found["peak_memory"][0]["saved_bytes"]
    return [row("step" + where, PUBLISHED_S, found["step_s"], "s"),
            row("activations of the first rank" + where, published_bytes() / 2**30, saved / 2**30,
                "GiB")]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = job(folder)
        again = simulated(folder, content, SHARDING)
        kept = simulated(folder, content, SHARDING | {"gathered": "kept"})
    print(f"{date.today()}\n")
    print(table(rows(again) + rows(kept, ", `gathered: kept`")))


if __name__ == "__main__":
    main()
