"""From a shape to a plan file: stages begin at modules of the model, so that each has its share of
the measured work."""

import hashlib

import yaml

ACTIONS = ("forward", "backward")


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def block_times(profile, microbatch, blocks):
    """Seconds from each block to the next for one microbatch, F and B; what comes before the first
    is its part."""
    costs = next(costs for costs in profile["microbatches"] if costs["microbatch"] == microbatch)
    times, current = [0.0] * len(blocks), 0
    for operator in costs["operators"]:
        inside = [index for index, block in enumerate(blocks)
                  if f"{operator['module']}.".startswith(f"{block}.")]
        current = max([current, *inside])
        times[current] += sum(operator["times"][action]["mean_s"] for action in ACTIONS)
    return times


def split(times, shares):
    """For each share the first of its blocks: the contiguous parts, none empty, whose largest
    time / share is least."""
    count = len(times)
    if count < len(shares):
        raise ValueError(f"{count} blocks are too few for {len(shares)} stages")
    before = [sum(times[:k]) for k in range(count + 1)]
    best = {0: (0.0, [])}  # blocks taken -> (largest so far, where parts begin)
    for stage, share in enumerate(shares):
        left = len(shares) - stage - 1
        ends = [count] if left == 0 else range(stage + 1, count - left + 1)
        best = {end: min((max(most, (before[end] - before[begin]) / share), [*begins, begin])
                         for begin, (most, begins) in best.items() if begin < end)
                for end in ends}
    return best[count][1]


def write_plan(path, shape, job, profile_path, profile, blocks):
    """`job` has absolute paths."""
    microbatch, left = divmod(job["global_batch"], shape.replicas * shape.microbatches)
    if left or microbatch == 0:
        raise ValueError(f"{job['global_batch']} samples are no {shape.replicas} x "
                         f"{shape.microbatches} microbatches")
    ranks = shape.rank_of_stages()
    begins = split(block_times(profile, microbatch, blocks), shape.shares or (1,) * len(ranks))
    stages = [{"rank": rank, "begin": blocks[begin] if begin else "",
               "recompute": stage in shape.recompute}
              for stage, (rank, begin) in enumerate(zip(ranks, begins, strict=True))]
    path.write_text(yaml.safe_dump(
        {"penstock": "plan", "version": 1, "job": job, "model_sha256": profile["model_sha256"],
         "profile": {"path": str(profile_path), "sha256": sha256(profile_path)},
         "schedule": shape.schedule, "microbatches": shape.microbatches, "microbatch": microbatch,
         "data_parallel": shape.replicas, "stages": stages}, sort_keys=False))
