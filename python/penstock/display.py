"""In a notebook: plans and simulations as the page of `penstock simulate --html`, and a line for
the progress of a command."""

import html
import sys
import tempfile
from pathlib import Path

from .programs import run

HEIGHT = 640  # pixels


def page(words):
    """A frame with the page in it, which is whole in itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        run("simulate", *words, "--html", path)
        text = path.read_text(encoding="utf-8")
    return (f'<iframe srcdoc="{html.escape(text)}" width="100%" height="{HEIGHT}" '
            'style="border: 0"></iframe>')


def line_in_notebook():
    """A function that shows a text in place of its last one; None outside of a notebook."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module else None
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    def content(text):
        return {"text/plain": text}

    line = display(content(""), raw=True, display_id=True)
    return lambda text: line.update(content(text), raw=True)


class Plan(type(Path())):
    """The path of a plan."""

    def _repr_html_(self):
        return page([self])


class Simulation(dict):
    """The prediction for a plan."""

    def __init__(self, figures, words):
        super().__init__(figures)
        self._words = words

    def _repr_html_(self):
        return page(self._words)
