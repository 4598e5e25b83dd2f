"""A Qwen3 of transformers: RMS norm of queries and keys too, grouped queries, gated MLP, head and
embedding tied."""

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM


class Qwen(Qwen3ForCausalLM):
    """Tokens [batch, sequence] to logits [batch, sequence, vocabulary]."""

    def forward(self, tokens):
        return super().forward(input_ids=tokens, use_cache=False).logits


def model(layers=4, hidden=64, heads=4, sequence=32, vocabulary=128):
    return Qwen(Qwen3Config(
        num_hidden_layers=layers, hidden_size=hidden, intermediate_size=3 * hidden,
        num_attention_heads=heads, num_key_value_heads=heads // 2, head_dim=hidden // heads,
        vocab_size=vocabulary, max_position_embeddings=sequence, tie_word_embeddings=True)).train()


def example_inputs(batch=4, sequence=32, vocabulary=128):
    return {"tokens": torch.randint(vocabulary, (batch, sequence))}


def blocks(layers=4):
    return [f"model.layers.{layer}" for layer in range(layers)] + ["model.norm"]
