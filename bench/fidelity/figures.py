"""What the runs say, as pure functions of their JSON. Errors are predicted / measured - 1."""

import math
import statistics

CAUSES = ("compute", "waiting", "transfers", "reduction", "optimizer")
CLASSES = (("above 100 ms", 0.1, math.inf), ("50 to 100 ms", 0.05, 0.1),
           ("10 to 50 ms", 0.01, 0.05), ("below 10 ms", 0.0, 0.01))


def class_of(seconds):
    return next(name for name, least, below in CLASSES if least <= seconds < below)


def relative(predicted, measured):
    return predicted / measured - 1


def measured_steps(runs):
    """Of each run the median of its steps after the warm-up, as `execute` tells it."""
    return [run["execute"]["measured_step_s"] for run in runs]


def noise_floor(steps):
    """Half the range of identical runs, relative to their median; None of fewer than two."""
    if len(steps) < 2:
        return None
    return (max(steps) - min(steps)) / 2 / statistics.median(steps)


def causes(predicted_s, measured_s, runs, rank):
    """The error of the step in seconds, by cause, on a rank, in the run of median length: its step
    of median length against the prediction. What that step was longer than `measured_s`, and what
    lies outside of the timelines, counts as waiting, so that the causes add up to the error."""
    run = sorted(runs, key=lambda run: run["execute"]["measured_step_s"])[(len(runs) - 1) // 2]
    error = run["compare"]["ranks"][rank]["error"]
    found = {cause: error[f"{cause}_s"] for cause in CAUSES}
    found["waiting"] += predicted_s - measured_s - sum(found.values())
    return found


def memory_errors(predicted_bytes, runs):
    """By rank, replica after replica; measured is the median over the runs."""
    by_rank = zip(*(run["execute"]["peak_memory_bytes"] for run in runs), strict=True)
    return [relative(predicted_bytes[rank % len(predicted_bytes)], statistics.median(measured))
            for rank, measured in enumerate(by_rank)]


def ranking(values):
    """The place of each, from 1; equal values share the mean of theirs."""
    return [sum(other < value for other in values) + (1 + sum(other == value for other in values))
            / 2 for value in values]


def spearman(first, second):
    """Rank correlation: Pearson's of the places. None of fewer than three, or where all are
    equal."""
    if len(first) < 3 or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    return statistics.correlation(ranking(first), ranking(second))


def drift(steps_by_plan):
    """For each round the median over plans of its step to the plan's median, less 1."""
    rounds = max((len(steps) for steps in steps_by_plan), default=0)
    complete = [steps for steps in steps_by_plan if len(steps) == rounds]
    return [statistics.median(steps[k] / statistics.median(steps) - 1 for steps in complete)
            for k in range(rounds)]


def summary(errors):
    """Mean and largest of their sizes, and the signed mean."""
    sizes = [abs(error) for error in errors]
    return {"mean": statistics.fmean(sizes), "worst": max(sizes), "bias": statistics.fmean(errors)}


def plan_figures(frozen, runs):
    """All that is told of one plan; `runs` are those that ended well, at least one."""
    steps = measured_steps(runs)
    measured_s = statistics.median(steps)
    error = relative(frozen["step_s"], measured_s)
    floor = noise_floor(steps)
    return {"predicted_s": frozen["step_s"], "measured_s": measured_s, "steps": steps,
            "error": error, "floor": floor, "class": class_of(measured_s),
            "at_pace": statistics.median(
                relative(run["execute"]["predicted_at_pace_step_s"], step)
                for run, step in zip(runs, steps, strict=True)),
            "with_measured_compute": statistics.median(
                relative(run["with_measured_compute_s"], run["compare"]["step_s"]["measured"])
                for run in runs),
            "causes": {cause: seconds / measured_s
                       for cause, seconds in causes(frozen["step_s"], measured_s, runs,
                                                    frozen["limiting_rank"]).items()},
            "spread": statistics.median(run["execute"]["spread_s"] / step
                                        for run, step in zip(runs, steps, strict=True)),
            "memory": memory_errors(frozen["peak_memory_bytes"], runs)}


def choice(plans, frozen, chosen):
    """Of a model: how much longer this plan took than the best of those on no more processes and
    with no more replicas. None where it was not measured."""
    if chosen not in plans:
        return None
    rivals = {name: found["measured_s"] for name, found in plans.items()
              if all(frozen[name][key] <= frozen[chosen][key] for key in ("processes", "replicas"))}
    best = min(rivals, key=rivals.get)
    return {"best": best, "best_s": rivals[best], "chosen_s": rivals[chosen],
            "loss": rivals[chosen] / rivals[best] - 1, "rivals": len(rivals)}
