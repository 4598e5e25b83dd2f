"""Peaks of memory that are predicted of each rank, beside those of runs: several models, kinds
of schedules, uneven splits, recomputation, replicas, tensor groups. A rank allocates the same in
every run, so no clock matters, and the quickest profile does."""

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
PENSTOCK = BUILD / "penstock"
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", BUILD / "tests" / "models"))
BATCH = 8

pytestmark = [pytest.mark.long,
              pytest.mark.skipif(not (BUILD / "penstock-worker").exists(),
                                 reason="penstock-worker is not built: it needs LibTorch")]

# Four stages of each model; where there are two, the third begins the second.
CUTS = {
    "unet": ["", "max_pool2d", "up", "up.0.merge"],
    "resnet": ["", "groups.0", "groups.1", "groups.1.0.norm1"],
    "vit": ["", "layers.0", "layers.1", "norm"],
    "gpt2": ["", "transformer.h.0", "transformer.h.1", "transformer.ln_f"],
    "llama": ["", "model.layers.0", "model.layers.1", "model.norm"],
}
# Units of the first and the third of them, neither all nor the first ones.
UNITS = {
    "unet": [["down.0.2"], ["up.0.merge.1", "up.1.merge"]],
    "resnet": [["stem.1", "groups.0.0.norm1"], ["relu_4", "mean"]],
    "vit": [["layers.0.norm2"], ["layers.1.self_attn", "norm"]],
    "gpt2": [["transformer.h.0", "transformer.h.0.ln_2"], ["transformer.h.1.mlp"]],
    "llama": [["model.layers.0.mlp"], ["view_8", "model.norm"]],
}
LOOP = [0, 1, 0, 1]
OPTIMIZERS = {"resnet": "{kind: sgd, learning_rate: 0.1, momentum: 0.9}"}


def penstock(*arguments):
    result = subprocess.run([str(PENSTOCK), *map(str, arguments)], capture_output=True, text=True,
                            timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


def job(name):
    path = MODELS / f"{name}.pt2"
    if not path.exists():
        pytest.skip(f"{path} is missing: the tests export it with torch from .venv")
    optimizer = OPTIMIZERS.get(name, "{kind: adamw, learning_rate: 0.001}")
    return (f"model: {path}\nloss: cross_entropy\noptimizer: {optimizer}\n"
            f"data: {MODELS / name}.data.safetensors\nglobal_batch: {BATCH}\nsteps: 3\n")


@pytest.fixture(scope="module", params=list(CUTS))
def profiled(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "job.yaml").write_text("penstock: job\n" + job(request.param))
    for ranks in [1, 2]:  # threads of a rank, which a convolution takes memory for, differ
        groups = ["--tensor-parallel", 2] if ranks == 2 else []
        penstock("profile", folder / "job.yaml", "--quick", "--budget", "0s", "--ranks", ranks,
                 *groups, "-o", folder / f"profile-{ranks}.json")
    return request.param, folder


def peaks(profiled, schedule, microbatches, ranks, *, recompute="false", replicas=1, parts=1,
          sharding=None, state="replicated", shared=None, flags=()):
    """Predicted and measured, by rank. `ranks`: of the stages."""
    name, folder = profiled
    profile = folder / f"profile-{min(2, parts * len(ranks))}.json"
    text = profile.read_bytes()
    cuts = {1: CUTS[name][:1], 2: CUTS[name][::2], 4: CUTS[name]}[len(ranks)]
    again = UNITS[name] if recompute == "units" else [recompute] * len(ranks)
    stages = "".join(f'  - {{rank: {rank}, begin: "{cut}", recompute: {units}}}\n'
                     for rank, cut, units in zip(ranks, cuts, again, strict=True))
    plan = folder / "plan.yaml"
    plan.write_text(
        "penstock: plan\nversion: 1\njob:\n"
        + "".join(f"  {line}\n" for line in job(name).splitlines())
        + f"model_sha256: {json.loads(text)['model_sha256']}\n"
        f"profile: {{path: {profile.name}, sha256: {hashlib.sha256(text).hexdigest()}}}\n"
        f"schedule: {schedule}\nmicrobatches: {microbatches}\n"
        f"microbatch: {BATCH // microbatches // replicas}\ndata_parallel: {replicas}\n"
        f"optimizer_state: {state}\ntensor_parallel: {parts}\n"
        + (f"sharding: {json.dumps(sharding)}\n" if sharding else "")
        + (f"shared_parameters: {json.dumps(shared)}\n" if shared else "") +
        f"stages:\n{stages}")
    run = json.loads(penstock("execute", plan, "--steps", "3", "--json", *flags))
    predicted = run["predicted_peak_memory_bytes"]  # of one replica
    return list(zip(predicted * replicas, run["peak_memory_bytes"], strict=True))


def shardings(profiled):
    """Those that the profile has of tensor groups."""
    profile = json.loads((profiled[1] / "profile-2.json").read_text())
    return [group.get("sharding") for group in profile["groups"]]


def crossing_bytes(folder, rank):
    """Of one microbatch: all that a rank sends and receives."""
    penstock("simulate", folder / "plan.yaml", "--trace", folder / "trace.json")
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    return sum(event["args"]["bytes"] for event in events
               if event["ph"] == "X" and event["pid"] == rank
               and re.fullmatch(r"\d+(SEND|RECV)_[FB]0(:\d+)?", event["name"]))


@pytest.mark.parametrize("microbatches", [4, 8])
def test_of_one_rank_is_within_half_a_percent(profiled, microbatches):
    """That is what predictions are meant to keep to. Nothing crosses; what is left are scalars, new
    statistics of batch norms, which go with F and are counted to their operator's end, and what
    reading the data takes."""
    if profiled[0] == "llama":
        pytest.xfail("0.9 % too high with 4 microbatches, 1.8 % with 8: some 500 bytes for each")
    [(predicted, measured)] = peaks(profiled, "gpipe", microbatches, [0])
    assert abs(predicted - measured) <= 0.005 * measured


CASES = {
    "gpipe": ("gpipe", 4, [0, 1], {}),
    "1f1b": ("1f1b", 4, [0, 1], {}),
    "four ranks": ("1f1b", 4, [0, 1, 2, 3], {}),
    "interleaved": ("interleaved-1f1b", 4, [0, 1, 0, 1], {}),
    "zero bubble": ("zb-h1", 4, [0, 1], {}),
    "v": ("zbv", 4, [0, 1, 1, 0], {}),
    "recompute": ("1f1b", 4, [0, 1], {"recompute": "true"}),
    "units": ("1f1b", 4, [0, 1], {"recompute": "units"}),
    "replicas": ("1f1b", 4, [0, 1], {"replicas": 2}),
    "sharded": ("1f1b", 4, [0, 1], {"replicas": 2, "state": "sharded"}),
}


@pytest.mark.parametrize("case", CASES)
def test_of_stages_is_off_by_no_more_than_what_crosses_their_ends(profiled, case):
    """What is not measured of a stage is whether the values and gradients that cross its ends share
    memory with others: at worst each of them is there once more, or once less, in every microbatch
    that waits for its W, which where B does all is the running one."""
    schedule, microbatches, ranks, more = CASES[case]
    held = microbatches if schedule.startswith("z") else 1
    for rank, (predicted, measured) in enumerate(peaks(profiled, schedule, microbatches, ranks,
                                                       **more)):
        tolerance = held * crossing_bytes(profiled[1], rank % len(set(ranks)))
        print(f"{profiled[0]:8} {case:12} rank {rank}: predicted {predicted:>8}, "
              f"measured {measured:>8}, {100 * (predicted / measured - 1):+.2f} %, "
              f"tolerance {100 * tolerance / measured:.1f} %")
        assert abs(predicted - measured) <= tolerance + 64 * (1 + microbatches)


GROUPS = {
    "one": ("gpipe", 4, [0], {}),
    "1f1b": ("1f1b", 4, [0, 1], {}),
    "zero bubble": ("zb-h1", 4, [0, 1], {}),
    "recompute": ("1f1b", 4, [0, 1], {"recompute": "true"}),
    "sharded": ("gpipe", 4, [0], {"replicas": 2, "state": "sharded"}),
}


TOO_HIGH = {("unet", "sharded"): "0.75 %, 488 bytes",
            ("llama", "one"): "1.6 %, some 500 bytes for each microbatch, as where it is whole",
            ("llama", "sharded"): "2.7 %, the same"}


@pytest.mark.parametrize("case", GROUPS)
def test_of_tensor_groups_is_known_from_parts_measured_alone(profiled, case):
    """Each part holds what the first one held alone, with the same bounds as above: half a percent
    where nothing crosses, and else what crosses the ends of stages. Of replicas that share out the
    optimizer's state the one with most of it is predicted."""
    if (profiled[0], case) in TOO_HIGH:
        pytest.xfail(TOO_HIGH[profiled[0], case])
    assert_known_of_groups(profiled, case, shardings(profiled)[:None if case == "one" else 1])


def assert_known_of_groups(profiled, case, of_profile):
    schedule, microbatches, ranks, more = GROUPS[case]
    held = microbatches if schedule.startswith("z") else 1
    for sharding in of_profile:
        found = peaks(profiled, schedule, microbatches, ranks, parts=2, sharding=sharding, **more)
        of_replica = 2 * len(ranks)
        for rank, (predicted, _) in enumerate(found[:of_replica]):
            measured = max(bytes_ for _, bytes_ in found[rank::of_replica])
            crossing = held * crossing_bytes(profiled[1], rank // 2 % len(ranks))
            tolerance = crossing + 64 * (1 + microbatches) if crossing else 0.005 * measured
            print(f"{profiled[0]:8} {case:12} rank {rank}: predicted {predicted:>8}, "
                  f"measured {measured:>8}, {100 * (predicted / measured - 1):+.2f} %, "
                  f"tolerance {100 * tolerance / measured:.1f} %")
            assert abs(predicted - measured) <= tolerance


SHARED = {
    "whole": ("1f1b", 4, [0, 1], {"replicas": 2}),
    "groups": ("1f1b", 4, [0, 1], {"parts": 2}),
    "zero bubble": ("zb-h1", 4, [0, 1], {"parts": 2}),
    "sharded": ("1f1b", 4, [0, 1], {"parts": 2, "replicas": 2, "state": "sharded"}),
}


@pytest.mark.parametrize("profiled", ["gpt2"], indirect=True)
@pytest.mark.parametrize("case", SHARED)
def test_transmitting_the_tied_embedding_saves_to_the_byte_what_is_predicted(profiled, case):
    """Of each rank: its holders have no state of it, or where replicas share it out its owner's
    have more of it. What else is held is the same both ways."""
    schedule, microbatches, ranks, more = SHARED[case]
    if "parts" in more:
        more = more | {"sharding": shardings(profiled)[0]}
    copies, owned = (peaks(profiled, schedule, microbatches, ranks, **more,
                           shared={"transformer.wte.weight": way})
                     for way in ("replicate", "transmit"))
    saved = [tuple(one - other for one, other in zip(before, after, strict=True))
             for before, after in zip(copies, owned, strict=True)]
    assert any(predicted > 0 for predicted, _ in saved)
    for predicted, measured in saved:
        assert predicted == measured


AGAIN = {"parameters": [{"*.c_attn.weight": {"split": 1, "blocks": 3}},
                        {"*.attn.c_proj.weight": {"split": 0}}, {"*.c_fc.weight": {"split": 1}},
                        {"*.mlp.c_proj.weight": {"split": 0}}],
         "values": [{"transformer.h.?": {"split": 1}}, {"*.ln_?": {"split": 1}}],
         "gathered": "again"}


@pytest.fixture(scope="module")
def gathered_again(tmp_path_factory):
    """GPT-2 with a split sequence, of which products gather all."""
    folder = tmp_path_factory.mktemp("again")
    (folder / "job.yaml").write_text("penstock: job\n" + job("gpt2"))
    (folder / "pins.yaml").write_text(
        "penstock: plan\nversion: 1\njob:\n"
        + "".join(f"  {line}\n" for line in job("gpt2").splitlines())
        + f"schedule: gpipe\nmicrobatches: 4\nmicrobatch: 2\ntensor_parallel: 2\n"
        f"sharding: {json.dumps(AGAIN)}\nstages: [{{rank: 0, begin: \"\"}}]\n")
    penstock("profile", folder / "job.yaml", "--quick", "--budget", "0s", "--ranks", 2,
             "--tensor-parallel", 2, "--sharding", folder / "pins.yaml",
             "-o", folder / "profile-2.json")
    return "gpt2", folder


@pytest.mark.parametrize("case", ["one", "1f1b", "zero bubble", "recompute"])
def test_of_what_is_gathered_again_is_known_like_the_rest(gathered_again, case):
    profile = json.loads((gathered_again[1] / "profile-2.json").read_text())
    targets = [op.get("target") for op in profile["groups"][0]["microbatches"][0]["operators"]]
    assert "penstock::all_gather_again" in targets and "penstock::all_gather" not in targets
    assert_known_of_groups(gathered_again, case, [AGAIN])


def own_bytes(profile, microbatch):
    """What operators keep for themselves in training: statistics and masks, which are no values."""
    size = next(each for each in profile["microbatches"] if each["microbatch"] == microbatch)
    held = [operator["held_bytes"] for operator in size["operators"]]
    return sum(max(0, each["forward"]["net"] - each["output"]) for each in held)


@pytest.mark.parametrize("schedule, ranks, replicas",
                         [("gpipe", [0], 1), ("gpipe", [0, 1], 1), ("interleaved-1f1b", LOOP, 1),
                          ("1f1b", [0, 1], 2)])
def test_of_inference_is_known_from_a_profile_of_training(profiled, schedule, ranks, replicas):
    """Beside what crosses the ends of stages, a profile of training does not tell which of its
    operators' own bytes are there in evaluation mode: running statistics are read in place of those
    of the batch."""
    name, folder = profiled
    found = peaks(profiled, schedule, 4, ranks, replicas=replicas, flags=["--forward-only"])
    own = own_bytes(json.loads((folder / f"profile-{min(2, len(ranks))}.json").read_text()),
                    BATCH // 4 // replicas)
    for rank, (predicted, measured) in enumerate(found):
        tolerance = crossing_bytes(folder, rank % len(set(ranks))) + own
        print(f"{name:8} {schedule} rank {rank}: predicted {predicted:>8}, measured {measured:>8}, "
              f"{100 * (predicted / measured - 1):+.2f} %, tolerance {tolerance}")
        assert abs(predicted - measured) <= tolerance + 64 * (1 + 4)
