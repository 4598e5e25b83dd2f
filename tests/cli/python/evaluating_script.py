"""A rank's script of test_smaller_batches.py:

    evaluating_script.py PLAN SAMPLES [own | fewer on 1]

Evaluates the first samples of its replica, of which the rank may pass only what it reads, and
prints what came of it as JSON.
"""

import json
import sys

from fed_script import batches, penstock


def main(plan, samples, how=""):
    with penstock.Pipeline(plan) as pipe:
        (batch,) = batches(plan, pipe, 1)
        count = samples - (how == "fewer on 1" and pipe.rank == 1)
        given = {name: value[:count] for name, value in batch.items()
                 if name in pipe.inputs or how != "own"}
        try:
            loss = pipe.evaluate(**given)
        except penstock.InputError as error:
            print(json.dumps({"rank": pipe.rank, "message": str(error)}))
            return
        given.pop("target", None)
        outputs = pipe.forward(**given)
        print(json.dumps({"rank": pipe.rank, "loss": loss,
                          "outputs": outputs and next(iter(outputs.values())).tolist()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
