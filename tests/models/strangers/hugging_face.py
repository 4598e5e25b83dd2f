"""Models of transformers as they are, called as its users call them; small, with random weights."""

import torch
import transformers as hf

WORDS, LENGTH, BATCH = 61, 12, 4
TEXT = {"vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 32}
PICTURES = {"image_size": 32, "num_labels": 8}


def labelled():
    """The loss is the model's own; the first sample is padded."""
    ids = torch.randint(1, WORDS, (BATCH, LENGTH))
    mask = torch.ones_like(ids)
    mask[0, -3:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.clone()}


def pictures():
    return {"pixel_values": torch.randn(BATCH, 3, 32, 32)}


def llama():
    """Returns a cache of keys and values, if it is let."""
    return hf.LlamaForCausalLM(hf.LlamaConfig(**TEXT, num_key_value_heads=1))


def bart():
    """May skip layers by chance; its default is never."""
    return hf.BartForConditionalGeneration(hf.BartConfig(
        vocab_size=WORDS, d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, dropout=0.0,
        max_position_embeddings=32))


def beit():
    """Views the result of an attention whose bias is trained: its kernel returns other strides."""
    return hf.BeitForImageClassification(hf.BeitConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        patch_size=8, use_relative_position_bias=True, drop_path_rate=0.0, **PICTURES))


def swin():
    return hf.SwinForImageClassification(hf.SwinConfig(
        patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4,
        drop_path_rate=0.0, **PICTURES))


def dinov2():
    """Has a parameter that training does not use."""
    return hf.Dinov2ForImageClassification(hf.Dinov2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, patch_size=8, **PICTURES))


def convnextv2():
    return hf.ConvNextV2ForImageClassification(hf.ConvNextV2Config(
        num_stages=2, hidden_sizes=[8, 16], depths=[1, 2], **PICTURES))


def deberta():
    return hf.DebertaV2ForMaskedLM(hf.DebertaV2Config(
        **TEXT, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, relative_attention=True,
        pos_att_type=["p2c", "c2p"], max_position_embeddings=32))


def whisper():
    return hf.WhisperForAudioClassification(hf.WhisperConfig(
        d_model=16, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=32, num_mel_bins=8,
        max_source_positions=20, dropout=0.0, num_labels=8, classifier_proj_size=8))


MODELS = {"llama": (llama, labelled), "bart": (bart, labelled), "deberta": (deberta, labelled),
          "beit": (beit, pictures), "swin": (swin, pictures), "dinov2": (dinov2, pictures),
          "convnextv2": (convnextv2, pictures),
          "whisper": (whisper, lambda: {"input_features": torch.randn(BATCH, 8, 40)})}


def model(kind):
    return MODELS[kind][0]()


def example_inputs(kind):
    return MODELS[kind][1]()
