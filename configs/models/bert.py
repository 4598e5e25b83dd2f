"""BERT of Hugging Face's transformers, with random weights: it sees both sides of a position and
fills in masked tokens; the head is tied to the word embedding.

Layers are `bert.encoder.layer.0` …, all names those of BertForMaskedLM. The vocabulary of 257 is
the bytes and the mask. BERT base, 110 million parameters:

    --set layers=12 --set hidden=768 --set heads=12 --set sequence=512 --set vocabulary=30522
"""

import torch
from transformers import BertConfig, BertForMaskedLM


class Bert(BertForMaskedLM):
    """Tokens [batch, sequence] to logits [batch, sequence, vocabulary]."""

    def forward(self, tokens):
        return super().forward(input_ids=tokens).logits


def model(layers=4, hidden=128, heads=4, sequence=64, vocabulary=257, dropout=0.0):
    return Bert(BertConfig(
        num_hidden_layers=layers, hidden_size=hidden, intermediate_size=4 * hidden,
        num_attention_heads=heads, max_position_embeddings=sequence, vocab_size=vocabulary,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)).train()


def example_inputs(batch=4, sequence=64, vocabulary=257):
    return {"tokens": torch.randint(vocabulary, (batch, sequence))}
