"""Shared by the tests of tensor groups: layouts by hand, and plans with groups of two ranks."""

import subprocess

import yaml

from pipelines import PENSTOCK, model_path, torch, write_plan
from trainings import saved_tensors


def split(dimension, blocks=1):
    return {"split": dimension} | ({"blocks": blocks} if blocks > 1 else {})


GPT2 = {"parameters": {"*.c_attn.weight": split(1, 3), "*.attn.c_proj.weight": split(0),
                       "*.c_fc.weight": split(1), "*.mlp.c_proj.weight": split(0)}}
BERT = {"parameters": {"*.query.weight": split(0), "*.key.weight": split(0),
                       "*.value.weight": split(0), "*.attention.output.dense.weight": split(1),
                       "*.intermediate.dense.weight": split(0),
                       "*.layer.?.output.dense.weight": split(1)}}
LLAMA = {"parameters": {"*.q_proj.weight": split(0), "*.o_proj.weight": split(1),
                        "*.gate_proj.weight": split(0), "*.up_proj.weight": split(0),
                        "*.down_proj.weight": split(1)}}
ROWS = {"parameters": {"lm_head.weight": split(0)}}  # of the embedding, too: they are tied
TRANSMIT = {"shared_parameters": {"transformer.wte.weight": "transmit"}}
SEQUENCE = {"values": {"transformer.h.?": split(1)}}
GPT2_STAGES = ["", "transformer.h.1"]


def group_plan(folder, model, begins, microbatches=2, microbatch=2, data_parallel=2, **keys):
    data = model_path(model).with_name(f"{model}.data.safetensors")
    return write_plan(folder, model_path(model), data, begins, microbatches, microbatch,
                      data_parallel=data_parallel, **{"tensor_parallel": 2} | keys)


def penstock(*arguments):
    return subprocess.run([PENSTOCK, *map(str, arguments)], capture_output=True, text=True,
                          check=False)


def changed(plan, name, **keys):
    """The plan with other keys, beside it; without those that are None."""
    path = plan.with_name(name)
    content = yaml.safe_load(plan.read_text()) | keys
    kept = {key: value for key, value in content.items() if value is not None}
    path.write_text(yaml.safe_dump(kept, sort_keys=False))
    return path


def assert_close(one, other):
    found, expected = saved_tensors(one), saved_tensors(other)
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        torch.testing.assert_close(found[key], tensor, rtol=1e-7, atol=1e-9, msg=key)
