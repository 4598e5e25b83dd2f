"""Logits that are split by classes: as a model's first output, and for its own cross entropy."""

import pytest

torch = pytest.importorskip("torch")
from local_graphs import (
    GPT2,
    LLAMA,
    MODELS,
    ROOT,
    check,
    collectives,
    exported,
    load_module,
    local_graph,
)


@pytest.mark.parametrize(("name", "parts", "parameters"), [
    ("gpt2-f64", 2, GPT2), ("gpt2-f64", 4, []), ("llama-f64", 2, LLAMA)])
def test_logits_may_end_split_by_classes(name, parts, parameters):
    path, program = exported(name)
    pins = [*parameters, ("lm_head.weight", "S(0)")]
    graph = local_graph(path, parts, pins, logits=True)
    assert graph["held"] == "S(2)"
    check(program, graph, parts)
    assert not local_graph(path, parts, pins)["held"]  # where each needs them whole


def test_logits_of_a_vocabulary_that_does_not_divide_end_whole():
    path = MODELS / "gpt3-meta.pt2"
    if not path.exists():
        pytest.skip(f"{path} is missing: the tests export it with torch from .venv")
    assert local_graph(path, 8, logits=True)["held"] == ""  # of 50257


def labelled(kind, folder):
    """A model that returns its loss, and the program."""
    module = load_module(ROOT / "tests/models/labelled.py")
    inputs = module.example_inputs()
    inputs["labels"][0, 2:5] = module.IGNORED
    program = torch.export.export(module.model(kind).double(), (), inputs)
    torch.export.save(program, folder / "labelled.pt2")
    return folder / "labelled.pt2", program


@pytest.mark.parametrize("kind", ["causal", "classes", "masked", "scaled"])
def test_a_model_with_its_own_loss_computes_it_in_parts_of_the_classes(tmp_path, kind):
    path, program = labelled(kind, tmp_path)
    for parts in (2, 4):
        graph = local_graph(path, parts, [("head.weight", "S(0)")])
        assert "cross_entropy_of_classes" in collectives(graph)
        assert not any(op["target"] == "penstock::all_gather" and op["shapes"][0][-1] == 32
                       for op in graph["operators"])
        check(program, graph, parts)
