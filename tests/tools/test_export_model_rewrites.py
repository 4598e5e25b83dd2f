"""tools/export_model.py writes what is functional and equal to the module."""

import subprocess
import sys

import torch

from exporter import export, user_file  # noqa: F401 (fixtures)


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


def test_the_last_states_of_an_lstm_have_their_shapes(export, user_file):
    """torch.export alone adds a dimension to both, and so to all that follows from them."""
    body = "y, (h, c) = self.lstm(x)\nreturn h.transpose(0, 1), self.linear(x), c[-1]"
    result = export(user_file(body, "self.lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, "
                              "batch_first=True)", inputs="(torch.randn(4, 2, 3),)"))
    assert result.code == 0, result.messages
    states = [node.meta["val"] for node in result.program.graph.output_node().args[0]]
    assert [value.dim() for value in states] == [3, 3, 2]


def test_complex_numbers_keep_both_parts_in_another_precision(export, user_file):
    body = ("z = torch.view_as_complex(self.linear(x)[:, :2].contiguous()) * self.turn\n"
            "return torch.view_as_real(z), z")
    init = ("self.turn = nn.Parameter(torch.tensor([1 + 2j]))\n"
            "self.register_buffer('unit', torch.tensor([1j]))")
    result = export(user_file(body, init), options=["--dtype", "float64"])
    assert result.code == 0, result.messages
    state = result.program.state_dict
    assert state["turn"].dtype == torch.complex128 and state["turn"].tolist() == [1 + 2j]
    assert state["unit"].tolist() == [1j]


def test_weight_norm_of_both_kinds_is_exported(export, user_file):
    """The older one keeps its weight as a computed attribute, which torch refuses to copy."""
    init = ("self.old = nn.utils.weight_norm(nn.Linear(3, 3))\n"
            "self.new = nn.utils.parametrizations.weight_norm(self.linear)")
    result = export(user_file("return self.new(self.old(x))", init))
    assert result.code == 0, result.messages
    assert {"old.weight_g", "old.weight_v"} < set(result.program.state_dict)


def test_norms_without_running_statistics_stay_as_they_are(export, user_file):
    body = "h = self.linear(self.norm(x))\nreturn self.instance(h.unsqueeze(1).expand(-1, 2, -1))"
    init = ("self.norm = nn.BatchNorm1d(3, track_running_stats=False)\n"
            "self.instance = nn.InstanceNorm1d(2, affine=True)")
    result = export(user_file(body, init))
    assert result.code == 0, result.messages
    assert "aten.instance_norm.default" in result.targets()
    assert not result.program.graph_signature.buffers_to_mutate


def test_in_place_operators_become_functional(export, user_file):
    body = "y = self.linear(x)\ny.mul_(2)\ny[:, 0] = 1.0\nreturn y"
    result = export(user_file(body))
    assert result.code == 0
    assert not any(name.split(".")[1].endswith("_") for name in result.targets() if "aten" in name)


def test_writes_of_what_needs_a_gradient_pass_it_on(export, user_file):
    """Of one element, of less than is written, of another type, of another layout; aten::copy has
    no derivative."""
    body = ("h = self.linear(x)\nz = torch.zeros(x.shape[0], 3, dtype=torch.float64)\n"
            "z[:, 0] = h[:, 1] * 2\nz[:, 1:] = h[:, :1]\n"
            "turned = torch.empty(3, x.shape[0])\nturned.copy_(h.t())\n"
            "self.last.copy_(h.detach().mean(0))\n"
            "return z + turned.view(3, 1, -1).sum(0).t()")
    result = export(user_file(body, "self.register_buffer('last', torch.zeros(3))"))
    assert result.code == 0, result.messages
    assert "equal the module's" in result.messages and "aten.copy.default" not in result.targets()


def test_a_buffer_updated_in_place_is_an_output(export, user_file):
    result = export(user_file("self.calls.add_(1)\nreturn self.linear(x)",
                              "self.register_buffer('calls', torch.zeros(()))"))
    assert result.code == 0
    assert list(result.program.graph_signature.buffers_to_mutate.values()) == ["calls"]
    assert result.facts["batch_coupled"] is False


def test_an_assigned_buffer_is_updated_where_its_value_is_known(export, user_file):
    """By the first layers, for a stage of them updates it; of a constant nothing is waited for."""
    body = ("self.mean = torch.lerp(self.mean, x.detach().mean(0), 0.5)\n"
            "self.started = torch.ones(())\nself.none = torch.zeros(())\n"
            "return self.linear(self.linear(x - self.mean) * self.started)")
    result = export(user_file(body, "self.register_buffer('mean', torch.zeros(3))\n"
                                    "self.register_buffer('started', torch.zeros(()))\n"
                                    "self.register_buffer('none', torch.ones(()))"))
    assert result.code == 0, result.messages
    order = [node.name for node in result.program.graph.nodes]
    updates = {buffer: order.index(name) for name, buffer
               in result.program.graph_signature.buffers_to_mutate.items()}
    assert updates.keys() == {"mean", "started", "none"}
    assert updates["mean"] < order.index("linear")
    module, x = result.program.module(), torch.randn(4, 3)
    module(x)
    assert torch.allclose(module.mean, x.mean(0) / 2)
    assert (module.started, module.none) == (1, 0)


def test_needless_copies_are_dropped_but_an_output_stays_one(export, user_file):
    path = user_file("y = F.dropout(self.linear(x), 0.0)\nreturn y.clone().relu(), x.clone()")
    result = export(path)
    assert [node.args[0].name for node in result.nodes("aten.clone.default")] == ["x"]


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
    assert result.report.startswith("exported   15 parameters in 3 tensors")


def test_autocast_becomes_casts(export, user_file):
    body = "with torch.autocast('cpu', torch.bfloat16):\n    y = self.linear(x)\nreturn y.float()"
    result = export(user_file(body))
    assert result.code == 0
    assert len(result.nodes("aten._to_copy.default")) == 4  # weight, bias, input; back to float


def test_pipe_split_is_taken_out_and_named_by_the_operator_that_follows(export, user_file):
    path = user_file("y = self.linear(x)\npipe_split()\ny = y.relu()\npipe_split()\npipe_split()\n"
                     "return self.linear(y)")
    path.write_text("from penstock import pipe_split\n" + path.read_text())
    result = export(path)
    assert result.facts["splits"] == ["relu", "linear_1"]
    # torch reads the file without torch.distributed.pipelining, where the marker is at home.
    load = (f"import sys, torch; torch.export.load('{result.path}'); assert "
            "'torch.distributed.pipelining' not in sys.modules")
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", load], check=False).returncode == 0
