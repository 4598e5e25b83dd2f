#!/usr/bin/env python3
"""Exports a PyTorch model to the `.pt2` file that Penstock reads.

    .venv/bin/python tools/export_model.py configs/models/transformer.py -o transformer.pt2 \\
        --set batch_first=true --set layers=4

The Python file defines `model(**settings)`, which returns a torch.nn.Module, and
`example_inputs(**settings)`, which returns a tuple of tensors or a dictionary by input name; an
input may also be a tuple, list or dictionary of tensors, which then are called `pair_0`, `pair_1`.
The first dimension of every tensor is the batch, and stays dynamic unless --static is given.

Guarantees: the written program is functional (no operator writes to its input; buffer updates are
outputs named in the signature) and was compared with the module (outputs, gradients, buffers),
unless --meta says that there are no numbers to compare. The file appears complete or not at all. A
mistake of the user ends with exit status 2 and one message.
"""

import argparse
import os
import sys

# In a checkout; installed, the package lies beside this file.
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "python"))

from penstock.exporter.cpu import limit_onednn
from penstock.exporter.errors import UserError

PROGRAM = os.path.basename(__file__)  # installed it is penstock-export


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Export a PyTorch model to a .pt2 file for Penstock.")
    parser.add_argument("file", metavar="FILE.py",
                        help="defines model(**settings) and example_inputs(**settings)")
    parser.add_argument("-o", "--output", required=True, metavar="OUT.pt2")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings",
                        help="a setting of model() or example_inputs(); may be repeated")
    parser.add_argument("--static", action="store_true",
                        help="fix the batch to the example's instead of keeping it dynamic")
    parser.add_argument("--decompose", action="store_true",
                        help="replace custom operators by the torch operators they consist of")
    parser.add_argument("--meta", action="store_true",
                        help="no weights and no numeric check: for a model too big to hold")
    parser.add_argument("--dtype", choices=["float32", "float64", "bfloat16"],
                        help="convert parameters, buffers and inputs of floating type")
    parser.add_argument("--seed", type=int, default=0, help="of weights and inputs (default: 0)")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_arguments(arguments)
    limit = limit_onednn()  # before the user's file, or we, import torch
    try:
        from penstock.exporter import output
        from penstock.exporter.source import Source
        output.check(options.output, options.file)
        source = Source.load(options.file, options.settings)
        from penstock.exporter.export import run  # imports torch, which takes seconds
        line = run(source, options, limit)
    except UserError as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 2
    try:
        print(line, flush=True)
    except OSError as error:
        print(f"{PROGRAM}: error: standard output cannot be written: {error.strerror}",
              file=sys.stderr)
        sys.stdout = None  # or Python reports it again when it ends
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
