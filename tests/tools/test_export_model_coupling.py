"""tools/export_model.py finds out whether the samples of a batch influence each other."""

import pytest

from exporter import export, user_file  # noqa: F401 (fixtures)


def test_a_loss_as_output_does_not_count_as_coupled(export, user_file):
    path = user_file("return F.mse_loss(self.linear(x), target)", arguments="x, target",
                     inputs="{'x': torch.randn(4, 3), 'target': torch.randn(4, 3)}")
    result = export(path)
    assert result.facts["batch_coupled"] is False
    assert result.facts["input_names"] == ["x", "target"]


@pytest.mark.parametrize("function, batch_coupled", [
    ("F.cross_entropy(y, t, ignore_index=0)", False),
    ("F.cross_entropy(y, t, torch.tensor([1., 2., 3.]), ignore_index=0)", False),
    ("F.nll_loss(y.log_softmax(-1), t, ignore_index=0)", False),
    ("2 * F.cross_entropy(y, t, ignore_index=0)", True)])
def test_a_mean_over_the_targets_that_count_couples_unless_it_is_the_loss(export, user_file,
                                                                         function, batch_coupled):
    """One half of the batch has a target that counts, the other has two."""
    path = user_file(f"y = self.linear(x)\nreturn {function}", arguments="x, t",
                     inputs="{'x': torch.randn(4, 3), 't': torch.tensor([0, 1, 1, 2])}")
    assert export(path).facts["batch_coupled"] is batch_coupled


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


def test_dropout_of_whole_channels_can_be_switched_off(export, user_file):
    body = "return F.dropout1d(self.linear(x)[..., None], 0.5)[..., 0]"
    assert export(user_file(body)).facts["batch_coupled"] is False
