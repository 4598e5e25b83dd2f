"""tools/export_model.py --meta: how parameters get their first values; values of the rest."""

import json
import math

import pytest
import torch
from exporter import export, user_file  # noqa: F401 (fixtures)

LINEAR = "return self.linear(x)"


def initial_values(result):
    return json.loads(result.read("extra/initial_values.json"))


def steps(result, name):
    return initial_values(result)["tensors"][name]["steps"]


def unknown(result):
    return initial_values(result)["unknown"]


def meta(export, file):
    result = export(file, options=["--meta"])
    assert result.code == 0, result.messages
    return result


def test_a_linear_layer_is_drawn_as_its_module_draws_it(export, user_file):
    result = meta(export, user_file(LINEAR))
    bound = 1 / math.sqrt(3)
    for name in ("linear.weight", "linear.bias"):
        [step] = steps(result, name)
        assert step["op"] == "uniform" and step["numbers"] == pytest.approx([-bound, bound])
    assert steps(result, "linear.weight")[0]["draw"] != steps(result, "linear.bias")[0]["draw"]
    assert result.program.state_dict["linear.weight"].is_meta


def test_steps_follow_each_other_on_all_or_a_part(export, user_file):
    result = meta(export, user_file(
        LINEAR, "nn.init.trunc_normal_(self.linear.weight, std=0.02)\n"
                "self.linear.weight.data[1].zero_()"))
    first, *between, last = steps(result, "linear.weight")[-6:]
    assert first["op"] == "uniform" and [step["op"] for step in between] == [
        "erfinv", "mul", "add", "clamp"]
    assert last == {"op": "fill", "numbers": [0.0], "sizes": [3], "strides": [1], "offset": 3}


def test_copies_share_their_draws_and_casts_are_steps(export, user_file):
    result = meta(export, user_file(
        "return self.other(self.linear(x))",
        "import copy\nself.other = copy.deepcopy(self.linear)\nself.double()",
        inputs="(torch.randn(4, 3).double(),)"))
    assert steps(result, "other.weight") == steps(result, "linear.weight")
    assert steps(result, "linear.weight")[-1] == {"op": "cast", "dtype": "float64"}


def test_buffers_constants_and_small_parameters_without_a_recipe_have_values(export, user_file):
    result = meta(export, user_file(
        "return self.linear(x) @ self.mask * self.scale + self.decay * self.table",
        "self.register_buffer('mask', torch.tril(torch.ones(3, 3)))\n"
        "self.register_buffer('table', torch.tensor([1.0, 2.0, 4.0]), persistent=False)\n"
        "self.scale = sum(torch.linspace(0, 1, 3).tolist()) * torch.arange(3.0)\n"
        "self.decay = nn.Parameter(torch.arange(1.0, 4.0).log().cumsum(0))\n"
        "nn.init.orthogonal_(self.linear.weight)"))
    state, constants = result.program.state_dict, result.program.constants
    assert torch.equal(state["mask"], torch.tril(torch.ones(3, 3)))
    assert torch.equal(constants["table"], torch.tensor([1.0, 2.0, 4.0]))
    assert torch.equal(constants["scale"], 1.5 * torch.arange(3.0))
    assert torch.equal(state["decay"].data, torch.arange(1.0, 4.0).log().cumsum(0))
    weight = state["linear.weight"].data
    assert torch.allclose(weight @ weight.T, torch.eye(3), atol=1e-6)  # 3 terms of 2^-24 each
    assert isinstance(state["decay"], torch.nn.Parameter) and state["decay"].requires_grad


def test_constants_that_forward_makes_keep_their_numbers(export, user_file):
    body = ("scale = torch.tensor([1.0, 2.0, 4.0], device=x.device)\n"
            "return torch.where(x > 0, self.linear(x) * scale, torch.tensor(0.5, device=x.device))")
    path = user_file(body)
    whole, result = export(path, output="whole.pt2"), meta(export, path)
    kept, numbers = result.program.constants, whole.program.constants
    assert kept.keys() == numbers.keys() and len(kept) == 2
    assert all(torch.equal(kept[name], value) for name, value in numbers.items())
    assert result.facts["evaluation"] == {"arguments": {}}


def test_what_was_computed_from_drawn_values_keeps_to_them(export, user_file):
    result = meta(export, user_file(
        LINEAR, "self.linear = nn.utils.parametrizations.weight_norm(self.linear)"))
    state = result.program.state_dict
    norm, direction = (state[f"linear.parametrizations.weight.original{i}"] for i in (0, 1))
    assert torch.equal(norm.data, direction.data.norm(dim=1, keepdim=True))


def test_what_is_too_large_to_compute_is_named_with_the_reason(export, user_file):
    result = meta(export, user_file(
        "return self.linear(x) + self.wide(x).sum(1, keepdim=True)",
        "self.wide = nn.Linear(3, 2000000)\nnn.init.orthogonal_(self.wide.weight)"))
    assert set(unknown(result)) == {"wide.weight"} and "aten." in unknown(result)["wide.weight"]
    assert "wide.weight" in result.messages and "WARNING" in result.messages


def test_what_no_module_initialises_is_named(export, user_file):
    result = meta(export, user_file("return self.linear(x) * self.left",
                                    "self.left = nn.Parameter(torch.empty(3))"))
    assert "no values" in unknown(result)["left"]


def test_the_same_export_has_the_same_bytes(export, user_file):
    path = user_file(LINEAR)
    first, second = (export(path, options=["--meta"], output=f"{i}.pt2") for i in (0, 1))
    assert first.path.read_bytes() == second.path.read_bytes()
