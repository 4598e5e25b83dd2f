"""penstock show PLAN.yaml --stage N: a stage as torch.fx prints it."""

import re

import pytest
import yaml

from handing import MODELS, refused, succeeds
from pipelines import model_path, torch, write_plan

STAGE = """\
plan.yaml: stage 1 on rank 1, twice; microbatches of 2 samples

graph():
    # inputs
    %add_9 : [num_users=2] = placeholder[target=add_9]  # float64 [batch, 16], from stage 0,\
 gradient back

    # parameters and buffers
    %p_twice_up_weight : [num_users=1] = get_attr[target=twice.up.weight]  # float64 [32, 16],\
 also in stage 2
    %p_twice_up_bias : [num_users=1] = get_attr[target=twice.up.bias]  # float64 [32], also in\
 stage 2
    %p_twice_down_weight : [num_users=1] = get_attr[target=twice.down.weight]  # float64 [16,\
 32], also in stage 2
    %p_twice_down_bias : [num_users=1] = get_attr[target=twice.down.bias]  # float64 [16], also\
 in stage 2

    # twice.up
    %linear_2 : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args =\
 (%add_9, %p_twice_up_weight, %p_twice_up_bias), kwargs = {})  # float64 [batch, 32]

    # twice
    %relu_1 : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args =\
 (%linear_2,), kwargs = {})  # float64 [batch, 32]

    # twice.down
    %linear_3 : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args =\
 (%relu_1, %p_twice_down_weight, %p_twice_down_bias), kwargs = {})  # float64 [batch, 16]

    # twice
    %add_22 : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%add_9,\
 %linear_3), kwargs = {})  # float64 [batch, 16]

    # outputs
    #   %add_22: float64 [batch, 16], to stage 2
    return (add_22,)
"""


def plan_of(folder, name, begins, **more):
    return write_plan(folder, model_path(name), "data.safetensors", begins, 4, 2, **more)


def test_a_stage_lists_inputs_parameters_operators_by_module_and_outputs(tmp_path):
    """tests/models/markers.py: a block of 16 x 32 and 32 x 16 that stages 1 and 2 call."""
    plan_of(tmp_path, "markers-f64", ["", "pipe_split@0", "twice@1"])
    assert succeeds(tmp_path, "show", "plan.yaml", "--stage", 1).stdout == STAGE
    last = succeeds(tmp_path, "show", "plan.yaml", "--stage", 2).stdout
    assert "    # twice.up@1\n    %linear_4 : " in last
    assert "    #   %linear_6: float64 [batch, 10], the model's `output`\n" in last
    first = succeeds(tmp_path, "show", "plan.yaml", "--stage", 0).stdout
    assert "placeholder[target=x]  # float64 [batch, 16], from the data\n" in first


def calls(folder, stages):
    """The lines of operators of all stages, without what Penstock adds."""
    text = "".join(succeeds(folder, "show", "plan.yaml", "--stage", stage).stdout
                   for stage in range(stages))
    return re.findall(r"^    (%\S+ : .*? = call_function.*?)(?:  # .*)?$", text, re.M)


@pytest.mark.parametrize("name", ["transformer-static", "pippy", "iterative", "lstm"])
def test_the_operators_of_one_stage_are_printed_as_pytorch_prints_them(tmp_path, name):
    plan_of(tmp_path, name, [""])
    graph = torch.export.load(model_path(name)).graph
    sizes = {node for node in graph.nodes if "sym_size" in str(node.target)}
    nodes = [node for node in graph.nodes if node.op == "call_function" and node not in sizes]
    assert len(nodes) > 3
    expected = [node.format_node() for node in nodes]
    # A size that depends on the batch is an expression in it here, a node of its own there.
    for size in sizes:
        expected = [re.sub(rf"%{size.name}\b", "batch", line) for line in expected]
    assert calls(tmp_path, 1) == expected


def test_buffers_constants_and_what_is_computed_in_several_stages_are_named(tmp_path):
    plan_of(tmp_path, "resnet", ["", "head"])
    text = succeeds(tmp_path, "show", "plan.yaml", "--stage", 0).stdout
    assert re.search(r"get_attr\[target=\S+running_mean\]  # float32 \[\d+\], buffer\n", text)
    assert re.search(r"#   %\S+: float32 \[\d+\], the next \S+running_mean\n", text)


def test_the_units_that_a_stage_recomputes_are_named_and_have_to_be_its_own(tmp_path):
    plan_of(tmp_path, "gpt2", ["", "transformer.h.1"])
    plan = tmp_path / "plan.yaml"
    content = yaml.safe_load(plan.read_text())
    content["stages"][1]["recompute"] = ["transformer.h.1.attn", "transformer.h.1.mlp"]
    plan.write_text(yaml.safe_dump(content, sort_keys=False))
    assert "(2 units recomputed)" in succeeds(tmp_path, "show", "plan.yaml").stdout
    stage = succeeds(tmp_path, "show", "plan.yaml", "--stage", 1).stdout
    assert " (recomputes transformer.h.1.attn, transformer.h.1.mlp); microbatches" in stage
    content["stages"][1]["recompute"] = ["transformer.h.0.mlp"]
    plan.write_text(yaml.safe_dump(content, sort_keys=False))
    refused(tmp_path, "show", "plan.yaml", "--stage", 1,
            says=["stages[1].recompute: no unit of the stage begins at `transformer.h.0.mlp`",
                  "Its units begin at `transformer.h.1`, `transformer.h.1.attn`"])


def test_a_stage_that_is_not_there_and_what_has_no_stages_are_refused(tmp_path):
    plan_of(tmp_path, "markers-f64", ["", "twice"])
    refused(tmp_path, "show", "plan.yaml", "--stage", 2,
            says=["--stage 2: the plan has 2 stages", "one of 0 to 1"])
    refused(tmp_path, "show", "plan.yaml", "--stage=-1", says=["--stage -1", "one of 0 to 1"])
    refused(tmp_path, "show", MODELS / "markers-f64.pt2", "--stage", 0,
            says=["--stage: is for plans", "PLAN.yaml"])
