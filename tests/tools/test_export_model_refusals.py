"""tools/export_model.py refuses in one message, with the place and the cure."""

import pytest

from exporter import export, refused, user_file  # noqa: F401 (fixtures)


def test_a_mutated_input_is_refused_by_name(export, user_file):
    refused(export(user_file("x.mul_(2)\nreturn self.linear(x)")), "changes its input 'x' in place",
            "x = x.clone()")


def test_an_instance_norm_with_running_statistics_is_refused(export, user_file):
    path = user_file("return self.norm(self.linear(x))",
                     "self.norm = nn.InstanceNorm1d(4, track_running_stats=True)",
                     inputs="(torch.randn(6, 4, 3),)")
    refused(export(path), "operator aten.instance_norm", "track_running_stats=False")


def test_a_buffer_assigned_in_a_submodule_is_refused(export, user_file):
    path = user_file("return self.inner(x)", "self.inner = Inner()")
    inner = ("class Inner(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
             "        self.linear = nn.Linear(3, 3)\n"
             "        self.register_buffer('mean', torch.zeros(3))\n"
             "    def forward(self, x):\n        self.mean = 0.9 * self.mean + x.mean(0)\n"
             "        return self.linear(x) - self.mean.detach()\n")
    path.write_text(path.read_text().replace("class Net", inner + "class Net"))
    refused(export(path), "buffer 'inner.mean'", "copy_")


def test_layers_that_are_skipped_by_chance_are_refused(export, user_file):
    branch = "return x if torch.rand([]) < self.layerdrop else self.linear(x)"
    assert export(user_file(branch, "self.layerdrop = 0.0"), output="never.pt2").code == 0
    (user_file("").parent / "never.pt2").unlink()
    refused(export(user_file(branch, "self.layerdrop = 0.1")), "layerdrop = 0.1", "layerdrop=0")


def test_no_grad_inside_autocast_which_torch_forgets_is_refused(export, user_file):
    body = ("with torch.autocast('cpu', torch.bfloat16):\n    y = self.linear(x)\n"
            "    with torch.no_grad():\n        z = self.linear(y)\nreturn y.float() + z")
    refused(export(user_file(body)), "differs from the module in", "gradients", "x.detach()")


def test_a_backward_of_ones_own_which_torch_forgets_is_refused(export, user_file):
    path = user_file("return Straight.apply(self.linear(x))")
    straight = ("class Straight(torch.autograd.Function):\n    @staticmethod\n"
                "    def forward(context, x):\n"
                "        return x.round()\n    @staticmethod\n"
                "    def backward(context, gradient):\n"
                "        return gradient\n")
    path.write_text(path.read_text().replace("class Net", straight + "class Net"))
    refused(export(path), "gradients", "torch.autograd.Function")


@pytest.mark.parametrize("body, words", [
    ("return self.linear(x) if x.sum() > 0 else x", ["torch.export cannot export the model"]),
    ("return self.linear(x).view(4, 3)[:x.shape[0]]", ["torch.export cannot export", "--static"]),
    ("return self.linear(x) + sum(x[row] for row in x[:, 0].nonzero())",
     ["data-dependent", "moe.py"]),
])
def test_what_torch_cannot_export_is_refused_with_its_reason(export, user_file, body, words):
    result = export(user_file(body))
    refused(result, *words)
    assert len(result.messages.splitlines()) < 15  # without the graph that torch prints


@pytest.mark.parametrize("body, operator", [
    ("rows = x[:, 0].nonzero().squeeze(1)\ny = self.linear(x)\n"
     "return y.index_add(0, rows, x[rows])", "aten.nonzero"),
    ("return self.linear(x) * x.sum().item()", "aten.item")])
def test_sizes_and_numbers_that_depend_on_values_are_refused_with_the_operator(
        export, user_file, body, operator):
    refused(export(user_file(body)), f"operator {operator}", "depends on the values", "moe.py")


def test_a_model_that_cannot_be_trained_itself_is_refused_with_torchs_reason(export, user_file):
    body = "y = self.linear(x).tanh()\ny[:, 0] = 1\nreturn y"
    refused(export(user_file(body)), "the model cannot be trained",
            "modified by an inplace operation")


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


@pytest.mark.parametrize("body, returned", [
    ("y = self.linear(x)", "returned None"),
    ("self.linear(x)\nreturn None, [None]", "returned None"),
    ("return x.shape[0], 3", "returned no tensor")])
def test_a_forward_that_returns_no_tensor_is_refused(export, user_file, body, returned):
    refused(export(user_file(body)), f"forward {returned}", "End forward with `return`")


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


def test_a_size_that_the_code_makes_a_number_is_told_with_what_keeps_it_free(export, user_file):
    refused(export(user_file("return self.linear(x) + torch.ones(len(x), 1)")), "len(x)",
            "x.shape[0] does not", "--static")
