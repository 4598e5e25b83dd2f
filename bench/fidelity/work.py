"""The stages of the bench and the folder that holds what they leave, all of it JSON, YAML and
.pt2:

    settings.json                            what all of it was made with
    MODEL/model.pt2 data.safetensors         export
    MODEL/profile.json                       profile
    MODEL/PLAN/plan.yaml predicted.json      freeze: the plan and its predicted timeline
    MODEL/PLAN/frozen.json                   its prediction, before anything runs
    MODEL/PLAN/run-N.json                    run: round N, what `execute` and `compare` say
    MODEL/agreed.json                        agree: how far losses of four ranks and of one differ

A stage does what is not there yet, so that one that was interrupted goes on; what failed is noted
as {"failed": why}, tried again the next time, and ends nothing else.
"""

import json
import os
import sys
import time
from datetime import datetime

import torch
import yaml
from safetensors.torch import save_file

import plans
from cases import ALONE, CASES, CHOSEN, SHAPES, SHARING, call
from reporting import PENSTOCK, ROOT, run

TIMEOUT_S = {"export": 300, "profile": 900, "freeze": 300, "run": 300}
WARM_UP = 3  # steps that `execute` leaves out of its median
MEASURED_S, LEAST_STEPS, MOST_STEPS = 3, 12, 60  # of a run, after the warm-up
AGREED_STEPS = 5
EXPORT_S, PROFILE_S, FREEZE_S, START_S = 8, 30, 1, 3  # about; of a run until its first step


def read(path):
    return json.loads(path.read_text())


def write(path, content):
    """Complete or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


def good(path):
    """What a stage left there, unless it failed."""
    content = read(path) if path.exists() else {"failed": "not done"}
    return None if "failed" in content else content


class Progress:
    """A line for each thing that is done, and how long the rest of its stage takes, by what the
    things were thought to take."""

    def __init__(self, stage, expected_s):
        self.stage, self.left_s, self.count = stage, sum(expected_s), len(expected_s)
        self.done, self.thought_s, self.took_s = 0, 0.0, 0.0
        self.begin = time.monotonic()

    def tell(self, expected_s, text):
        now = time.monotonic()
        self.done += 1
        self.left_s -= expected_s
        self.thought_s += expected_s
        self.took_s += now - self.begin
        self.begin = now
        left = self.left_s * self.took_s / self.thought_s
        print(f"[{self.stage} {self.done}/{self.count}, {left / 60:.1f} min left] {text}",
              file=sys.stderr, flush=True)


class Work:
    def __init__(self, folder, device, quick, models, only=None, repeat=3, samples=0):
        self.folder, self.device, self.quick, self.repeat = folder, device, quick, repeat
        self.cases = [CASES[name] for name in models]
        self.only, self.samples = only, samples
        settings = {"device": device, "quick": quick}
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "settings.json"
        if kept.exists() and read(kept) != settings:
            sys.exit(f"bench/fidelity: {folder} holds results of {read(kept)}, not of {settings}; "
                     "name another --folder")
        write(kept, settings)

    # What there is.

    @property
    def devices(self):
        """How many ranks may run: of a CPU any number."""
        return torch.cuda.device_count() if self.device == "cuda" else sys.maxsize

    @property
    def own_cores(self):
        """How many ranks have a core or a device each."""
        return self.devices if self.device == "cuda" else os.cpu_count()

    def plan_names(self, case):
        names = case.plan_names(self.devices)
        return [name for name in names if self.only is None or name in self.only]

    def place(self, case, plan=None):
        return self.folder / case.name / (plan or "")

    def all_plans(self):
        return [(case, name) for case in self.cases for name in self.plan_names(case)]

    def have(self, result):
        """The models of which an earlier stage left this."""
        return [case for case in self.cases if good(self.place(case) / f"{result}.json")]

    def frozen(self):
        return [(case, name, found) for case, name in self.all_plans()
                if (found := good(self.place(case, name) / "frozen.json"))]

    def job(self, case):
        here = self.place(case).resolve()
        return {"model": str(here / "model.pt2"), "loss": case.loss,
                "optimizer": {"kind": "adamw", "learning_rate": 1e-4},
                "data": str(here / "data.safetensors"),
                "global_batch": case.global_batch(self.quick), "steps": 1000}

    # Stages.

    def stage(self, name, items, expected_s):
        """Does what is not done; `items` are (what it is called, where its result is kept, how it
        is made), `expected_s` what each takes, about."""
        if not isinstance(expected_s, list):
            expected_s = [expected_s] * len(items)
        left = [(item, seconds) for item, seconds in zip(items, expected_s, strict=True)
                if good(item[1]) is None]
        progress = Progress(name, [seconds for _, seconds in left])
        for (title, path, make), seconds in left:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                content, text = make()
            except (Exception, SystemExit) as error:  # of the bench, or of a command
                text = f"failed: {str(error) or type(error).__name__}"
                content = {"failed": text.removeprefix("failed: ")}
            write(path, content)
            progress.tell(seconds, f"{title}: {text}")

    def export(self):
        self.stage("export", [(case.name, self.place(case) / "exported.json",
                               lambda case=case: self.export_one(case)) for case in self.cases],
                   EXPORT_S)

    def export_one(self, case):
        settings = case.settings(self.device, self.quick)
        given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        path = self.place(case) / "model.pt2"
        run(sys.executable, ROOT / "tools" / "export_model.py", case.file, "-o", path, *given,
            timeout=TIMEOUT_S["export"])
        parameters = self.write_data(case, settings)
        return {"parameters": parameters}, f"{parameters:,} parameters"

    def write_data(self, case, settings):
        """Random samples, two global batches of them; returns the number of parameters."""
        torch.manual_seed(1)
        file = case.module()
        module = call(file.model, settings)
        samples = call(file.example_inputs, settings, batch=2 * case.global_batch(self.quick))
        with torch.no_grad():
            output = module(**{name: value[:2] for name, value in samples.items()})
        if case.loss == "mse":
            target = torch.randn(len(next(iter(samples.values()))), *output.shape[1:])
        else:
            shape = (len(next(iter(samples.values()))), *output.shape[1:-1])
            target = torch.randint(output.shape[-1], shape)
        save_file(samples | {"target": target}, self.place(case) / "data.safetensors")
        return sum(parameter.numel() for parameter in module.parameters())

    def profile(self):
        self.stage("profile", [(case.name, self.place(case) / "profiled.json",
                                lambda case=case: self.profile_one(case))
                               for case in self.have("exported")], PROFILE_S)

    def profile_one(self, case):
        job = self.place(case) / "job.yaml"
        job.write_text(yaml.safe_dump({"penstock": "job", **self.job(case)}))
        begin = time.monotonic()
        run(PENSTOCK, "profile", job, "--device", self.device, "--ranks", min(2, self.devices),
            *(["--quick"] if self.quick else []), "-o", self.place(case) / "profile.json",
            timeout=TIMEOUT_S["profile"])
        seconds = time.monotonic() - begin
        return {"seconds": seconds}, f"{seconds:.0f} s"

    def freeze(self):
        profiled = self.have("profiled")
        self.stage("freeze", [(f"{case.name}/{name}", self.place(case, name) / "frozen.json",
                               lambda case=case, name=name: self.freeze_one(case, name))
                              for case, name in self.all_plans() if case in profiled], FREEZE_S)

    def freeze_one(self, case, name):
        here = self.place(case, name)
        path, profile_path = here / "plan.yaml", self.place(case) / "profile.json"
        if name in CHOSEN:
            run(PENSTOCK, "plan", profile_path, "--ranks", min(2, self.devices), *CHOSEN[name],
                "--allow-batch-coupling", "-o", path, timeout=TIMEOUT_S["freeze"])
        else:
            self.write_shape(case, name, path)
        sampled = ["--samples", self.samples] if self.samples else []
        said = json.loads(run(PENSTOCK, "simulate", path, "--json", *sampled, "--trace",
                              here / "predicted.json", timeout=TIMEOUT_S["freeze"]))
        plan = yaml.safe_load(path.read_text())
        step_s = said["samples"]["median_s"] if sampled else said["step_s"]
        steps = 3 if self.quick else round(MEASURED_S / step_s)
        frozen = {"frozen": datetime.now().isoformat(timespec="seconds"),
                  "plan_sha256": plans.sha256(path), "schedule": plan["schedule"],
                  "stages": len(plan["stages"]), "microbatches": plan["microbatches"],
                  "replicas": plan.get("data_parallel", 1),
                  "processes": said["ranks"] * plan.get("data_parallel", 1),
                  "step_s": step_s, "simulated_s": said["step_s"], "samples": self.samples,
                  "limiting_rank": said["limiting_rank"],
                  "peak_memory_bytes": said["peak_memory_bytes"],
                  "run_steps": WARM_UP + (steps if self.quick else
                                          min(max(steps, LEAST_STEPS), MOST_STEPS))}
        return frozen, f"{1e3 * step_s:.1f} ms"

    def write_shape(self, case, name, path):
        profile = self.place(case) / "profile.json"
        blocks = call(case.module().blocks, case.settings(self.device, self.quick))
        plans.write_plan(path, SHAPES[name], self.job(case), profile.resolve(), read(profile),
                         blocks)

    def run(self):
        """Every plan once, then every plan again, so that a machine that drifts is told apart from
        a plan that is slow."""
        frozen = self.frozen()
        items = [(f"{case.name}/{name} round {number}",
                  self.place(case, name) / f"run-{number}.json",
                  lambda case=case, name=name, found=found, number=number:
                  self.run_one(case, name, found, number))
                 for number in range(1, self.repeat + 1) for case, name, found in frozen]
        expected_s = [START_S + found["run_steps"] * found["step_s"] for _, _, found in frozen]
        self.stage("run", items, expected_s * self.repeat)

    def run_one(self, case, name, frozen, number):
        here = self.place(case, name)
        plan, trace = here / "plan.yaml", here / f"run-{number}.trace.json"
        if plans.sha256(plan) != frozen["plan_sha256"]:
            raise ValueError("the plan is not the one that was frozen; run freeze --redo")
        began = datetime.now().isoformat(timespec="seconds")
        done = json.loads(run(PENSTOCK, "execute", plan, "--device", self.device, "--json",
                              "--steps", frozen["run_steps"], "--trace", trace,
                              timeout=TIMEOUT_S["run"]))
        compared = json.loads(run(PENSTOCK, "compare", here / "predicted.json", trace, "--json",
                                  timeout=TIMEOUT_S["run"]))
        simulated = json.loads(run(PENSTOCK, "simulate", plan, "--measured", trace, "--json",
                                   timeout=TIMEOUT_S["run"]))
        step_s = done["measured_step_s"]
        return ({"began": began, "load": os.getloadavg()[0], "execute": done, "compare": compared,
                 "with_measured_compute_s": simulated["step_s"]},
                f"{1e3 * step_s:.1f} ms, predicted {1e3 * frozen['step_s']:.1f} "
                f"({100 * (frozen['step_s'] / step_s - 1):+.1f} %)")

    def agree(self):
        if self.devices == 1:
            self.stage("agree", [(case.name, self.place(case) / "agreed.json",
                                  lambda case=case: self.agree_one(case))
                                 for case in self.have("profiled")], 2 * START_S)

    def agree_one(self, case):
        sharing, alone = (self.losses(case, name) for name in (SHARING, ALONE))
        apart = max(abs(one / other - 1) for one, other in zip(sharing, alone, strict=True))
        return {"steps": AGREED_STEPS, "apart": apart}, f"losses differ by {apart:.0e} at most"

    def losses(self, case, name):
        path = self.place(case) / f"{name}-shared.yaml"
        self.write_shape(case, name, path)
        ranks = SHAPES[name].processes
        shared = ["--ranks-per-device", ranks] if self.device == "cuda" else []
        return json.loads(run(PENSTOCK, "execute", path, "--device", self.device, "--json",
                              "--steps", AGREED_STEPS, *shared, timeout=TIMEOUT_S["run"]))["losses"]

    def remove(self, stages):
        """What these have left, and with it what later ones made of it."""
        left = {"export": ["exported.json"], "profile": ["profiled.json"],
                "freeze": ["*/frozen.json"], "run": ["*/run-*.json"], "agree": ["agreed.json"]}
        names = list(left)
        first = min((names.index(stage) for stage in stages if stage in names), default=len(names))
        for case in self.cases:
            for pattern in (pattern for name in names[first:] for pattern in left[name]):
                for path in self.place(case).glob(pattern):
                    path.unlink()
