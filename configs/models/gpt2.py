"""GPT-2 of Hugging Face's transformers, with random weights: learned positions, pre-norm blocks,
the head tied to the token embedding.

Blocks are `transformer.h.0` …, all names those of GPT2LMHeadModel, so that a state dictionary goes
both ways. GPT-2 small, 124 million parameters:

    --set layers=12 --set hidden=768 --set heads=12 --set sequence=1024 --set vocabulary=50257

`--set weights=FILE.safetensors` takes a state dictionary of GPT2LMHeadModel in place of random
weights, such as `penstock export --format state-dict` writes.
"""

import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel


class GPT2(GPT2LMHeadModel):
    """Tokens [batch, sequence] to logits [batch, sequence, vocabulary]."""

    def forward(self, tokens):
        return super().forward(input_ids=tokens, use_cache=False).logits


def model(layers=4, hidden=128, heads=4, sequence=64, vocabulary=256, dropout=0.0, weights=""):
    module = GPT2(GPT2Config(
        n_layer=layers, n_embd=hidden, n_head=heads, n_positions=sequence, vocab_size=vocabulary,
        resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout))
    if weights:
        module.load_state_dict(load_file(weights))
    return module.train()


def example_inputs(batch=4, sequence=64, vocabulary=256):
    return {"tokens": torch.randint(vocabulary, (batch, sequence))}
