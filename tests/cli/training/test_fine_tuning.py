"""A fine-tuning run from end to end: a small GPT-2 on real text through four stages, and its
weights back in Python."""

from pathlib import Path

import pytest

from exporting import export
from pipelines import execute_json, load_file, model_path, needs_backend, torch, write_plan
from recipes import Recipe, transformers
from trainings import module_of

pytestmark = needs_backend
LICENSES = Path("/usr/share/common-licenses")
STEPS = 16
OPTIMIZER = {"kind": "adamw", "learning_rate": 0.01, "weight_decay": 0.1, "betas": [0.9, 0.95],
             "warmup_steps": 4, "decay": "cosine", "final_learning_rate": 0.001, "clip_norm": 1.0,
             "no_decay": "norms_and_biases", "frozen": ["transformer.wpe"]}
# Both sides add the same float32 numbers in other orders: at most 16 roundings of 2^-24, 1e-6, in a
# gradient, and as much in the step that AdamW makes of it, which is a share 0.01 of the parameters'
# size; 16 of them may add up.
TOLERANCE = 1e-5


def text_loss(model, tokens):
    with torch.no_grad():
        logits = model(input_ids=tokens).logits
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1),
                                             tokens[:, 1:].flatten()).item()


def as_bytes(text, length=32):
    tokens = torch.tensor(list(text))
    return tokens[:len(tokens) // length * length].view(-1, length)


def test_gpt2_learns_a_license_over_four_stages_and_goes_on_in_python(tmp_path):
    text = tmp_path / "text.txt"
    text.write_bytes((LICENSES / "Apache-2.0").read_bytes())
    plan = write_plan(tmp_path, model_path("gpt2-bytes"), text,
                      ["", "transformer.h.1", "transformer.h.2", "transformer.h.3"], 4, 4,
                      sequence=32, optimizer=OPTIMIZER, steps=STEPS)
    run = execute_json(plan, "--save", tmp_path / "saved")
    reference = Recipe(plan, module_of("gpt2-bytes"))
    losses, _, norms = reference.train(STEPS)
    assert run["losses"] == pytest.approx(losses, rel=TOLERANCE)
    # of a gradient, not of its mean
    assert run["gradient_norms"] == pytest.approx(norms, rel=100 * TOLERANCE)
    assert run["losses"][-1] < run["losses"][0]

    weights = tmp_path / "weights.safetensors"
    done = export(plan, "state-dict", weights, "--checkpoint", tmp_path / "saved")
    assert done.returncode == 0, done.stderr
    config = reference.module.config
    trained, untrained = (transformers.GPT2LMHeadModel(config).eval() for _ in range(2))
    trained.load_state_dict(load_file(weights), strict=True)
    untrained.load_state_dict(torch.export.load(model_path("gpt2-bytes")).state_dict, strict=True)

    unseen = as_bytes((LICENSES / "BSD").read_bytes())
    assert text_loss(trained, unseen) < text_loss(untrained, unseen)
    prompt = torch.tensor([list(b"the ")])
    written = trained.generate(prompt, max_new_tokens=24, do_sample=False, pad_token_id=0)
    assert written.shape == (1, 28)
    assert torch.equal(written[:, :4], prompt)
    assert bytes(written[0].tolist()).isascii()
    assert text_loss(trained, written) < text_loss(untrained, written)
