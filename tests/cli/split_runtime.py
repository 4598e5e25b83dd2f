"""torch's own pipeline() cuts modules at exported split points and trains a step of exported schedules;
torchrun starts a process per rank.

split_runtime.py CASES.json: a list of {python, settings, model, split, schedule, data, input, microbatches, folder}

`python` is a file of configs/models, `model` its export, which has the weights. Each rank writes the gradients of
its stages into `folder`, the one with the last stage the loss as well.
"""

import importlib
import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.distributed.pipelining import SplitPoint, pipeline
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch_runtime import stages_of_rank

sys.path.insert(0, str(Path(__file__).parents[2] / "configs" / "models"))


def original(case):
    """The Python module that was exported, with its weights."""
    module = importlib.import_module(case["python"]).model(**case["settings"]).double()
    module.load_state_dict(torch.export.load(case["model"]).state_dict)
    return module


def loss(output, target):
    return torch.nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())


def run(case):
    rank, out = dist.get_rank(), Path(case["folder"])
    data = load_file(case["data"])
    example = data[case["input"]].chunk(case["microbatches"])[0]

    points = json.loads(Path(case["split"]).read_text())
    pipe = pipeline(original(case), (example,), split_spec={path: SplitPoint[at] for path, at in points.items()})

    mine = stages_of_rank(case["schedule"], rank)
    stages = [pipe.build_stage(i, torch.device("cpu")) for i in mine]
    for stage in stages:  # torch opens connections by a number to each neighbour; Gloo has none to its own rank
        stage._get_init_p2p_neighbors_ops = list
    schedule = _PipelineScheduleRuntime(stages, case["microbatches"], loss_fn=loss)
    schedule._load_csv(case["schedule"])
    for stage in stages:  # the constructor took for granted that stages loop over the ranks
        stage.stage_index_to_group_rank = schedule.stage_index_to_group_rank
    last, losses = pipe.num_stages - 1 in mine, []
    schedule.step(*([data[case["input"]]] if 0 in mine else []),
                  **({"target": data["target"], "losses": losses} if last else {}))
    save_file({name: p.grad for stage in stages for name, p in stage.submod.named_parameters()},
              out / f"gradients-{rank}.safetensors")
    if last:
        (out / "loss.json").write_text(json.dumps(float(torch.stack(losses).mean())))


def main(cases):
    dist.init_process_group("gloo")
    for case in json.loads(Path(cases).read_text()):
        run(case)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
