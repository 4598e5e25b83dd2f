"""Steps of torch's own pipeline runtime on schedule files; torchrun starts a process per rank.

torch_runtime.py CASES.json: a list of {schedule, format, model, data, microbatches, begins, folder}

The model is pippy-f64; `begins` are its modules with which the stages begin. Each rank writes the
gradients of its stages into `folder`, the one with the last stage the loss as well.
"""

import csv
import json
import re
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

sys.path.insert(0, str(Path(__file__).parents[3] / "configs" / "models"))
import pippy


class Stage(torch.nn.Module):
    """Some children of the network, one after the other, under their own names."""

    def __init__(self, children):
        super().__init__()
        for name, child in children:
            self.add_module(name, child)

    def forward(self, x):
        for child in self.children():
            x = child(x)
        return x


class GlooStage(PipelineStage):
    """torch opens connections by sending a number to each neighbour; Gloo has none to its own
    rank."""

    def _get_init_p2p_neighbors_ops(self):
        return []


def stages_of(model_file, begins):
    model = pippy.model(width=32, hidden=48, narrow=24).double()
    model.load_state_dict(torch.export.load(model_file).state_dict)
    groups = [[]]
    for name, child in model.named_children():
        if name in begins:
            groups.append([])
        groups[-1].append((name, child))
    return [Stage(group) for group in groups]


def stages_of_rank(schedule_file, rank):
    row = list(csv.reader(Path(schedule_file).open()))[rank]
    return sorted({int(stage) for cell in row for stage in re.findall(r"(\d+)F\d+", cell)})


def loss(output, target):
    return torch.nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())


def train_step(case, stages, count, modules, input_name="x", form="compute_only"):
    """Runs the case's schedule on this rank's stages, of `count` in all, and writes what `modules`
    got of it."""
    rank, out = dist.get_rank(), Path(case["folder"])
    mine = {stage.stage_index for stage in stages}
    schedule = _PipelineScheduleRuntime(stages, case["microbatches"], loss_fn=loss)
    schedule._load_csv(case["schedule"], format=form)
    for stage in stages:  # the constructor took for granted that stages loop over the ranks
        stage.stage_index_to_group_rank = schedule.stage_index_to_group_rank
    data, losses, last = load_file(case["data"]), [], count - 1 in mine
    schedule.step(*([data[input_name]] if 0 in mine else []),
                  **({"target": data["target"], "losses": losses} if last else {}))
    save_file({name: p.grad for module in modules for name, p in module.named_parameters()},
              out / f"gradients-{rank}.safetensors")
    if last:
        (out / "loss.json").write_text(json.dumps(float(torch.stack(losses).mean())))


def run_all(cases, run):
    dist.init_process_group("gloo")
    for case in json.loads(Path(cases).read_text()):
        run(case)
    dist.destroy_process_group()


def run(case):
    stages = stages_of(case["model"], case["begins"])
    mine = stages_of_rank(case["schedule"], dist.get_rank())
    runtime = [GlooStage(stages[i], i, len(stages), torch.device("cpu")) for i in mine]
    train_step(case, runtime, len(stages), [stages[i] for i in mine], form=case["format"])


if __name__ == "__main__":
    run_all(sys.argv[1], run)
