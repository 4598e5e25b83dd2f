"""The rows, limits and page of bench/gpu.py."""

from reporting import put, table


def milliseconds(seconds):
    return f"{1e3 * seconds:.2f} ms"


def megabytes(number):
    return f"{number / 1e6:.0f} MB"


def percent(said, found):
    return f"{100 * (said / found - 1):+.1f} %"


WAYS = {"eager": "PyTorch eager", "fused": "fused AdamW", "compiled": "torch.compile",
        "replayed": "reduce-overhead"}


def best_eager_s(row):
    """Quartiles of the one with the shorter median."""
    ways = (row["pytorch"][way] for way in ("eager", "fused"))
    return min(ways, key=lambda quartiles: quartiles[1])


def show_graphs(graphs):
    """Whether a run used them, and why not; what its warm-up measured of a step's compute, where it
    did."""
    if graphs is None:
        return "-"
    text = "used" if graphs["on"] else f"not used: {graphs['why_not']}"
    if graphs["with_s"] > 0:
        text += (f" ({milliseconds(graphs['with_s'])} with, {milliseconds(graphs['without_s'])} "
                 "without)")
    return text


def show_speed(row):
    shown = {"sequence": row["sequence"], "microbatch": row["microbatch"]}
    shown |= {WAYS[way]: milliseconds(quartiles[1]) for way, quartiles in row["pytorch"].items()}
    for graphs, step in row["steps"].items():
        shown |= {f"Penstock, graphs {graphs}": milliseconds(step),
                  f"of the better eager, graphs {graphs}": f"{step / best_eager_s(row)[1]:.3f}"}
    return shown | {"CUDA graphs": show_graphs(row["graphs"])}


def show_prediction(row):
    shown = {key: row[key] for key in ("sequence", "microbatch", "graphs")}
    step = row["step"][1]
    shown |= {"step measured": milliseconds(step),
              "sum of operators": (f"{milliseconds(row['operators'][0])} "
                                   f"({percent(*row['operators'])})"),
              "step predicted": f"{milliseconds(row['step'][0])} ({percent(*row['step'])})"}
    return shown | {"memory measured": megabytes(row["memory"][1]),
                    "memory predicted": (f"{megabytes(row['memory'][0])} "
                                         f"({percent(*row['memory'])})")}


def place(row):
    return f"sequence {row['sequence']}, microbatch {row['microbatch']}"


def missed_by_speed(row, limits, sequences):
    """Penstock, by itself, is not slower than eager: its median is within eager's upper quartile;
    short kernels are faster by CUDA graphs."""
    step, (_, eager, slow) = list(row["steps"].values())[-1], best_eager_s(row)
    if limits["eager"] is not None and step > limits["eager"] * slow:
        yield (f"{place(row)}: a step takes {step / eager:.3f} of PyTorch's eager one, the limit "
               f"is {limits['eager']:g} of its upper quartile, {slow / eager:.3f}")
    if row["graphs"] is None or row["sequence"] != sequences[-1] or row["microbatch"] != 1:
        return
    ratio = row["steps"]["auto"] / row["steps"]["off"]
    if limits["graphs"] is not None and ratio >= limits["graphs"]:
        yield (f"{place(row)}: CUDA graphs ({show_graphs(row['graphs'])}) make a step {ratio:.3f} "
               f"of what it was, it is to be below {limits['graphs']:g}")


def missed_by_prediction(row, limits, sequences):
    """Without CUDA graphs, and where the device does not wait for its host: else the kernels are
    not all."""
    if row["graphs"] == "auto" or row["sequence"] != sequences[0]:
        return
    for key, name, limit in (("operators", "the sum of the operators", limits["step"]),
                             ("step", "the predicted step", limits["step"]),
                             ("memory", "the predicted memory", limits["memory"])):
        said, found = row[key]
        if limit is not None and abs(said / found - 1) > limit:
            yield (f"{place(row)}: {name} is off by {percent(said, found)}, the limit is "
                   f"{100 * limit:g} %")


class Report:
    """A page that grows part by part. Each is tried; what went wrong is told at the end."""

    def __init__(self, page, header):
        self.page, self.texts, self.problems = page, [header], []

    def add(self, name, rows, show, missed):
        """A table of the rows that there are; `missed` says which limits a row misses."""
        found, failed = [], None
        try:
            for row in rows:
                found.append(show(row))
                self.problems += missed(row)
        except (Exception, SystemExit) as error:  # of the bench, or of a command
            failed = f"{name} failed: {str(error) or type(error).__name__}"
            self.problems.append(failed)
        if found:
            self.texts.append(table(found))
        if failed:
            self.texts.append(f"**{' '.join(line.strip() for line in failed.splitlines()[:4])}**")
        self.write()

    def write(self):
        if self.page:
            put(self.page, "gpu.py", self.text())

    def text(self):
        return "\n\n".join(self.texts)
