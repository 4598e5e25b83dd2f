"""Times torch's own schedule simulator on 1F1B: python torch_simulate.py RANKS MICROBATCHES
REPETITIONS

Prints one JSON object: torch's version, `tasks` (compute actions and messages), `actions` (torch's
own count, which has a SEND and a RECV per message), `seconds` per repetition (the schedule, its
lowering and its simulation) and of these `simulate_seconds` (the simulation alone), `cpu_seconds`
(the processor's part of `seconds`), `steps` (simulated steps: torch's simulator knows no times) and
`peak_bytes` (memory that the first repetition added).
"""

import json
import sys
import time
from pathlib import Path

import torch
from torch.distributed.pipelining import schedules


def one_f_one_b(ranks, microbatches):
    """Each rank's compute actions: warm-up forwards, then a backward and a forward in turn, then
    the rest."""
    order = {}
    for rank in range(ranks):
        forwards = [schedules._Action(rank, schedules.FORWARD, m) for m in range(microbatches)]
        backwards = [schedules._Action(rank, schedules.FULL_BACKWARD, m)
                     for m in range(microbatches)]
        warmup = min(microbatches, ranks - rank)
        order[rank] = forwards[:warmup]
        for m in range(microbatches):
            order[rank].append(backwards[m])
            order[rank] += forwards[warmup + m:warmup + m + 1]
    return order


def simulate_once(ranks, microbatches):
    """Seconds in all, of the simulation alone, of the processor; the lowered program; simulated
    steps."""
    cpu = time.process_time()
    start = time.perf_counter()
    lowered = schedules._add_send_recv(one_f_one_b(ranks, microbatches), lambda stage: stage, ranks)
    built = time.perf_counter()
    steps = schedules._simulate_comms_compute(lowered, lambda stage: stage, ranks)
    end = time.perf_counter()
    return ((end - start, end - built, time.process_time() - cpu), lowered,
            max(len(row) for row in steps.values()))


def memory_bytes(key):
    """VmRSS: in memory now; VmHWM: at most since the last reset."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(status[key].split()[0])


def main():
    ranks, microbatches, repetitions = map(int, sys.argv[1:])
    # VmHWM starts anew: the import's peak does not count
    Path("/proc/self/clear_refs").write_text("5")
    before = memory_bytes("VmRSS")
    lowered, steps = simulate_once(ranks, microbatches)[1:]
    added = memory_bytes("VmHWM") - before
    actions = [action for row in lowered.values() for action in row]
    receives = (schedules.RECV_F, schedules.RECV_B)
    runs = [simulate_once(ranks, microbatches)[0] for _ in range(repetitions)]
    print(json.dumps({
        "torch": torch.__version__.split("+")[0],
        "tasks": sum(action.computation_type not in receives for action in actions),
        "actions": len(actions),
        "seconds": [total for total, _, _ in runs],
        "simulate_seconds": [simulation for _, simulation, _ in runs],
        "cpu_seconds": [cpu for _, _, cpu in runs],
        "steps": steps,
        "peak_bytes": added,
    }))


if __name__ == "__main__":
    main()
