#!/usr/bin/env python3
"""Predicted beside measured: eight models that no figure of Penstock was fitted to, 64 plans of all
schedules, with uneven splits, recompute, replicas, and more ranks than cores. Writes
docs/fidelity.md; needs build/penstock and .venv.

    .venv/bin/python bench/fidelity [STAGE ...] [--models NAME ...] [--repeat N] [--device cuda]

Stages are export, profile, freeze (every plan is made and predicted before any of them runs), run,
agree (on one GPU: four ranks that share it have the losses of one) and report; all of them unless
some are named. Each goes on where it was interrupted, and leaves
what it found in the folder as JSON. Everything together takes some 16 minutes on two cores, which
must have nothing else to do. --quick takes a minute: tiny models and two short runs, which only
show that the bench itself works. Ends with 1 where anything failed; the report says what.
"""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import report
from cases import CASES, CHOSEN, SHAPES
from reporting import ROOT
from work import Work

STAGES = ("export", "profile", "freeze", "run", "agree", "report")
QUICK_MODELS = ("mixer", "denoiser")
QUICK_PLANS = ("chosen", "1f1b", "zbv", "recompute", "replicas", "whole-1")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="bench/fidelity", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument("--models", nargs="+", choices=CASES, metavar="NAME",
                        help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--plans", nargs="+", choices=[*CHOSEN, *SHAPES], metavar="NAME",
                        help="of each model, where it has them; default: all")
    parser.add_argument("--repeat", type=int, help="runs of each plan; default: 3")
    parser.add_argument("--samples", type=int, default=0,
                        help="predict the median of so many steps with drawn times (simulate "
                             "--samples); default: the step without noise")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--quick", action="store_true",
                        help="tiny models, two of them, and short runs: to try the bench")
    parser.add_argument("--redo", action="store_true",
                        help="the stages that are named begin anew; what later ones made goes, too")
    parser.add_argument("--folder", type=Path,
                        help="for all that is found; default: build/fidelity")
    parser.add_argument("--write", type=Path,
                        help="the page; default: docs/fidelity.md, with --quick in the folder")
    options = parser.parse_args(arguments)
    if unknown := [stage for stage in options.stages if stage not in STAGES]:
        parser.error(f"there is no stage {unknown[0]}, only {', '.join(STAGES)}")
    options.stages = [stage for stage in STAGES if stage in options.stages] or list(STAGES)
    name = "fidelity" + ("-cuda" if options.device == "cuda" else "")
    options.folder = options.folder or ROOT / "build" / (name + ("-quick" if options.quick else ""))
    options.write = options.write or (options.folder / "fidelity.md" if options.quick else
                                      ROOT / "docs" / f"{name}.md")
    options.models = options.models or list(QUICK_MODELS if options.quick else CASES)
    options.plans = options.plans or (QUICK_PLANS if options.quick else None)
    options.repeat = options.repeat or (2 if options.quick else 3)
    return options


def main(arguments=None):
    options = parse(arguments)
    work = Work(options.folder, options.device, options.quick, options.models, options.plans,
                options.repeat, options.samples)
    if options.device == "cuda" and work.devices == 0:
        sys.exit("bench/fidelity: torch finds no GPU; --device cpu runs on cores")
    if options.redo:
        work.remove(options.stages)
    for stage in options.stages[:-1] if "report" in options.stages else options.stages:
        getattr(work, stage)()
    text, found = report.page(work)
    if "report" in options.stages:
        options.write.write_text(text)
        print(options.write)
    for failure in found.failures:
        print(f"bench/fidelity: {failure}", file=sys.stderr)
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
