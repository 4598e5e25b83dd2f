"""T5 of Hugging Face's transformers, with random weights: an encoder, a decoder whose every layer
reads the encoder's result, positions by a bias that all layers share, one embedding for encoder,
decoder and head.

Layers are `encoder.block.0` … and `decoder.block.0` … . The names are those of
T5ForConditionalGeneration. The vocabulary of 257 is the bytes and the mask. T5 small, 60 million
parameters:

    --set layers=6 --set hidden=512 --set heads=8 --set feedforward=2048 --set sequence=512
    --set vocabulary=32128
"""

import torch
from transformers import T5Config, T5ForConditionalGeneration


class T5(T5ForConditionalGeneration):
    """Tokens and decoder tokens [batch, sequence] to logits [batch, sequence, vocabulary]."""

    def forward(self, tokens, decoder_tokens):
        return super().forward(input_ids=tokens, decoder_input_ids=decoder_tokens,
                               use_cache=False).logits


def model(layers=2, hidden=128, heads=4, feedforward=512, vocabulary=257, dropout=0.0):
    """`layers` in the encoder and as many in the decoder."""
    return T5(T5Config(
        num_layers=layers, num_decoder_layers=layers, d_model=hidden, d_kv=hidden // heads,
        num_heads=heads, d_ff=feedforward, vocab_size=vocabulary, dropout_rate=dropout)).train()


def example_inputs(batch=4, sequence=64, vocabulary=257):
    return {"tokens": torch.randint(vocabulary, (batch, sequence)),
            "decoder_tokens": torch.randint(vocabulary, (batch, sequence))}
