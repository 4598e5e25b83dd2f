"""Llama of Hugging Face's transformers, with random weights: rotary positions, RMS norm, gated MLP,
queries in groups that share keys and values.

Layers are `model.layers.0` …, all names those of LlamaForCausalLM. Llama 3 8B, exported without
weights:

    --set layers=32 --set hidden=4096 --set feedforward=14336 --set heads=32 --set key_heads=8
    --set sequence=8192 --set vocabulary=128256 --set rope_theta=500000 --dtype bfloat16 --meta
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM


class Llama(LlamaForCausalLM):
    """Tokens [batch, sequence] to logits [batch, sequence, vocabulary]."""

    def forward(self, tokens):
        return super().forward(input_ids=tokens, use_cache=False).logits


def model(layers=4, hidden=128, feedforward=344, heads=4, key_heads=2, sequence=64, vocabulary=256,
          rope_theta=10000.0, tied=False):
    return Llama(LlamaConfig(
        num_hidden_layers=layers, hidden_size=hidden, intermediate_size=feedforward,
        num_attention_heads=heads, num_key_value_heads=key_heads, vocab_size=vocabulary,
        max_position_embeddings=sequence, tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta})).train()


def example_inputs(batch=4, sequence=64, vocabulary=256):
    return {"tokens": torch.randint(vocabulary, (batch, sequence))}
