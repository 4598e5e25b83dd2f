"""tools/export_model.py on the models of configs/models."""

import pytest
import torch

from exporter import export, refused, run_export  # noqa: F401 (export is a fixture)

SMALL = ["layers=2", "heads=2", "dim=16", "feedforward=32", "vocabulary=20", "sequence=6"]
TEXT = ["batch_first=true", "causal=true", "positions=true", "dropout=0"]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return run_export(tmp_path_factory.mktemp("reference"), "transformer", SMALL)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return run_export(tmp_path_factory.mktemp("text"), "transformer", SMALL + TEXT)


@pytest.mark.parametrize("name, coupled", [("pippy", False), ("iterative", False),
                                           ("image_classifier", False)])
def test_small_networks_are_exported_with_a_dynamic_batch(export, name, coupled):
    result = export(name)
    assert result.code == 0
    assert result.facts["batch_coupled"] is coupled
    assert "outputs, gradients and buffers equal the module's" in result.messages
    module = result.program.module()
    [name] = result.facts["input_names"]
    shape = next(n.meta["val"].shape for n in result.program.graph.nodes if n.name == name)
    for batch in (1, 7):
        inputs = {name: torch.randn(batch, *shape[1:])}
        assert module(**inputs).shape == (batch, 10)


def test_the_reference_transformer_warns_that_samples_influence_each_other(reference):
    assert reference.code == 0
    assert "WARNING: samples of a batch influence each other" in reference.messages
    assert reference.facts["batch_coupled"] is True
    assert reference.facts["settings"]["dropout"] == 0.1


def test_the_text_transformer_is_independent_and_draws_nothing(text):
    assert text.facts["batch_coupled"] is False
    assert not any("dropout" in target for target in text.targets())
    for node in text.nodes("aten.scaled_dot_product_attention.default"):
        _, _, _, mask, dropout, causal = node.args
        assert (mask, dropout, causal) == (None, 0.0, True)


def test_attention_linear_and_layer_norm_stay_whole(reference, text):
    for result in (reference, text):
        counts = {name: len(result.nodes(f"aten.{name}.default"))
                  for name in ("scaled_dot_product_attention", "linear", "layer_norm")}
        # A layer has 2 attentions, 2 + 3 projections, 2 feedforward; and 3 norms.
        assert counts == {"scaled_dot_product_attention": 4, "linear": 2 * 7 + 1,
                          "layer_norm": 2 * 3 + 1}


def test_dropout_stays_active_in_attention_and_layers(reference):
    attention = reference.nodes("aten.scaled_dot_product_attention.default")
    assert [node.args[4] for node in attention] == [0.1] * 4
    layers = reference.nodes("aten.native_dropout.default")
    assert [node.args[1:] for node in layers] == [(0.1, True)] * 8


def test_a_causal_position_sees_nothing_later(text):
    program = text.program.module()
    tokens = torch.arange(6).repeat(3, 1)
    before = program(tokens=tokens)
    for position in range(6):
        changed = tokens.clone()
        changed[:, position] = 19
        difference = (program(tokens=changed) - before).abs().amax(dim=(0, 2))
        # Positions are rows of every matrix product, so what is not seen changes no bit.
        assert torch.all(difference[:position] == 0)
        assert torch.all(difference[position:] > 1e-4)


def test_without_causal_a_position_sees_later_ones(export):
    program = export("transformer", *SMALL, "batch_first=true", "positions=true",
                     "dropout=0").program.module()
    tokens = torch.arange(6).repeat(3, 1)
    changed = tokens.clone()
    changed[:, 5] = 19
    assert (program(tokens=changed) - program(tokens=tokens))[:, 0].abs().max() > 1e-4


def test_the_gpt_is_independent_in_its_samples_and_as_large_as_its_settings_say(export):
    result = export("gpt", "layers=2", "hidden=32", "heads=4", "vocabulary=64", "sequence=16")
    assert result.code == 0, result.messages
    assert result.facts["batch_coupled"] is False
    assert {"aten.scaled_dot_product_attention.default", "aten.linear.default"} <= result.targets()
    # Two embeddings, blocks of 12 matrices of H x H with 13 vectors of H, the last norm, the head.
    assert (f"{64 * 32 + 16 * 32 + 2 * (12 * 32 ** 2 + 13 * 32) + 2 * 32 + 32 * 64:,} parameters"
            in result.report)


def test_a_tied_gpt_has_one_weight_for_embedding_and_head(export):
    result = export("gpt", "layers=1", "hidden=32", "heads=4", "vocabulary=64", "sequence=16",
                    "tied=true", "dtype=bfloat16", options=["--meta"])
    assert result.code == 0, result.messages
    assert f"{64 * 32 + 16 * 32 + 12 * 32 ** 2 + 13 * 32 + 2 * 32:,} parameters" in result.report
    assert result.facts["tied"] == [["token_embedding.weight", "head.weight"]]


def test_a_gpt_whose_heads_do_not_divide_its_width_is_refused(export):
    refused(export("gpt", "hidden=30", "heads=4"), "hidden=30", "heads=4")


def test_repeated_calls_of_a_module_are_counted(export):
    keys = [list(node.meta["nn_module_stack"])[1]
            for node in export("iterative", "width=8").nodes("aten.relu.default")]
    assert keys == ["L__self__iter_block", "L__self__iter_block@1", "L__self__iter_block@2"]


def test_module_paths_of_the_transformer_name_its_layers(text):
    paths = [list(node.meta["nn_module_stack"].values())[-1][0]
             for node in text.nodes("aten.relu.default")]
    assert paths == ["layers.0", "layers.1"]
