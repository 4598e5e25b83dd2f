"""torch's own pipeline() cuts modules at exported split points and trains a step of exported
schedules; torchrun starts a process per rank.

split_runtime.py CASES.json: a list of {python, settings, model, split, schedule, data, input,
microbatches, folder}

`python` is a file of configs/models, `model` its export, which has the weights. Each rank writes
the gradients of its stages into `folder`, the one with the last stage the loss as well.
"""

import importlib
import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch.distributed.pipelining import SplitPoint, pipeline
from torch_runtime import run_all, stages_of_rank, train_step

sys.path.insert(0, str(Path(__file__).parents[3] / "configs" / "models"))


def original(case):
    """The Python module that was exported, with its weights."""
    module = importlib.import_module(case["python"]).model(**case["settings"]).double()
    module.load_state_dict(torch.export.load(case["model"]).state_dict)
    return module


def run(case):
    example = load_file(case["data"])[case["input"]].chunk(case["microbatches"])[0]

    points = json.loads(Path(case["split"]).read_text())
    pipe = pipeline(original(case), (example,),
                    split_spec={path: SplitPoint[at] for path, at in points.items()})

    mine = stages_of_rank(case["schedule"], dist.get_rank())
    stages = [pipe.build_stage(i, torch.device("cpu")) for i in mine]
    # torch opens connections by a number to each neighbour; Gloo has none to its own rank
    for stage in stages:
        stage._get_init_p2p_neighbors_ops = list
    train_step(case, stages, pipe.num_stages, [stage.submod for stage in stages], case["input"])


if __name__ == "__main__":
    run_all(sys.argv[1], run)
