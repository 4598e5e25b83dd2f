"""The page of penstock compare --html in headless Chromium: one step above the other, errors by
cause."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By

sys.path.insert(0, str(Path(__file__).parent))
from browsing import browser, check_width, drawn, move_to, needs_chromium, opened, place
from planning import PENSTOCK, run

assert browser and opened  # fixtures
pytestmark = needs_chromium


def trace(path, *study):
    done = run(PENSTOCK, "simulate", *study, "--trace", path, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["makespan_s"]


def compared(folder, schedule, ranks, microbatches):
    """The page, and both steps: measured are slower actions over a slower link."""
    study = ["--schedule", schedule, "--ranks", ranks, "--microbatches", microbatches, "--backward",
             "2ms", "--message", "16MB", "--bandwidth", "100GB/s", "--saved", "64MB"]
    steps = (trace(folder / "predicted.json", *study, "--forward", "1ms"),
             trace(folder / "measured.json", *study, "--forward", "1.5ms", "--latency", "1ms"))
    page = folder / "compared.html"
    done = run(PENSTOCK, "compare", folder / "predicted.json", folder / "measured.json", "--html",
               page)
    assert done.returncode == 0, done.stderr
    return page, steps


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return compared(tmp_path_factory.mktemp("small"), "1f1b", 4, 8)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return compared(tmp_path_factory.mktemp("large"), "1f1b", 64, 512)


def test_each_rank_is_measured_below_predicted_on_one_time_axis(opened, small):
    page = opened(small[0])
    for rank in range(4):
        above, below = (place(page, 2 * rank + run, f"{rank}F0") for run in (0, 1))
        assert above["y"] < below["y"]
        assert rank == 3 or below["y"] < place(page, 2 * rank + 2, f"{rank + 1}F0")["y"]
    # The same pixels a second in both: from the middle of one action to that of another.
    scales = []
    for row in (0, 1):
        first, last = place(page, row, "0F0"), place(page, row, "0B7")
        middle = [(at["start"] + at["end"]) / 2 for at in (first, last)]
        scales.append((last["x"] - first["x"]) / (middle[1] - middle[0]))
    assert scales[0] == pytest.approx(scales[1])


def test_errors_by_cause_add_up_to_the_error_of_the_step_on_every_rank(opened, small):
    page_file, (predicted_s, measured_s) = small
    page = opened(page_file)
    lines = page.find_elements(By.CSS_SELECTOR, "#errors tbody tr")
    assert len(lines) == 5 and "all ranks, mean" in lines[0].text
    for line in lines:
        cells = [float(cell.get_attribute("data-seconds"))
                 for cell in line.find_elements(By.CSS_SELECTOR, "td[data-seconds]")]
        *causes, step = cells
        assert len(causes) == 5
        assert step == pytest.approx(predicted_s - measured_s, rel=1e-12)
        # Five parts of two timelines, each with roundings of some units of the step's last place.
        assert sum(causes) == pytest.approx(step, rel=0, abs=100 * 2.0 ** -52 * measured_s)
    percent = 100 * (predicted_s / measured_s - 1)
    assert f"{percent:.1f} %".replace("-", "\u2212") in page.find_element(By.ID, "figures").text


def test_hovering_an_action_tells_how_the_other_run_has_it(opened, small):
    page = opened(small[0])
    move_to(page, place(page, 1, "0F2"))
    text = page.find_element(By.ID, "tooltip").text
    assert "0F2, measured" in text and "1.50 ms:" in text
    assert "500 \u00b5s longer and 1.00 ms later than predicted" in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 500])
def test_64_ranks_and_512_microbatches_are_compared_at_any_width_in_both_schemes(
        opened, large, width, scheme):
    page = opened(large[0], width, scheme)  # which checks that nothing complains
    check_width(page)
    for kind in ("F", "B", "predicted", "measured"):
        assert drawn(page, kind)[0] > 0
    for what in ("transfers", "memory", "labels"):
        page.find_element(By.ID, f"show-{what}").click()
    check_width(page)
    assert drawn(page, "curve")[0] > 0
