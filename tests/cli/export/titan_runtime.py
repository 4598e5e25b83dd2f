"""TorchTitan reads exported configs, splits a model as they say and trains a step; torchrun starts
a process per rank.

titan_runtime.py CASES.json: a list of {config, model, settings, data, folder}

The model is configs/models/transformer.py, `model` its export, which has the weights. Each rank
writes the gradients of its stages into `folder`, by stage, the one with the last stage the loss as
well.
"""

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torchtitan.config import ConfigManager
from torchtitan.protocols.model import BaseModelArgs

sys.path.insert(0, str(Path(__file__).parents[3] / "configs" / "models"))
import transformer

# TorchTitan's pipeline_parallel names two types of its train_spec in annotations, and no more; that
# module would want its datasets and tokenizers.
names = types.ModuleType("torchtitan.protocols.train_spec")
names.BaseModelArgs, names.ParallelizeFunction = BaseModelArgs, Callable
sys.modules[names.__name__] = names
from torchtitan.distributed.pipeline_parallel import build_pipeline_schedule, pipeline_module_split


def forward(self, h):
    """The transformer's, for a part of it: TorchTitan sets modules that are elsewhere to None."""
    h = self.tok_embeddings(h) if self.tok_embeddings else h
    h = h + self.pos_embeddings(torch.arange(h.shape[1])) if self.pos_embeddings else h
    masks = {"tgt_mask": self.mask, "memory_mask": self.mask, "tgt_is_causal": True,
             "memory_is_causal": True} if self.causal else {}
    for layer in self.layers.values():
        h = layer(h, h, **masks)
    h = self.norm(h) if self.norm else h
    return self.output(h) if self.output else h


def original(case):
    module = transformer.model(**case["settings"]).double()
    module.load_state_dict(torch.export.load(case["model"]).state_dict)
    module.forward = types.MethodType(forward, module)
    return module


def run(case, mesh):
    out, data = Path(case["folder"]), load_file(case["data"])
    config = ConfigManager().parse_args([f"--job.config_file={case['config']}"])
    assert config.parallelism.pipeline_parallel_degree == mesh.size()
    stages, parts = pipeline_module_split(original(case), mesh,
                                          config.parallelism.pipeline_parallel_schedule,
                                          torch.device("cpu"),
                                          config.parallelism.module_fqns_per_model_part)
    for part in parts:  # copies of the method still belong to the whole
        part.forward = types.MethodType(forward, part)
    # torch opens connections by a number to each neighbour; Gloo has none to its own rank
    for stage in stages:
        stage._get_init_p2p_neighbors_ops = list
    microbatches = (config.training.local_batch_size
                    // config.parallelism.pipeline_parallel_microbatch_size)

    def loss(output, target):  # TorchTitan leaves the mean over microbatches to the loss
        mean = torch.nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())
        return mean / microbatches

    schedule = build_pipeline_schedule(config, stages, loss)
    first, last = any(stage.is_first for stage in stages), any(stage.is_last for stage in stages)
    losses = []
    schedule.step(*([data["tokens"]] if first else []),
                  **({"target": data["target"], "losses": losses} if last else {}))
    for stage, part in zip(stages, parts, strict=True):
        save_file({name: p.grad for name, p in part.named_parameters()},
                  out / f"gradients-{stage.stage_index}.safetensors")
    if last:
        (out / "loss.json").write_text(json.dumps(float(torch.stack(losses).sum())))


def main(cases):
    dist.init_process_group("gloo")
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),),
                                             mesh_dim_names=("pp",))
    for case in json.loads(Path(cases).read_text()):
        run(case, mesh)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
