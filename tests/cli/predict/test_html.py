"""The page of penstock simulate --html in headless Chromium: it draws, zooms, answers the mouse,
adds up."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

sys.path.insert(0, str(Path(__file__).parent))
from browsing import (browser, drawn, frame, move_to, needs_chromium, opened, pixel, place, shown,
                      study_flags, turn_wheel, written)
from planning import PENSTOCK, ROOT, write_meta_job
from planning import run as run_command

assert browser and opened  # fixtures
pytestmark = needs_chromium

STUDY = study_flags(4, 8)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The page's file, and what the same simulation says as JSON."""
    path = tmp_path_factory.mktemp("html") / "out.html"
    return path, written(path, *STUDY)


@pytest.fixture
def page(opened, study):
    return opened(study[0])


def test_the_page_shows_what_the_simulation_says(page, study):
    step = study[1]
    assert page.title == "1f1b"
    assert "4 ranks, 4 stages, 8 microbatches" in page.find_element(By.ID, "shape").text
    figures = page.find_element(By.ID, "figures").text
    assert f"{100 * step['bubble']:.1f} %" in figures
    assert f"{step['makespan_s'] * 1e3:.1f} ms" in figures
    assert f"rank {step['limiting_rank']}" in figures
    assert shown(page) == (0, step["makespan_s"])


def test_each_kind_of_action_is_drawn_in_its_colour(page):
    frame(page)
    forward, backward, send = (pixel(page, at["x"] + 1, at["y"] - 6 * compute) for at, compute in [
        (place(page, 1, "1F2"), 1), (place(page, 1, "1B2"), 1), (place(page, 1, "1SEND_F2"), 0)])
    assert len({tuple(colour) for colour in (forward, backward, send)}) == 3
    assert all(colour[3] == 255 for colour in (forward, backward, send))
    assert forward[2] > forward[0] and backward[0] > backward[2]  # blue; orange


def test_hovering_an_action_tells_its_name_and_times(page):
    tooltip = page.find_element(By.ID, "tooltip")
    assert not tooltip.is_displayed()
    move_to(page, place(page, 0, "0F1"))
    assert tooltip.is_displayed()
    assert "0F1" in tooltip.text and "forward, rank 0" in tooltip.text
    assert "1.00 ms: 1.00 ms – 2.00 ms" in tooltip.text
    move_to(page, place(page, 2, "2SEND_B3"))
    assert "2SEND_B3" in tooltip.text and "gradients, rank 2 → 1, 15.3 MiB" in tooltip.text
    assert "200 µs:" in tooltip.text  # 16 MB at 100 GB/s, and 40 us
    move_to(page, {"x": 700, "y": 5})
    assert not tooltip.is_displayed()


def test_keys_buttons_wheel_and_drag_change_what_is_shown(page, study):
    end = study[1]["makespan_s"]
    canvas = page.find_element(By.ID, "timeline")
    canvas.send_keys("+")
    first = shown(page)
    assert first[0] > 0 and first[1] < end
    assert first[1] - first[0] == pytest.approx(0.7 * end)
    canvas.send_keys(Keys.ARROW_RIGHT)
    assert shown(page)[0] > first[0]
    page.find_element(By.ID, "zoom-all").click()
    assert shown(page) == (0, end)

    at = place(page, 0, "0F3")
    turn_wheel(page, at, -500, Keys.CONTROL)
    zoomed = shown(page)
    assert zoomed[0] < at["start"] < zoomed[1] and zoomed[1] - zoomed[0] < end
    # What was under the mouse has stayed there, to a pixel.
    assert place(page, 0, "0F3")["x"] == pytest.approx(at["x"], abs=20)

    move_to(page, at)
    drag = ActionChains(page)
    drag.w3c_actions.pointer_action.pointer_down()
    drag.w3c_actions.pointer_action.move_to_location(round(at["x"]) - 100, round(at["y"]))
    drag.w3c_actions.pointer_action.pointer_up()
    drag.perform()
    assert shown(page)[0] > zoomed[0]
    assert shown(page)[1] - shown(page)[0] == pytest.approx(zoomed[1] - zoomed[0])


def test_the_critical_path_is_listed_without_gaps_and_adds_up_to_the_step(page, study):
    step = study[1]
    lines = page.find_elements(By.CSS_SELECTOR, "#path-rows tr[data-step]")
    assert len(lines) == step["critical_path"]["steps"]
    # Each difference of two times is rounded, and so is each sum: 2 halves of an ulp of the step
    # each.
    tolerance = 2 * len(lines) * 2.0 ** -52 * step["makespan_s"]
    assert sum(float(line.get_attribute("data-seconds")) for line in lines) == pytest.approx(
        step["makespan_s"], rel=0, abs=tolerance)
    assert page.find_element(By.ID, "path-total").text == f"{step['makespan_s'] * 1e3:.1f} ms"
    path = step["critical_path"]
    total = path["compute_s"] + path["transfer_s"] + path["reduce_s"] + path["wait_s"]
    assert total == pytest.approx(step["makespan_s"], rel=0, abs=tolerance)
    assert "0F0" in lines[0].text and "0B7" in lines[-1].text
    assert any("transfer" in line.text and "0 → 1" in line.text for line in lines)
    assert any("the message that it needs" in line.text for line in lines)


def test_a_line_of_the_critical_path_shows_its_step(page):
    line = next(line for line in page.find_elements(By.CSS_SELECTOR, "#path-rows tr[data-step]")
                if "0B7" in line.text)
    line.click()
    before, after = shown(page)
    at = place(page, 0, "0B7")
    assert before <= at["start"] and at["end"] <= after
    assert after - before < 6 * (at["end"] - at["start"])


def test_the_critical_path_is_drawn_and_can_be_hidden(page):
    at = place(page, 0, "0B7")  # the last action is on it; its foot lies 10 pixels below the middle
    frame(page)
    drawn = pixel(page, at["x"], at["y"] + 10)
    page.find_element(By.ID, "show-path").click()
    frame(page)
    assert pixel(page, at["x"], at["y"] + 10) != drawn


def test_memory_is_drawn_and_listed_by_rank(page, study):
    assert study[1]["peak_memory_bytes"] == [256_000_000, 192_000_000, 128_000_000, 64_000_000]
    text = page.find_element(By.ID, "memory").text
    for size in ("244 MiB", "183 MiB", "122 MiB", "61.0 MiB"):
        assert size in text
    height = page.find_element(By.ID, "canvas").size["height"]
    page.find_element(By.ID, "show-memory").click()
    frame(page)
    assert page.find_element(By.ID, "canvas").size["height"] < height


def test_dark_mode_changes_the_page_and_the_drawing(opened, study):
    looks = []
    for scheme in ("light", "dark"):
        page = opened(study[0], scheme=scheme)
        body = page.find_element(By.TAG_NAME, "body")
        at = place(page, 3, "3F0")
        looks.append((body.value_of_css_property("background-color"),
                      pixel(page, at["x"] - 60, at["y"])))
    assert looks[0][0] != looks[1][0] and looks[0][1] != looks[1][1]


def test_stages_of_one_rank_differ_in_colour_and_label(opened, tmp_path):
    path = tmp_path / "zbv.html"
    written(path, "--schedule", "zbv", "--ranks", 2, "--microbatches", 4, "--forward", "1ms",
            "--backward-input", "1ms", "--backward-weight", "1ms")
    page = opened(path)
    first, last = (pixel(page, at["x"] - 12, at["y"] - 9)
                   for at in (place(page, 0, "0F0"), place(page, 0, "3F0")))
    assert first != last
    assert first[2] > first[0] and last[2] > last[0]  # both blue
    assert "later stages of a rank are lighter" in page.find_element(By.ID, "legend").text


def test_a_memory_limit_is_a_line_in_the_charts_and_in_the_legend(opened, study, tmp_path):
    page = opened(study[0])
    assert drawn(page, "limit")[0] == 0
    assert "memory limit" not in page.find_element(By.ID, "legend").text
    for name, limit, told in [("near.html", "200MB", "memory limit"),
                              ("far.html", "80GB", "memory limit (dotted: above the chart)")]:
        written(tmp_path / name, *STUDY, "--memory", limit)
        page = opened(tmp_path / name)
        assert drawn(page, "limit")[0] > 100
        assert told in page.find_element(By.ID, "legend").text.split("\n")


def test_hovering_memory_tells_the_bytes_at_that_time_and_the_limit(opened, tmp_path):
    path = tmp_path / "limit.html"
    written(path, *STUDY, "--memory", "200MB")
    page = opened(path)
    at = place(page, 3, "3F0")
    move_to(page, {"x": at["x"], "y": at["y"] + 40})
    text = page.find_element(By.ID, "tooltip").text
    assert "61.0 MiB" in text and "rank 3 at" in text and "limit 191 MiB" in text


def test_the_head_tells_schedule_replicas_cluster_and_that_costs_are_estimated(opened, tmp_path):
    write_meta_job(tmp_path)
    for arguments in (
            ["profile", tmp_path / "job.yaml", "--device", "estimate", "--spec",
             ROOT / "configs/devices/h100.yaml", "-o", tmp_path / "profile.json"],
            ["plan", tmp_path / "profile.json", "--cluster",
             ROOT / "configs/clusters/h100_node.yaml", "--ranks", 4, "--data-parallel", 2,
             "--microbatches", 4, "--schedule", "1f1b", "-o", tmp_path / "plan.yaml", "--html",
             tmp_path / "planned.html"]):
        done = run_command(PENSTOCK, *arguments)
        assert done.returncode == 0, done.stderr
    written(tmp_path / "simulated.html", tmp_path / "plan.yaml")
    for name in ("planned.html", "simulated.html"):
        page = opened(tmp_path / name)
        head = " ".join(page.find_element(By.ID, "facts").text.split())
        assert "schedule 1f1b" in head and "replicas 2" in head
        assert "cluster h100_node.yaml: 1 node of 8 H100 SXM" in head
        assert "costs estimated from the figures of NVIDIA H100 SXM, not measured" in head
        move_to(page, place(page, 1, "1F1"))
        tooltip = page.find_element(By.ID, "tooltip").text
        shown_plan = run_command(PENSTOCK, "show", tmp_path / "plan.yaml").stdout
        modules = tooltip.split("stage 1: ")[1].split("\n")[0]
        assert modules in shown_plan
