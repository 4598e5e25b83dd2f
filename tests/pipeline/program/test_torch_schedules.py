"""Our schedules are torch's, token for token, wherever torch has them; torch reads our files and we
read its."""

import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch")
from torch.distributed.pipelining import schedules
from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping

ROOT = Path(__file__).parents[3]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))

V_SHAPED = ("zbv", "dualpipev")
CLASSES = {
    "gpipe": schedules.ScheduleGPipe,
    "1f1b": schedules.Schedule1F1B,
    "looped-bfs": schedules.ScheduleLoopedBFS,
    "interleaved-1f1b": schedules.ScheduleInterleaved1F1B,
    "interleaved-zb": schedules.ScheduleInterleavedZeroBubble,
    "zbv": schedules.ScheduleZBVZeroBubble,
    "dualpipev": schedules.ScheduleDualPipeV,
}
MICROBATCHES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24)


def ours(name, ranks, stages_per_rank, microbatches, *options):
    """The rows of the generated program, or None where the shape is not allowed."""
    done = subprocess.run([BUILD / "tests" / "pipeline" / "print-schedule", name, str(ranks),
                           str(stages_per_rank), str(microbatches), *options], capture_output=True,
                          text=True, check=False)
    if done.returncode == 2:
        return None
    assert done.returncode == 0, done.stderr
    return [row.split(",") for row in done.stdout.splitlines()]


def torch_schedule(name, ranks, stages_per_rank, microbatches):
    """An instance that can generate, without the stages and processes that its constructor asks
    for."""
    schedule = CLASSES[name].__new__(CLASSES[name])
    schedule._n_microbatches = microbatches
    schedule._num_stages = schedule.num_stages = ranks * stages_per_rank
    schedule.pp_group_size = ranks
    schedule.n_local_stages = stages_per_rank
    schedule._stages = [None] * stages_per_rank
    schedule.number_of_rounds = max(1, microbatches // ranks)
    schedule.microbatches_per_round = microbatches // schedule.number_of_rounds
    style = "v" if name in V_SHAPED else "loop"
    schedule.stage_index_to_group_rank = generate_stage_to_rank_mapping(
        ranks, schedule._num_stages, style=style)
    return schedule


def torch_order(name, ranks, stages_per_rank, microbatches):
    schedule = torch_schedule(name, ranks, stages_per_rank, microbatches)
    if name in ("gpipe", "1f1b"):
        order = schedule._get_pipeline_order()
        if name == "1f1b":  # torch 2.11 counts the forwards of the last rank from 1
            order[ranks - 1] = [action._replace(microbatch_index=action.microbatch_index - 1)
                                if action.computation_type == schedules.FORWARD else action
                                for action in order[ranks - 1]]
        return order
    return {rank: schedule._calculate_single_rank_operations(rank) for rank in range(ranks)}


def shapes(name):
    """What torch's constructors accept."""
    for ranks in (1, 2, 3, 4, 5, 8):
        per_rank = {"gpipe": (1,), "1f1b": (1,), "zbv": (2,), "dualpipev": (2,)}
        for stages_per_rank in per_rank.get(name, (1, 2, 3, 4)):
            for microbatches in MICROBATCHES:
                rounds = max(1, microbatches // ranks)
                if name.startswith("interleaved") and microbatches % rounds:
                    continue
                if name == "dualpipev" and microbatches < 2 * ranks:
                    continue
                if name == "1f1b" and microbatches < ranks:
                    continue  # torch 2.11 lists forwards of microbatches that do not exist
                yield ranks, stages_per_rank, microbatches


@pytest.mark.parametrize("name", CLASSES)
def test_each_generator_gives_what_torch_gives_token_for_token(name):
    compared = 0
    for shape in shapes(name):
        expected = [[str(action) for action in row if action is not None and
                     action.computation_type != schedules.REDUCE_GRAD]
                    for row in torch_order(name, *shape).values()]
        assert ours(name, *shape) == expected, f"{name} with P, v, M = {shape}"
        compared += 1
    assert compared >= 40


@pytest.mark.parametrize("name", CLASSES)
def test_what_torch_refuses_is_refused(name):
    if name.startswith("interleaved"):
        assert ours(name, 4, 2, 9) is None
    if name in V_SHAPED:
        assert ours(name, 4, 1, 8) is None
        assert ours(name, 4, 3, 8) is None
    if name == "dualpipev":
        assert ours(name, 4, 2, 7) is None


@pytest.mark.parametrize("name", CLASSES)
def test_the_lowering_is_torchs(name):
    """The sends and receives that torch's lowering pass adds to the same program, in the same
    places."""
    for ranks, stages_per_rank, microbatches in ((2, 1, 4), (2, 2, 4), (3, 2, 6), (4, 2, 8),
                                                 (4, 3, 12)):
        lowered = ours(name, ranks, stages_per_rank, microbatches, "lowered")
        if lowered is None:
            continue
        compute = ours(name, ranks, stages_per_rank, microbatches)
        actions = {rank: [schedules._Action.from_str(cell) for cell in row]
                   for rank, row in enumerate(compute)}
        schedule = torch_schedule(name, ranks, stages_per_rank, microbatches)
        expected = schedules._add_send_recv(actions, schedule.stage_index_to_group_rank.get,
                                            ranks * stages_per_rank)
        assert lowered == [[str(action) for action in row] for row in expected.values()]
