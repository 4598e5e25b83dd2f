"""Plans and simulations as a notebook shows them: the page of `penstock simulate --html`."""

import html
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
