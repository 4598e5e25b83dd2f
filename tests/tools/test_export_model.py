"""tools/export_model.py writes what is functional, equal to the module, honest about coupling."""

import contextlib
import functools
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "export_model.py"
MODELS = ROOT / "configs" / "models"
sys.path.insert(0, str(ROOT / "tools"))

import export_model  # noqa: E402

SMALL = ["layers=2", "heads=2", "dim=16", "feedforward=32", "vocabulary=20", "sequence=6"]
TEXT = ["batch_first=true", "causal=true", "positions=true", "dropout=0"]


class Result:
    def __init__(self, code, output, captured):
        self.code, self.path, self.messages = code, output, captured[1]
        self.last_line = captured[0].strip()

    @functools.cached_property
    def program(self):
        return torch.export.load(str(self.path))

    @property
    def facts(self):
        return json.loads(self.read("extra/penstock.json"))

    def read(self, name):
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(f"{self.path.stem}/{name}")

    def nodes(self, target):
        return [node for node in self.program.graph.nodes if str(node.target) == target]

    def targets(self):
        return {str(node.target) for node in self.program.graph.nodes if node.op == "call_function"}


def run_export(folder, file, settings=(), options=(), output="out.pt2"):
    path = MODELS / f"{file}.py" if isinstance(file, str) else file
    pairs = [part for setting in settings for part in ("--set", setting)]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = export_model.main([str(path), "-o", str(folder / output), *pairs, *options])
    return Result(code, folder / output, (out.getvalue(), err.getvalue()))


@pytest.fixture
def export(tmp_path):
    """Exports a model of configs/models by name, or a file; returns the Result."""
    return lambda file, *settings, **rest: run_export(tmp_path, file, settings, **rest)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return run_export(tmp_path_factory.mktemp("reference"), "transformer", SMALL)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return run_export(tmp_path_factory.mktemp("text"), "transformer", SMALL + TEXT)


@pytest.fixture
def user_file(tmp_path):
    """Writes a user's model file with a forward(self, x) of the given body."""

    def write(forward, init="", inputs="(torch.randn(4, 3),)", arguments="x", after=""):
        text = ("import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
                "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
                "        self.linear = nn.Linear(3, 3)\n")
        text += "".join(f"        {line}\n" for line in init.splitlines())
        text += f"    def forward(self, {arguments}):\n"
        text += "".join(f"        {line}\n" for line in forward.splitlines())
        text += f"def model():\n    return Net(){after}\n"
        text += f"def example_inputs():\n    return {inputs}\n"
        path = tmp_path / "user_model.py"
        path.write_text(text)
        return path

    return write


def refused(result, *words):
    assert result.code == 2
    assert not result.path.exists()
    assert result.messages.count("error:") == 1 and "Traceback" not in result.messages
    for word in words:
        assert word in result.messages
    assert sorted(p.name for p in result.path.parent.iterdir() if p.suffix != ".py") == []


# Models of configs/models -------------------------------------------------------------------------


@pytest.mark.parametrize("name, coupled", [("pippy", False), ("iterative", False),
                                           ("image_classifier", False)])
def test_small_networks_are_exported_with_a_dynamic_batch(export, name, coupled):
    result = export(name)
    assert result.code == 0
    assert result.facts["batch_coupled"] is coupled
    assert "outputs, gradients and buffers equal the module's" in result.messages
    module = result.program.module()
    [name] = result.facts["input_names"]
    shape = next(n.meta["val"].shape for n in result.program.graph.nodes if n.name == name)
    for batch in (1, 7):
        inputs = {name: torch.randn(batch, *shape[1:])}
        assert module(**inputs).shape == (batch, 10)


def test_the_reference_transformer_warns_that_samples_influence_each_other(reference):
    assert reference.code == 0
    assert "WARNING: samples of a batch influence each other" in reference.messages
    assert reference.facts["batch_coupled"] is True
    assert reference.facts["settings"]["dropout"] == 0.1


def test_the_text_transformer_is_independent_and_draws_nothing(text):
    assert text.facts["batch_coupled"] is False
    assert not any("dropout" in target for target in text.targets())
    for node in text.nodes("aten.scaled_dot_product_attention.default"):
        _, _, _, mask, dropout, causal = node.args
        assert (mask, dropout, causal) == (None, 0.0, True)


def test_attention_linear_and_layer_norm_stay_whole(reference, text):
    for result in (reference, text):
        counts = {name: len(result.nodes(f"aten.{name}.default"))
                  for name in ("scaled_dot_product_attention", "linear", "layer_norm")}
        # A layer has 2 attentions, 2 + 3 projections, 2 feedforward; and 3 norms.
        assert counts == {"scaled_dot_product_attention": 4, "linear": 2 * 7 + 1,
                          "layer_norm": 2 * 3 + 1}


def test_dropout_stays_active_in_attention_and_layers(reference):
    attention = reference.nodes("aten.scaled_dot_product_attention.default")
    assert [node.args[4] for node in attention] == [0.1] * 4
    layers = reference.nodes("aten.native_dropout.default")
    assert [node.args[1:] for node in layers] == [(0.1, True)] * 8


def test_a_causal_position_sees_nothing_later(text):
    program = text.program.module()
    tokens = torch.arange(6).repeat(3, 1)
    before = program(tokens=tokens)
    for position in range(6):
        changed = tokens.clone()
        changed[:, position] = 19
        difference = (program(tokens=changed) - before).abs().amax(dim=(0, 2))
        # Positions are rows of every matrix product, so what is not seen changes no bit.
        assert torch.all(difference[:position] == 0)
        assert torch.all(difference[position:] > 1e-4)


def test_without_causal_a_position_sees_later_ones(export):
    program = export("transformer", *SMALL, "batch_first=true", "positions=true",
                     "dropout=0").program.module()
    tokens = torch.arange(6).repeat(3, 1)
    changed = tokens.clone()
    changed[:, 5] = 19
    assert (program(tokens=changed) - program(tokens=tokens))[:, 0].abs().max() > 1e-4


def test_the_gpt_is_independent_in_its_samples_and_as_large_as_its_settings_say(export):
    result = export("gpt", "layers=2", "hidden=32", "heads=4", "vocabulary=64", "sequence=16")
    assert result.code == 0, result.messages
    assert result.facts["batch_coupled"] is False
    assert {"aten.scaled_dot_product_attention.default", "aten.linear.default"} <= result.targets()
    # Two embeddings, blocks of 12 matrices of H x H with 13 vectors of H, the last norm, the head.
    assert f"{64 * 32 + 16 * 32 + 2 * (12 * 32 ** 2 + 13 * 32) + 2 * 32 + 32 * 64:,} parameters" in result.last_line


def test_a_tied_gpt_has_one_weight_for_embedding_and_head(export):
    result = export("gpt", "layers=1", "hidden=32", "heads=4", "vocabulary=64", "sequence=16", "tied=true",
                    "dtype=bfloat16", options=["--meta"])
    assert result.code == 0, result.messages
    assert f"{64 * 32 + 16 * 32 + 12 * 32 ** 2 + 13 * 32 + 2 * 32:,} parameters" in result.last_line
    assert result.facts["tied"] == [["token_embedding.weight", "head.weight"]]


def test_a_gpt_whose_heads_do_not_divide_its_width_is_refused(export):
    refused(export("gpt", "hidden=30", "heads=4"), "hidden=30", "heads=4")


def test_repeated_calls_of_a_module_are_counted(export):
    keys = [list(node.meta["nn_module_stack"])[1]
            for node in export("iterative", "width=8").nodes("aten.relu.default")]
    assert keys == ["L__self__iter_block", "L__self__iter_block@1", "L__self__iter_block@2"]


def test_module_paths_of_the_transformer_name_its_layers(text):
    paths = [list(node.meta["nn_module_stack"].values())[-1][0]
             for node in text.nodes("aten.relu.default")]
    assert paths == ["layers.0", "layers.1"]


# Settings and options -----------------------------------------------------------------------------


def test_settings_reach_the_functions_that_take_them(export):
    facts = export("pippy", "width=12", "hidden=5", "batch=6").facts
    assert facts["example_batch"] == 6
    assert facts["settings"] == {"batch": 6, "width": 12, "hidden": 5, "narrow": 256, "classes": 10}


@pytest.mark.parametrize("setting, words", [
    ("widht=3", ["no setting 'widht'", "did you mean 'width'?"]),
    ("zzz=3", ["no setting 'zzz'", "it has"]),
    ("width=wide", ["'wide'", "whole number"]),
    ("width=1.5", ["'1.5'", "whole number"]),
    ("width=true", ["'true'", "whole number"]),
    ("width", ["NAME=VALUE"]),
])
def test_a_bad_setting_is_refused_with_the_cure(export, setting, words):
    refused(export("pippy", setting), *words)


def test_a_truth_value_has_to_be_one(export):
    refused(export("transformer", "causal=1"), "truth value")


def test_a_setting_given_twice_is_refused(export):
    refused(export("pippy", "width=3", "width=4"), "set twice")


def test_causal_without_batch_first_is_refused_with_the_reason(export):
    refused(export("transformer", *SMALL, "causal=true"), "causal=true needs batch_first=true")


def test_meta_exports_the_graph_without_weights(export, text):
    result = export("transformer", *SMALL, *TEXT, options=["--meta"])
    assert result.code == 0
    assert "were not checked" in result.messages
    facts = result.facts
    assert facts["meta"] is True and facts["batch_coupled"] is None
    assert result.targets() == text.targets()
    with zipfile.ZipFile(result.path) as archive:
        sizes = [i.file_size for i in archive.infolist() if "/data/weights/weight_" in i.filename]
    assert sizes and set(sizes) == {0}


def test_meta_does_not_hold_a_model_that_is_too_big(export):
    result = export("pippy", "hidden=100000000", "narrow=100000", options=["--meta"])  # 40 TB
    assert result.code == 0
    assert result.path.stat().st_size < 1_000_000


def test_static_fixes_the_batch_of_the_example(export):
    result = export("pippy", "width=8", "batch=1", options=["--static"])
    assert result.code == 0
    assert result.facts["static"] is True
    assert not result.program.range_constraints


def test_dtype_converts_parameters_and_inputs(export):
    for name in ("float64", "bfloat16"):
        result = export("iterative", "width=8", options=["--dtype", name])
        assert result.facts["dtype"] == name
        assert {p.dtype for p in result.program.parameters()} == {getattr(torch, name)}


def test_the_seed_decides_the_weights(export):
    first, second, other = [list(export("iterative", "width=8", options=["--seed", seed],
                                        output=f"{i}.pt2").program.parameters())[0]
                            for i, seed in enumerate(["5", "5", "6"])]
    assert torch.equal(first, second) and not torch.equal(first, other)


def test_two_runs_write_the_same_bytes(tmp_path):
    files = [tmp_path / folder / "model.pt2" for folder in ("a", "b")]
    runs = [subprocess.Popen([sys.executable, TOOL, MODELS / "iterative.py", "-o", file,
                              "--set", "width=8"]) for file in files]
    assert [run.wait() for run in runs] == [0, 0]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_the_file_tells_nothing_about_the_exporting_machine(text):
    graph = text.read("models/model.json").decode()
    assert str(ROOT) not in graph and "stack_trace" not in graph


def test_the_last_line_says_what_was_written(export):
    result = export("iterative", "width=8")
    assert result.last_line == (f"wrote {result.path}: 162 parameters in 4 tensors, 7 operators, "
                                f"{result.path.stat().st_size:,} bytes")
    # 8*8+8 + 8*10+10 = 162


# Models of users ----------------------------------------------------------------------------------


def test_batch_norm_becomes_functional_and_its_buffers_are_outputs(export, user_file):
    result = export(user_file("return self.norm(self.linear(x))", "self.norm = nn.BatchNorm1d(3)"))
    assert result.code == 0
    mutated = set(result.program.graph_signature.buffers_to_mutate.values())
    assert mutated == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    assert "aten.batch_norm.default" not in result.targets()
    assert result.facts["batch_coupled"] is True
    state = result.program.state_dict  # as before the check ran
    assert torch.equal(state["norm.running_mean"], torch.zeros(3))
    assert state["norm.num_batches_tracked"] == 0


def test_in_place_operators_become_functional(export, user_file):
    body = "y = self.linear(x)\ny.mul_(2)\ny[:, 0] = 1.0\nreturn y"
    result = export(user_file(body))
    assert result.code == 0
    assert not any(name.split(".")[1].endswith("_") for name in result.targets() if "aten" in name)


def test_a_mutated_input_is_refused_by_name(export, user_file):
    refused(export(user_file("x.mul_(2)\nreturn self.linear(x)")), "changes its input 'x' in place",
            "x = x.clone()")


def test_a_buffer_assigned_in_a_submodule_is_refused(export, user_file):
    path = user_file("return self.inner(x)", "self.inner = Inner()")
    inner = ("class Inner(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
             "        self.linear = nn.Linear(3, 3)\n"
             "        self.register_buffer('mean', torch.zeros(3))\n"
             "    def forward(self, x):\n        self.mean = 0.9 * self.mean + x.mean(0)\n"
             "        return self.linear(x) - self.mean.detach()\n")
    path.write_text(path.read_text().replace("class Net", inner + "class Net"))
    refused(export(path), "buffer 'inner.mean'", "copy_")


def test_a_buffer_updated_in_place_is_an_output(export, user_file):
    result = export(user_file("self.calls.add_(1)\nreturn self.linear(x)",
                              "self.register_buffer('calls', torch.zeros(()))"))
    assert result.code == 0
    assert list(result.program.graph_signature.buffers_to_mutate.values()) == ["calls"]
    assert result.facts["batch_coupled"] is False


def test_needless_copies_are_dropped_but_an_output_stays_one(export, user_file):
    path = user_file("y = F.dropout(self.linear(x), 0.0)\nreturn y.clone().relu(), x.clone()")
    result = export(path)
    assert [node.args[0].name for node in result.nodes("aten.clone.default")] == ["x"]


def test_a_loss_as_output_does_not_count_as_coupled(export, user_file):
    path = user_file("return F.mse_loss(self.linear(x), target)", arguments="x, target",
                     inputs="{'x': torch.randn(4, 3), 'target': torch.randn(4, 3)}")
    result = export(path)
    assert result.facts["batch_coupled"] is False
    assert result.facts["input_names"] == ["x", "target"]


@pytest.mark.parametrize("body", ["y = self.linear(x)\nreturn y @ y.T",
                                  "y = self.linear(x)\nreturn y - y.mean(0)",
                                  "y = self.linear(x)\nreturn (y @ y.T).sum()"])
def test_every_kind_of_coupling_is_found(export, user_file, body):
    assert export(user_file(body)).facts["batch_coupled"] is True


def test_coupling_is_found_although_dropout_is_active(export, user_file):
    body = "y = F.dropout(self.linear(x), 0.5)\nreturn {}"
    assert export(user_file(body.format("y"))).facts["batch_coupled"] is False
    assert export(user_file(body.format("y - y.mean(0)"))).facts["batch_coupled"] is True


def test_equal_samples_say_nothing_about_coupling(export, user_file):
    result = export(user_file("y = self.linear(x)\nreturn y - y.mean(0)",
                              inputs="(torch.ones(4, 3),)"))
    assert result.facts["batch_coupled"] is None
    assert "all samples of the example batch are equal" in result.messages


def test_noise_that_cannot_be_switched_off_leaves_coupling_unknown(export, user_file):
    result = export(user_file("return self.linear(x + torch.randn_like(x))"))
    assert result.code == 0
    assert result.facts["batch_coupled"] is None
    assert "randn_like" in result.messages


def test_evaluation_mode_is_kept_and_said(export, user_file):
    body = "return F.dropout(self.linear(x), 0.5, self.training)"
    result = export(user_file(body, after=".eval()"))
    assert result.code == 0
    assert "in evaluation mode" in result.messages
    assert not any("dropout" in target for target in result.targets())


def test_a_no_grad_region_stays_without_gradient_and_tied_parameters_stay_tied(export, user_file):
    """run_decompositions alone forgets it: the gradients were wrong by 2 %."""
    body = ("with torch.no_grad():\n    scale = self.linear(x).abs().mean(-1, keepdim=True) + 1\n"
            "return self.other(self.linear(x) / scale)")
    result = export(user_file(body, "self.other = nn.Linear(3, 3)\n"
                                    "self.other.weight = self.linear.weight"))
    assert result.code == 0
    assert "equal the module's" in result.messages
    assert result.last_line.split(": ")[1].startswith("15 parameters in 3 tensors")


def test_no_grad_inside_autocast_which_torch_forgets_is_refused(export, user_file):
    body = ("with torch.autocast('cpu', torch.bfloat16):\n    y = self.linear(x)\n"
            "    with torch.no_grad():\n        z = self.linear(y)\nreturn y.float() + z")
    refused(export(user_file(body)), "differs from the module in", "gradients", "x.detach()")


def test_autocast_becomes_casts(export, user_file):
    body = "with torch.autocast('cpu', torch.bfloat16):\n    y = self.linear(x)\nreturn y.float()"
    result = export(user_file(body))
    assert result.code == 0
    assert len(result.nodes("aten._to_copy.default")) == 4  # weight, bias, input; back to float


def test_dropout_of_whole_channels_can_be_switched_off(export, user_file):
    body = "return F.dropout1d(self.linear(x)[..., None], 0.5)[..., 0]"
    assert export(user_file(body)).facts["batch_coupled"] is False


@pytest.mark.parametrize("body, words", [
    ("return self.linear(x) if x.sum() > 0 else x", ["torch.export cannot export the model"]),
    ("return self.linear(x).view(4, 3)[:x.shape[0]]", ["torch.export cannot export", "--static"]),
    ("return self.linear(x) + sum(x[row] for row in x[:, 0].nonzero())", ["data-dependent", "moe.py"]),
])
def test_what_torch_cannot_export_is_refused_with_its_reason(export, user_file, body, words):
    result = export(user_file(body))
    refused(result, *words)
    assert len(result.messages.splitlines()) < 15  # without the graph that torch prints


@pytest.mark.parametrize("body, operator", [
    ("rows = x[:, 0].nonzero().squeeze(1)\ny = self.linear(x)\nreturn y.index_add(0, rows, x[rows])", "aten.nonzero"),
    ("return self.linear(x) * x.sum().item()", "aten.item")])
def test_sizes_and_numbers_that_depend_on_values_are_refused_with_the_operator(export, user_file, body, operator):
    refused(export(user_file(body)), f"operator {operator}", "depends on the values", "moe.py")


def test_what_the_model_says_on_standard_error_is_kept(export, user_file):
    path = user_file("import sys\nprint('hello', file=sys.stderr)\nreturn self.linear(x)")
    assert "hello" in export(path).messages


@pytest.mark.parametrize("inputs, words", [
    ("(torch.randn(1, 3),)", ["a batch of 1", "--static"]),
    ("(torch.randn(4, 3), torch.randn(5, 3))", ["the first dimension of every input is the batch"]),
    ("(torch.tensor(1.0),)", ["have none"]),
    ("(3,)", ["a tuple of tensors"]),
    ("None", ["a tuple of tensors"]),
    ("[][0]", ["user_model.py:13", "IndexError"]),
])
def test_bad_example_inputs_are_refused(export, user_file, inputs, words):
    refused(export(user_file("return self.linear(x)", inputs=inputs)), *words)


@pytest.mark.parametrize("text, words", [
    ("def example_inputs():\n    return ()\n", ["has no model()"]),
    ("def model():\n    return 3\n", ["has no example_inputs()"]),
    ("def model(:\n", ["broken.py:1", "SyntaxError"]),
    ("\nimport no_such_module\n", ["broken.py:2", "no_such_module"]),
    ("def model():\n    return 3\ndef example_inputs():\n    return ()\n", ["returns a int"]),
])
def test_a_file_that_cannot_be_used_is_refused(export, tmp_path, text, words):
    path = tmp_path / "broken.py"
    path.write_text(text)
    refused(export(path), *words)


def test_a_missing_file_is_refused(export, tmp_path):
    refused(export(tmp_path / "none.py"), "none.py: no such file")


def test_another_ending_than_pt2_is_refused(export):
    refused(export("iterative", output="model.bin"), "has to end with .pt2")


def test_a_refused_export_leaves_the_old_file_alone(export, user_file):
    good = export(user_file("return self.linear(x)"))
    before = good.path.read_bytes()
    assert export(user_file("x.mul_(2)\nreturn self.linear(x)")).code == 2
    assert good.path.read_bytes() == before
