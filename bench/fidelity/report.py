"""The page: what was measured, beside what was to be reached."""

import os
import statistics
from datetime import date

import torch

import figures
from cases import CHOSEN
from reporting import processor, revision, table, versions
from work import good, read

# What is to be reached: mean, worst and bias of a class, mean and worst of memory, and how much
# longer the chosen plan may take than the best one.
GOALS = {"above 100 ms": (0.015, 0.04, 0.007), "10 to 50 ms": (0.05, 0.12, None)}
MEMORY_GOAL = (0.005, 0.015)
CHOICE_GOAL = 0.02


def percent(value, digits=1):
    return "-" if value is None else f"{100 * value:+.{digits}f} %"


def size(value, digits=1):
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def beside(value, goal, digits=1):
    """With the goal, where there is one."""
    return size(value, digits) + ("" if goal is None else f" (goal {100 * goal:g} %)")


def seconds(value):
    return f"{1e3 * value:.{1 if value < 0.1 else 0}f} ms"


class Found:
    """What there is of each plan: {(model, plan): …}."""

    def __init__(self, work):
        self.work = work
        self.frozen, self.plans, self.failures, self.rounds, self.load = {}, {}, [], 0, 0.0
        for case in work.cases:
            for step in ("exported", "profiled", "agreed"):
                self.note(case.name, work.place(case) / f"{step}.json")
        for case, name in work.all_plans():
            self.add(case, name)

    def note(self, title, path):
        if path.exists() and "failed" in (content := read(path)):
            last = [line.strip() for line in content["failed"].strip().splitlines()[-3:]]
            self.failures.append(f"{title}: {' '.join(last)}")

    def add(self, case, name):
        here = self.work.place(case, name)
        self.note(f"{case.name}/{name}", here / "frozen.json")
        frozen = good(here / "frozen.json")
        if frozen is None:
            return
        self.frozen[case.name, name] = frozen
        paths = sorted(here.glob("run-?.json")) + sorted(here.glob("run-??.json"))
        for path in paths:
            self.note(f"{case.name}/{name} {path.stem}", path)
        runs = [run for path in paths if (run := good(path))]
        self.rounds = max(self.rounds, len(runs))
        self.load = max([self.load, *(run["load"] for run in runs)])
        if runs:
            self.plans[case.name, name] = figures.plan_figures(frozen, runs)

    def of_model(self, model):
        return {name: found for (owner, name), found in self.plans.items() if owner == model}

    def of_class(self, name):
        return [found for found in self.plans.values() if found["class"] == name]


def summary_rows(found):
    for name, _, _ in figures.CLASSES:
        plans = found.of_class(name)
        if not plans:
            continue
        said = figures.summary([plan["error"] for plan in plans])
        goal = GOALS.get(name, (None, None, None))
        floors = [plan["floor"] for plan in plans if plan["floor"] is not None]
        within = sum(plan["floor"] is not None and abs(plan["error"]) <= plan["floor"]
                     for plan in plans)
        yield {"step": name, "plans": len(plans), "mean error": beside(said["mean"], goal[0]),
               "worst": beside(said["worst"], goal[1]),
               "bias": percent(said["bias"]) + ("" if goal[2] is None else
                                                f" (goal {100 * goal[2]:g} %)"),
               "mean noise floor": size(statistics.fmean(floors) if floors else None),
               "within it": within}


# How a step is simulated: title, key of the error.
KNOWING = (("nothing of the run", "error"), ("each rank's compute", "at_pace"),
           ("each action's", "with_measured_compute"))


def knowledge_rows(found):
    for name, _, _ in figures.CLASSES:
        for cores, shared in (("one each", False), ("shared", True)):
            plans = [plan for (model, of), plan in found.plans.items() if plan["class"] == name
                     and (found.frozen[model, of]["processes"] > found.work.own_cores) == shared]
            for title, key in KNOWING if plans else ():
                said = figures.summary([plan[key] for plan in plans])
                yield {"step": name, "cores": cores, "plans": len(plans), "knowing": title,
                       "mean error": size(said["mean"]), "worst": size(said["worst"]),
                       "bias": percent(said["bias"])}


def model_rows(found):
    for case in found.work.cases:
        plans = found.of_model(case.name)
        if not plans:
            continue
        said = figures.summary([plan["error"] for plan in plans.values()])
        memory = [error for plan in plans.values() for error in plan["memory"]]
        rank = figures.spearman([plan["predicted_s"] for plan in plans.values()],
                                [plan["measured_s"] for plan in plans.values()])
        yield {"model": case.name, "plans": len(plans), "mean error": size(said["mean"]),
               "worst": size(said["worst"]), "bias": percent(said["bias"]),
               "rank correlation": "-" if rank is None else f"{rank:.2f}",
               "memory, mean": size(figures.summary(memory)["mean"], 2),
               "worst ": percent(max(memory, key=abs), 2)}


def choice_rows(found):
    for case in found.work.cases:
        plans = found.of_model(case.name)
        for name in CHOSEN:
            chosen = figures.choice(plans, {name: found.frozen[case.name, name] for name in plans},
                                    name)
            if chosen is None:
                continue
            plan = found.frozen[case.name, name]
            yield {"plan": f"{case.name}/{name}",
                   "is": f"{plan['schedule']}, stages {plan['stages']}, microbatches "
                         f"{plan['microbatches']}, replicas {plan['replicas']}",
                   "measured": seconds(chosen["chosen_s"]),
                   "best of": chosen["rivals"], "was": chosen["best"],
                   "with": seconds(chosen["best_s"]),
                   "chosen is longer by": beside(chosen["loss"], CHOICE_GOAL)}


def plan_rows(found):
    for (model, name), plan in found.plans.items():
        in_floors = abs(plan["error"]) / plan["floor"] if plan["floor"] else None
        yield {"plan": f"{model}/{name}", "processes": found.frozen[model, name]["processes"],
               "predicted": seconds(plan["predicted_s"]), "measured": seconds(plan["measured_s"]),
               "error": percent(plan["error"]), "at its pace": percent(plan["at_pace"]),
               "measured compute": percent(plan["with_measured_compute"]),
               "floor": size(plan["floor"]),
               "error / floor": "-" if in_floors is None else f"{in_floors:.1f}",
               **{cause: percent(plan["causes"][cause]) for cause in figures.CAUSES},
               "memory": percent(max(plan["memory"], key=abs), 2)}


def cause_rows(found):
    for name, _, _ in figures.CLASSES:
        plans = found.of_class(name)
        for title, of in (("bias", statistics.fmean),
                          ("mean size", lambda values: statistics.fmean(map(abs, values)))):
            if plans:
                yield {"step": name, "of the plans": title,
                       **{cause: percent(of([plan["causes"][cause] for plan in plans]))
                          for cause in figures.CAUSES}}


def kind_rows(found):
    """By schedule of the plans with nothing else to them, and by what the others have."""
    kinds = {}
    for (model, name), plan in found.plans.items():
        schedule = found.frozen[model, name]["schedule"]
        kinds.setdefault(schedule if name.startswith(schedule) else name, []).append(plan)
    for kind, plans in sorted(kinds.items()):
        said = figures.summary([plan["error"] for plan in plans])
        yield {"plans": kind, "number": len(plans), "mean error": size(said["mean"]),
               "worst": size(said["worst"]), "bias": percent(said["bias"]),
               "mean spread of steps": size(statistics.fmean(plan["spread"] for plan in plans))}


def agreement_rows(found):
    for case in found.work.cases:
        if agreed := good(found.work.place(case) / "agreed.json"):
            yield {"model": case.name, "steps": agreed["steps"],
                   "largest difference": f"{agreed['apart']:.1e}"}


def machine(work):
    if work.device == "cuda":
        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}"
    return f"{os.cpu_count()} cores of {processor()}"


def memory_line(found):
    memory = [error for plan in found.plans.values() for error in plan["memory"]]
    said = figures.summary(memory)
    mean, worst = beside(said["mean"], MEMORY_GOAL[0], 2), beside(said["worst"], MEMORY_GOAL[1], 2)
    return (f"Peak memory of {len(memory)} ranks: mean error {mean}, worst {worst}, bias "
            f"{percent(said['bias'], 2)}.")


def drift_line(found):
    """One number for each round."""
    drift = figures.drift([plan["steps"] for plan in found.plans.values()])
    return ("By round, the median over all plans of a step to the median of its plan: "
            + ", ".join(percent(value, 2) for value in drift) + ".")


def header(work, found):
    flags = "".join(f" --{name}" for name, given in
                    (("device cuda", work.device == "cuda"), ("quick", work.quick)) if given)
    quick = " Tiny models: only to show that the bench works." if work.quick else ""
    samples = {frozen["samples"] for frozen in found.frozen.values()} - {0}
    drawn = f", the median of {max(samples)} steps with drawn times," if samples else ""
    return f"""# Fidelity: predicted beside measured

    .venv/bin/python bench/fidelity{flags}

{machine(work)}, {date.today()}, {versions()}, commit {revision()}. {len(found.plans)} plans of \
{len({model for model, _ in found.plans})} models (`bench/fidelity/models/`), none of which any \
figure of Penstock was fitted to; mistakes that they showed were mended. Each was \
predicted{drawn} and frozen before any of them ran; then all ran, \
{found.rounds} times over; the load when a run began was {found.load:.1f} at most.{quick}

A run's step is the median of its steps after the first three, a plan's the median of its runs. \
Errors are predicted / measured - 1; the floor is half the range of a plan's runs, relative to \
their median: of an error below its floor nothing can be told. No plan has tensor groups: what \
noise makes of their steps is shown by simulation alone \
([planning.md](planning.md#what-is-expected-where-times-vary))."""


SECTIONS = (
    ("Steps by their length", "`within it` counts the errors below the floor of their own plan.",
     summary_rows),
    ("What the machine did, and what the prediction lacks",
     "The same steps, simulated with less and less left to be predicted: with nothing of the run; "
     "with each rank's compute as long as it was, action by action in proportion (what `execute` "
     "prints: at the pace of this run); with every F, B, I and W as long as in the traced step "
     "(`simulate --measured`). What the first has and the last has not is the machine's: it "
     "computed faster or slower than when it was profiled, evenly or by fits and starts. What the "
     "last has is the prediction's own: hand-offs, waiting, sums, the optimizer. Of ranks that "
     "share cores it lacks more, and why is not yet known in full: the scheduler's turns, some "
     "milliseconds, are longer than small actions, while the simulation shares a core evenly.",
     knowledge_rows),
    ("Models", "Rank correlation is Spearman's, of predicted and measured steps. Memory is the "
     "peak of each rank.", model_rows),
    ("The plan chosen", "`plan` chose for two ranks and knew none of the others, once freely and "
     "once without replicas; beside the best of all measured plans of the model on no more "
     "processes and with no more replicas.", choice_rows),
    ("Errors by cause", "In per cent of the measured step, on the rank that limits the predicted "
     "step, in the run of median length; a row of the next table adds up to its error. What the "
     "causes are: [files.md](files.md#timeline).", cause_rows),
    ("Schedules and shapes", "The spread is the interquartile range of a run's steps.", kind_rows),
    ("Ranks that share the device", "Losses of four ranks with 1F1B relative to those of one, on "
     "the same microbatches: for correctness alone, since they take turns.", agreement_rows),
    ("Plans", "`bench/fidelity/cases.py` says what they are. Memory is that of the rank furthest "
     "off.", plan_rows),
)


def page(work):
    found = Found(work)
    texts = [header(work, found)]
    for title, text, rows in SECTIONS:
        rows = list(rows(found))
        if rows:
            texts += [f"## {title}", text, table(rows)]
        if title == "Models" and rows:
            texts.append(memory_line(found))
        if title == "Steps by their length" and found.rounds > 1:
            texts.append(drift_line(found))
    if found.failures:
        texts += ["## What failed", "\n".join(f"* {failure}" for failure in found.failures)]
    return "\n\n".join(texts) + "\n", found
