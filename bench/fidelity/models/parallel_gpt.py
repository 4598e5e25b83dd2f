"""A GPT-NeoX of transformers: attention and MLP of a layer side by side, rotary positions on a part
of each head, head and embedding apart."""

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM


class ParallelGPT(GPTNeoXForCausalLM):
    """Tokens [batch, sequence] to logits [batch, sequence, vocabulary]."""

    def forward(self, tokens):
        return super().forward(input_ids=tokens, use_cache=False).logits


def model(layers=4, hidden=64, heads=4, sequence=32, vocabulary=128):
    return ParallelGPT(GPTNeoXConfig(
        num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
        intermediate_size=4 * hidden, vocab_size=vocabulary, max_position_embeddings=sequence,
        hidden_dropout=0.0, attention_dropout=0.0)).train()


def example_inputs(batch=4, sequence=32, vocabulary=128):
    return {"tokens": torch.randint(vocabulary, (batch, sequence))}


def blocks(layers=4):
    return [f"gpt_neox.layers.{layer}" for layer in range(layers)] + ["gpt_neox.final_layer_norm"]
