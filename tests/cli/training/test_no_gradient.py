"""Parameters that the loss does not depend on stay as they are, as in PyTorch, which leaves their
gradient None.

AdamW's weight decay, too, passes them by: in every split, by all holders, in all replicas.
"""

import pytest

from pipelines import (difference, execute_json, load_file, model_path, needs_backend,
                       torch, vectors, write_plan)
from recipes import Recipe
from trainings import FLOAT64, STEPS, saved_tensors

pytestmark = needs_backend
ASIDE = ("sideways.weight", "sideways.bias", "auxiliary.weight", "auxiliary.bias")
ADAMW = {"kind": "adamw", "learning_rate": 0.01, "weight_decay": 0.5, "clip_norm": 0.5}


class OfFirstOutput(Recipe):
    def loss(self, output, target):
        return super().loss(output["logits"], target)


@pytest.mark.parametrize("begins, more", [
    ([""], {}),
    (["", "head"], {"schedule": "gpipe"}),
    (["", "head"], {"shared_parameters": dict.fromkeys(ASIDE[:2], "transmit")}),
    (["", "head"], {"data_parallel": 2}),
    (["", "sideways", "head", "auxiliary"], {"schedule": "zb-h1"}),
], ids=["one", "two", "transmitted", "replicas", "four"])
def test_what_the_loss_does_not_depend_on_is_not_decayed(tmp_path, begins, more):
    data = vectors(tmp_path, "x", 8, torch.float64, classes=5)
    plan = write_plan(tmp_path, model_path("aside-f64"), data, begins,
                      4 // more.get("data_parallel", 1), 2, optimizer=ADAMW, steps=STEPS, **more)
    gradients, saved = tmp_path / "gradients.safetensors", tmp_path / "saved"
    run = execute_json(plan, "--dump-gradients", gradients, "--save", saved)
    reference = OfFirstOutput(plan)
    before = {name: parameter.detach().clone() for name, parameter in reference.parameters.items()}
    losses, expected, norms = reference.train(STEPS)
    assert expected.keys() == before.keys() - set(ASIDE)
    assert run["losses"] == pytest.approx(losses, rel=FLOAT64)
    assert run["gradient_norms"] == pytest.approx(norms, rel=FLOAT64)
    dumped = load_file(gradients)
    assert difference({name: dumped[name] for name in expected}, expected) <= FLOAT64
    assert not any(dumped[name].any() for name in ASIDE)
    tensors = saved_tensors(saved / f"step-{STEPS}")
    found = {name: tensors[f"parameter.{name}"] for name in before}
    assert (difference(found, {name: p.detach() for name, p in reference.parameters.items()})
            <= FLOAT64)
    for name in ASIDE:
        assert torch.equal(found[name], before[name]), name
        assert f"steps.{name}" not in tensors
