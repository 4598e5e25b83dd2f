"""tools/export_model.py finds out what evaluation mode changes, and compares it with the module's."""

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


def test_a_model_of_one_mode_changes_nothing(export, user_file):
    result = export(user_file("return self.linear(x)"))
    assert evaluation(result) == {"arguments": {}}
    assert "in evaluation mode" in result.messages


@pytest.mark.parametrize("body, why", [
    ("return self.linear(x) * (2 if self.training else 3)", "output 0 differs from model.eval()'s"),
    ("return self.linear(x) * (torch.rand(3) if self.training else 1)", "random numbers of its own"),
    ("return self.linear(x) * torch.rand(3)", "draws random numbers in evaluation mode too"),
    ("y = self.linear(x)\nreturn (y, y) if self.training else y", "returns 1 values in evaluation"),
])
def test_what_cannot_be_had_from_the_program_is_written_down_with_the_reason(
        export, user_file, body, why):
    result = export(user_file(body))
    assert why in evaluation(result)["differs"]
    assert why in result.messages


def test_without_weights_nothing_is_compared(export, user_file):
    assert "--meta" in evaluation(export(user_file("return self.linear(x)"),
                                         options=["--meta"]))["differs"]
