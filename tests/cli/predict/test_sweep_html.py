"""The page of penstock plan --sweep --html in headless Chromium: columns, table, any width."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By

sys.path.insert(0, str(Path(__file__).parent))
from browsing import browser, check_width, needs_chromium, opened
from planning import PENSTOCK, run

assert browser and opened  # fixtures
pytestmark = needs_chromium

TABLE = """\
penstock: layers
global_batch: 8
microbatch: 1
layers:
  - {name: embedding, forward: 1ms, backward: 2ms, static: 40MB, gradient: 10MB}
  - {name: block, count: 6, forward: 10ms, backward: 20ms, static: 10MB, gradient: 3MB, saved: 9MB}
  - {name: head, forward: 2ms, backward: 4ms, static: 40MB, gradient: 10MB}
"""


def written(folder, *flags):
    """The page's file, and the rows as JSON."""
    (folder / "<b>.yaml").write_text(TABLE)
    page = folder / "sweep.html"
    done = run(PENSTOCK, "plan", "<b>.yaml", *flags, "--html", page, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return page, json.loads(done.stdout)


def height(column):
    return column.find_element(By.TAG_NAME, "i").size["height"]


def test_columns_are_as_high_as_what_they_show(opened, tmp_path):
    path, found = written(tmp_path, "--sweep", "ranks=1,2,4,8")
    page = opened(path)
    assert page.title == "<b>.yaml" == page.find_element(By.ID, "title").text
    charts = page.find_elements(By.CSS_SELECTOR, "#charts figure")
    for chart, member in zip(charts, ["samples_per_s", "device_seconds_per_sample"], strict=True):
        values = [row[member] for row in found["rows"]]
        columns = chart.find_elements(By.CLASS_NAME, "column")
        assert len(columns) == len(values)
        for column, value in zip(columns, values, strict=True):
            assert height(column) / height(columns[values.index(max(values))]) == pytest.approx(
                value / max(values), abs=0.01)
        labels = [label.text for label in chart.find_elements(By.CLASS_NAME, "label")]
        assert labels == ["1", "2", "4", "8"]
        best = chart.find_elements(By.CLASS_NAME, "best")
        index = found["fastest" if member == "samples_per_s" else "cheapest"]
        assert best == [columns[index]]
    figures = page.find_element(By.ID, "figures").text
    assert f"ranks={found['rows'][found['fastest']]['values']['ranks']}: a step of" in figures


def test_the_table_has_every_row_and_why_one_has_no_plan(opened, tmp_path):
    path, found = written(tmp_path, "--sweep", "memory=50MB,1GB", "--sweep", "ranks=2,4,8")
    page = opened(path)
    rows = page.find_elements(By.CSS_SELECTOR, "#plans tbody tr")
    assert len(rows) == len(found["rows"]) == 6
    without = sum("problem" in row for row in found["rows"])
    assert 0 < without <= 3
    for shown, row in zip(rows, found["rows"], strict=True):
        assert row.get("problem", row.get("schedule")) in shown.text
    assert "fastest" in rows[found["fastest"]].text
    # Grouped by the key with more values, in the colour of the other.
    legend = page.find_element(By.ID, "legend").text
    assert legend.split("\n") == ["memory=50MB", "memory=1GB"]
    chart = page.find_element(By.CSS_SELECTOR, "#charts figure")
    assert len(chart.find_elements(By.CLASS_NAME, "group")) == 3
    assert len(chart.find_elements(By.CLASS_NAME, "none")) == without


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_nothing_sticks_out_of_the_window(opened, tmp_path, width, scheme):
    ranks = ",".join(map(str, range(1, 31)))
    path, _ = written(tmp_path, "--sweep", f"ranks={ranks}", "--sweep", "memory=60MB,1GB",
                      "--schedule", "1f1b")
    page = opened(path, width, scheme)
    check_width(page)
    assert len(page.find_elements(By.CSS_SELECTOR, "#plans tbody tr")) == 60
