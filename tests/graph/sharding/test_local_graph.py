"""The graphs of all parts of a tensor group, run in one process, compute what the exported model
computes in PyTorch: outputs, loss, and the gradient of each parameter."""

import random

import pytest

torch = pytest.importorskip("torch")
from local_graphs import (
    BERT,
    GPT2,
    LLAMA,
    MODELS,
    TRANSFORMER,
    check,
    collectives,
    completed,
    exported,
    layouts,
    local_graph,
)


@pytest.mark.parametrize(("name", "parts", "parameters", "values"), [
    ("gpt2-f64", 2, GPT2, []),
    ("gpt2-f64", 2, GPT2, [("transformer.h.?", "S(1)")]),
    ("gpt2-f64", 2, [*GPT2, ("lm_head.weight", "S(0)")], []),
    ("gpt2-f64", 2, [("*.c_attn.weight", "S(1, 3)")], [("transformer.h.*", "S(0)")]),
    ("bert-f64", 2, BERT, []),
    ("bert-f64", 2, BERT, [("*.layer.?", "S(1)")]),
    ("llama-f64", 2, LLAMA, []),
    ("llama-f64", 2, LLAMA, [("model.layers.?", "S(1)")]),
    ("transformer-text-f64", 4, TRANSFORMER, []),
    ("transformer-text-f64", 2, TRANSFORMER, [("layers.?", "S(1)")]),
    ("t5-f64", 2, [], []),
    ("vit-f64", 2, [], []),
    ("moe-f64", 2, [], []),
    ("unet-f64", 2, [], []),
    ("resnet-f64", 2, [], []),
    ("everything-f64", 2, [], []),
])
def test_parts_compute_what_the_model_computes(name, parts, parameters, values):
    path, program = exported(name)
    graph = local_graph(path, parts, parameters, values)
    assert graph["exact"] or parameters
    check(program, graph, parts)


class Channels(torch.nn.Module):
    """A convolution of each channel and a norm of groups, and the mean of all channels."""

    def __init__(self):
        super().__init__()
        self.mix = torch.nn.Conv1d(6, 12, 1)
        self.each = torch.nn.Conv1d(12, 24, 3, padding=1, groups=12)
        self.norm = torch.nn.GroupNorm(4, 24)

    def forward(self, x):
        return self.norm(self.each(self.mix(x))).mean(1)


@pytest.mark.parametrize(("layout", "parts"), [("S(1)", 2), ("S(1)", 4), ("S(1, 2)", 2)])
def test_channels_stay_split_through_groups_and_the_mean_of_parts_is_theirs(tmp_path, layout,
                                                                           parts):
    program = torch.export.export(Channels().double(), (torch.randn(4, 6, 8).double(),))
    torch.export.save(program, tmp_path / "channels.pt2")
    graph = local_graph(tmp_path / "channels.pt2", parts,
                        values=[(name, layout) for name in ("mix", "each", "norm")])
    assert collectives(graph).count("all_reduce") == 1  # of the mean
    assert not {"all_gather", "all_to_all"} & set(collectives(graph))
    check(program, graph, parts)


def test_columns_and_rows_need_one_sum_forward_and_one_backward(tmp_path):
    path, _ = exported("transformer-text-f64")
    graph = local_graph(path, 4, TRANSFORMER)
    assert layouts(graph, "in_proj_weight") == {"S(0, 3)"}
    assert layouts(graph, "in_proj_bias") == {"S(0, 3)"}  # follows
    assert layouts(graph, "linear2.bias") == {"I"}
    # Attention to itself and to the encoder, and MLP, of two layers.
    assert collectives(graph).count("all_reduce") == 6
    gathered = [op["name"] for op in graph["operators"] if op["target"] == "penstock::all_gather"]
    assert gathered == ["add_4_as_R"]  # embeddings and positions, whose weights are split
    assert not {"all_to_all", "reduce_scatter"} & set(collectives(graph))


def test_without_pins_gpt3_gets_columns_rows_and_a_split_sequence():
    path = MODELS / "gpt3-meta.pt2"
    if not path.exists():
        pytest.skip(f"{path} is missing: the tests export it with torch from .venv")
    graph = local_graph(path, 8)
    assert graph["exact"]
    assert layouts(graph, "qkv.weight") == {"S(0, 3)"}
    assert layouts(graph, "projection.weight") == {"S(1)"}
    assert layouts(graph, "mlp.0.weight") == {"S(0)"}
    assert layouts(graph, "mlp.2.weight") == {"S(1)"}
    moved = [(op["target"], op["shapes"][0]) for op in graph["operators"]]
    assert moved.count(("penstock::reduce_scatter", [4, 256, 12288])) == 2 * 96
    assert ("penstock::all_reduce", [4, 2048, 12288]) not in moved


def test_a_split_sequence_is_gathered_and_scattered():
    path, _ = exported("gpt2-f64")
    graph = local_graph(path, 2, GPT2, [("transformer.h.?.ln_2", "S(1)"),
                                        ("transformer.h.?", "S(1)")])
    assert {"all_gather", "reduce_scatter"} <= set(collectives(graph))
    returned = [op["shapes"][0] for op in graph["operators"]
                if op["name"].endswith("_as_S1") and op["target"] == "penstock::reduce_scatter"]
    assert [4, 4, 16] in returned  # of a sequence of 8


def test_rows_of_an_embedding_are_looked_up_where_they_are():
    path, _ = exported("gpt2-f64")
    graph = local_graph(path, 2, [("lm_head.weight", "S(0)")])
    assert "embedding_of_rows" in collectives(graph)


@pytest.mark.parametrize(("parameters", "values", "message"), [
    ([("*.c_attn", "S(1, 5)")], [],
     "*.c_attn: dimension 1 of transformer.h.0.attn.c_attn.weight (read by addmm), [16, 48], "
     "does not divide into 5 blocks of 2 equal parts\n"
     "  Choose a size that does, another dimension, or fewer ranks in a tensor group.\n"),
    ([("*.ln_1.bias", "S(1)")], [],
     "*.ln_1.bias: transformer.h.0.ln_1.bias (read by layer_norm) is [16] and has no "
     "dimension 1 to split\n"),
    ([("*.ln_1.bias", "S(0)")], [],
     "layer_norm: aten::layer_norm cannot be computed in 2 parts with transformer.h.0.ln_1.bias "
     "[16] in S(0)\n  Split along another dimension, or hold the parameter whole.\n"),
    ([("*.c_atn.weight", "S(1)")], [], "*.c_atn.weight: no parameter of "),
    ([("*.c_attn.weight", "P")], [], "*.c_attn.weight: a parameter cannot be held in terms\n"),
    ([], [("transformer.hh", "S(1)")],
     "transformer.hh: no module or operator of "),
    ([], [("transformer.h.0", "S(1, 3)")],
     "transformer.h.0: dimension 1 of the result of add_223, [4, 8, 16], does not divide into "
     "3 blocks of 2 equal parts\n"),
])
def test_impossible_pins_are_refused(parameters, values, message):
    path, _ = exported("gpt2-f64")
    done = completed(path, 2, parameters, values)
    assert done.returncode == 2
    assert done.stderr.startswith(message)


@pytest.mark.parametrize("seed", range(6))
def test_any_pins_are_right_or_refused(seed):
    pick = random.Random(seed)
    path, program = exported(pick.choice(["gpt2-f64", "bert-f64", "llama-f64", "t5-f64", "vit-f64",
                                          "moe-f64", "unet-f64"]))
    pins = []
    for name in program.graph_signature.parameters:
        sizes = program.state_dict[name].shape
        splits = [f"S({d})" if blocks == 1 else f"S({d}, {blocks})" for d, size in enumerate(sizes)
                  for blocks in (1, 2, 3) if size % (2 * blocks) == 0]
        if splits and pick.random() < 0.3:
            layout = pick.choice(splits)
            if completed(path, 2, [*pins, (name, layout)]).returncode == 0:
                pins.append((name, layout))
    assert pins
    check(program, local_graph(path, 2, pins), 2)
