"""tools/export_model.py finds what evaluation mode changes, and compares it with the module's: with
weights by running both, without by their operators."""

import pytest

from exporter import export, user_file  # noqa: F401 (fixtures)

pytestmark = pytest.mark.parametrize("options", [[], ["--meta"]], ids=["weights", "meta"])


def evaluation(result):
    assert result.code == 0, result.messages
    return result.facts["evaluation"]


def test_dropout_and_batch_norm_have_other_arguments_in_evaluation_mode(export, options):
    result = export("transformer", "layers=1", "dropout=0.1", options=options)
    found = evaluation(result)["arguments"]
    assert found["native_dropout"] == {"train": False}
    assert found["scaled_dot_product_attention"] == {"dropout_p": 0.0}
    found = evaluation(export("resnet", options=options))["arguments"]
    assert set(map(str, found.values())) == {"{'training': False}"}


SCALED = "mask = x.new_empty(x.shape[0], 1).bernoulli_(0.75)\ny = self.linear(x) * mask.div_(0.75)"
FLOORED = ("kept = torch.rand(x.shape[0], 1, device=x.device).add(0.75).floor_()\n"
           "y = self.linear(x).div(0.75) * kept")


@pytest.mark.parametrize("body", [
    "return F.dropout2d(self.linear(x)[:, :, None, None], 0.25, self.training)",
    "return F.alpha_dropout(self.linear(x), 0.25, self.training)",
    "return F.feature_alpha_dropout(self.linear(x)[:, :, None], 0.25, self.training)",
    f"if not self.training: return x + self.linear(x)\n{SCALED}\nreturn x + y",
    f"if not self.training: return x + self.linear(x)\n{FLOORED}\nreturn x + y"])
def test_masks_that_a_model_draws_pass_everything(export, user_file, options, body):
    """Dropout of features and of self-normalising networks, and stochastic depth as timm and as
    transformers have it."""
    changed = evaluation(export(user_file(body), options=options))["arguments"]
    assert len(changed) >= 2
    assert {"p": 1.0} in changed.values() or {"other": 1.0} in changed.values()


def test_an_lstm_leaves_out_the_dropout_between_its_layers(export, user_file, options):
    file = user_file("return self.linear(self.lstm(x[:, None])[0][:, 0])",
                     "self.lstm = nn.LSTM(3, 3, num_layers=2, dropout=0.5, batch_first=True)")
    assert evaluation(export(file, options=options))["arguments"] == {"lstm": {"dropout": 0.0}}


def test_a_model_of_one_mode_changes_nothing(export, user_file, options):
    result = export(user_file("return self.linear(x)"), options=options)
    assert evaluation(result) == {"arguments": {}}
    assert "in evaluation mode" in result.messages


@pytest.mark.parametrize("body, init, why", [
    ("return self.linear(x) * (2 if self.training else 3)", "", "model.eval()'s"),
    ("return x + (1 if self.training else 1.0 + 1e-3) * self.linear(x)", "", "model.eval()'s"),
    ("return x + torch.tensor(1.0 if self.training else 2.0)", "", "model.eval()'s"),
    ("return self.linear(x) if self.training else self.other(x)", "self.other = nn.Linear(3, 3)",
     "model.eval()'s"),
    ("return self.linear(x) * (torch.rand_like(x) if self.training else 1)", "",
     "numbers of its own"),
    ("return self.linear(x) * torch.rand_like(x)", "", "draws random numbers in evaluation mode"),
    ("return F.dropout(self.linear(x), 0.5)", "", "draws random numbers in evaluation mode too"),
    ("self.seen.add_(1)\nreturn self.linear(x)", "self.register_buffer('seen', torch.zeros(1))",
     "updates its buffer 'seen' in evaluation mode too"),
    ("y = self.linear(x)\nreturn (y, y) if self.training else y", "", "returns 1 values in"),
])
def test_what_cannot_be_had_from_the_program_is_written_down_with_the_reason(
        export, user_file, options, body, init, why):
    result = export(user_file(body, init), options=options)
    assert why in evaluation(result)["differs"]
    assert why in result.messages


SWAPPED = """def eval(self):
    {}
    return super().eval()
self.averaged = nn.Parameter(torch.ones(3, 3), requires_grad=False)
self.eval = eval.__get__(self)
"""


@pytest.mark.parametrize("swap", ["self.linear.weight.data.copy_(self.averaged)",
                                  "self.linear.weight = self.averaged"])
def test_an_eval_that_puts_other_weights_in_place_is_noticed(export, user_file, options, swap):
    init = SWAPPED.replace("super().eval()", "self.train(False)").format(swap)
    assert "differs" in evaluation(export(user_file("return self.linear(x)", init),
                                          options=options))
