"""tools/export_model.py finds what evaluation mode changes, and compares it with the module's."""

import pytest

from exporter import export, user_file  # noqa: F401 (fixtures)


def evaluation(result):
    assert result.code == 0, result.messages
    return result.facts["evaluation"]


def test_dropout_and_batch_norm_have_other_arguments_in_evaluation_mode(export):
    found = evaluation(export("transformer", "layers=1", "dropout=0.1"))["arguments"]
    assert found["native_dropout"] == {"train": False}
    assert found["scaled_dot_product_attention"] == {"dropout_p": 0.0}
    found = evaluation(export("resnet"))["arguments"]
    assert set(map(str, found.values())) == {"{'training': False}"}


SCALED = "mask = x.new_empty(x.shape[0], 1).bernoulli_(0.75)\ny = self.linear(x) * mask.div_(0.75)"
FLOORED = "y = self.linear(x).div(0.75) * (0.75 + torch.rand(x.shape[0], 1)).floor_()"


@pytest.mark.parametrize("body", [
    "return F.dropout2d(self.linear(x)[:, :, None, None], 0.25, self.training)",
    "return F.alpha_dropout(self.linear(x), 0.25, self.training)",
    "return F.feature_alpha_dropout(self.linear(x)[:, :, None], 0.25, self.training)",
    f"if not self.training: return x + self.linear(x)\n{SCALED}\nreturn x + y",
    f"if not self.training: return x + self.linear(x)\n{FLOORED}\nreturn x + y"])
def test_masks_that_a_model_draws_pass_everything(export, user_file, body):
    """Dropout of features and of self-normalising networks, and stochastic depth as timm and as
    transformers have it."""
    changed = evaluation(export(user_file(body)))["arguments"]
    assert len(changed) >= 2
    assert {"p": 1.0} in changed.values() or {"other": 1.0} in changed.values()


def test_a_model_of_one_mode_changes_nothing(export, user_file):
    result = export(user_file("return self.linear(x)"))
    assert evaluation(result) == {"arguments": {}}
    assert "in evaluation mode" in result.messages


@pytest.mark.parametrize("body, why", [
    ("return self.linear(x) * (2 if self.training else 3)", "output 0 differs from model.eval()"),
    ("return self.linear(x) * (torch.rand(3) if self.training else 1)", "numbers of its own"),
    ("return self.linear(x) * torch.rand(3)", "draws random numbers in evaluation mode too"),
    ("y = self.linear(x)\nreturn (y, y) if self.training else y", "returns 1 values in"),
])
def test_what_cannot_be_had_from_the_program_is_written_down_with_the_reason(
        export, user_file, body, why):
    result = export(user_file(body))
    assert why in evaluation(result)["differs"]
    assert why in result.messages


def test_without_weights_nothing_is_compared(export, user_file):
    assert "--meta" in evaluation(export(user_file("return self.linear(x)"),
                                         options=["--meta"]))["differs"]
