"""DeepSpeed builds its PipelineModule of exported layers and parts and trains a step; torchrun
starts a process per rank.

deepspeed_runtime.py CASES.json: {train: a list of {plan, network, model, data, folder},
                                  schedules: [[stages, microbatches], …], orders: FILE}

The network is configs/models/pippy.py or tokens.py, `model` its export, which has the weights. Each
rank writes
into `folder` `rank-R.json` (parts, its layers, the loss) and `gradients-R.safetensors`, under the
names of the model. Into `orders` go, for each of the schedules, the forwards and backwards of every
stage as DeepSpeed runs them.
"""

import json
import os
import sys
from pathlib import Path

os.environ["DS_ACCELERATOR"] = "cpu"
import deepspeed  # reads the line above
import torch
from deepspeed.pipe import PipelineModule
from deepspeed.runtime.pipe.schedule import BackwardPass, ForwardPass, TrainSchedule
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).parents[3] / "configs" / "models"))
import pippy
import tokens

NETWORKS = {"pippy": lambda: pippy.model(width=32, hidden=48, narrow=24), "tokens": tokens.model}


class Planned(PipelineModule):
    """Divided as planned; DeepSpeed's own ways to divide take no bounds."""

    def __init__(self, layers, plan, **options):
        self.planned_parts = plan["parts"]
        super().__init__(layers, num_stages=plan["num_stages"],
                         activation_checkpoint_interval=plan["activation_checkpoint_interval"],
                         **options)

    def _partition_layers(self, method):
        self.parts = self.planned_parts
        self._set_bounds(*self.parts[self.stage_id:self.stage_id + 2])


def original(case):
    # DeepSpeed reduces no gradients of float64
    module = NETWORKS[case["network"]]()
    module.load_state_dict(torch.export.load(case["model"]).state_dict)
    return module


def run(case):
    out, plan, model = (Path(case["folder"]), json.loads(Path(case["plan"]).read_text()),
                        original(case))
    layers = [torch.nn.Sequential(*map(model.get_submodule, names)) for names in plan["layers"]]
    module = Planned(layers, plan, loss_fn=torch.nn.functional.cross_entropy)
    optimizer, gradients = torch.optim.SGD(module.parameters(), lr=0.1), {}
    optimizer.register_step_pre_hook(lambda *_: gradients.update(
        {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}))
    engine, *_ = deepspeed.initialize(model=module, config=plan["config"], optimizer=optimizer)
    data, size = load_file(case["data"]), plan["config"]["train_micro_batch_size_per_gpu"]
    x = data["x"].float() if data["x"].is_floating_point() else data["x"]
    loss = engine.train_batch(zip(x.split(size), data["target"].split(size), strict=True))
    save_file(gradients, out / f"gradients-{engine.global_rank}.safetensors")
    (out / f"rank-{engine.global_rank}.json").write_text(json.dumps({
        "parts": module.parts, "loss": float(loss),
        "layers": sorted(int(name) for name, _ in module.named_children() if name.isdigit())}))


def order(stages, microbatches, stage):
    """F and B of a stage; each kind goes through the microbatches in order."""
    done, actions = {"F": 0, "B": 0}, []
    schedule = TrainSchedule(micro_batches=microbatches, stages=stages, stage_id=stage)
    for instructions in schedule.steps():
        for instruction in instructions:
            kind = {ForwardPass: "F", BackwardPass: "B"}.get(type(instruction))
            if kind:
                actions.append(f"{stage}{kind}{done[kind]}")
                done[kind] += 1
    return actions


def main(file):
    # else it compiles transfers of its own, where there is a compiler
    deepspeed.ops.__compatible_ops__.clear()
    deepspeed.init_distributed(dist_backend="gloo")
    cases = json.loads(Path(file).read_text())
    for case in cases["train"]:
        run(case)
    if torch.distributed.get_rank() == 0:
        Path(cases["orders"]).write_text(json.dumps(
            [[order(stages, microbatches, stage) for stage in range(stages)]
             for stages, microbatches in cases["schedules"]]))
    # else a thread of Gloo may outlive its group, which aborts a rank that has ended well
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
