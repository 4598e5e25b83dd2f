"""The page of large simulations in headless Chromium: many ranks and microbatches, actions shorter
than a pixel, long paths."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

sys.path.insert(0, str(Path(__file__).parent))
from browsing import (browser, check_width, drawn, frame, needs_chromium, opened, pixels, place,
                      shown, study_flags, turn_wheel, written)

assert browser and opened  # fixtures
pytestmark = needs_chromium


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("html") / "large.html"
    written(path, *study_flags(64, 512))
    return path


def test_the_wheel_scrolls_the_page_unless_a_key_is_held_and_the_page_says_so(opened, large):
    page = opened(large)
    whole = shown(page)
    turn_wheel(page, {"x": 700, "y": 500}, 400)
    # Scrolling takes a few frames.
    page.execute_async_script(
        "const done = arguments[0]; const wait = () => scrollY >= 300 ? done() : "
        "requestAnimationFrame(wait); wait();")
    assert shown(page) == whole
    before = page.execute_script("return scrollY")
    turn_wheel(page, {"x": 700, "y": 500}, -400, Keys.CONTROL)
    zoomed = shown(page)
    assert zoomed[1] - zoomed[0] < whole[1] - whole[0]
    assert page.execute_script("return scrollY") == before
    hint = page.find_element(By.CLASS_NAME, "hint").text
    assert "Ctrl or ⌘ with the wheel zooms, the wheel alone scrolls the page" in hint


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 500])
def test_64_ranks_and_512_microbatches_are_drawn_at_any_width_in_both_schemes(
        opened, large, width, scheme):
    page = opened(large, width, scheme)  # which checks that nothing complains
    check_width(page)
    for kind in ("F", "B", "path"):
        assert drawn(page, kind)[0] > 0
    for what in ("transfers", "memory", "labels"):
        page.find_element(By.ID, f"show-{what}").click()
    check_width(page)
    assert drawn(page, "curve")[0] > 0
    page.execute_script("scrollTo(0, document.documentElement.scrollHeight)")
    frame(page)
    check_width(page)


def test_actions_below_a_pixel_make_no_stripes(opened, tmp_path):
    path = tmp_path / "narrow.html"
    # Rank 1 is busy from its first F to its last B, 3 ms after 3 ms: 0.4 pixels after 0.8.
    step = written(path, "--schedule", "1f1b", "--ranks", 2, "--microbatches", 1000,
                   "--forward", "1ms", "--backward", "2ms")
    page = opened(path)
    page.find_element(By.ID, "show-path").click()
    frame(page)
    at = place(page, 1, "1F500")
    columns, height = 200, 24
    found = pixels(page, round(at["x"]) - columns // 2, round(at["y"]) - height // 2, columns,
                   height)
    rows = [found[row * columns:(row + 1) * columns] for row in range(height)]
    # Moving averages over at least two periods, twice: each leaves at most an eighth of a wave. So
    # the edge between two colours moves by a 64th of the height, and a pixel there by as much of
    # 255.
    assert all(max(part) - min(part) <= 255 * height / 64
               for row in rows for part in zip(*row, strict=True))
    # The two colours have their shares of the height: F a third, B the rest.
    forward = [row[0] for row in rows].count(rows[-1][0])
    assert abs(forward - height / 3) <= 1.5
    assert rows[0][0] != rows[-1][0] and step["bubble"] < 0.01


def test_the_critical_path_of_64_ranks_is_a_line_through_all_of_them(opened, large):
    page = opened(large)
    count, whole = drawn(page, "path")
    assert 0.002 * whole < count < 0.05 * whole  # to be seen, and hides nothing
    for row in range(0, 64, 7):
        at = place(page, row, f"{row}F0")
        strip = pixels(page, 120, round(at["y"]) - 5, 1200, 10)
        assert [211, 18, 95, 255] in strip  # --path


def test_a_path_to_and_fro_too_fast_for_a_line_is_drawn_at_the_feet_of_its_ranks(opened, tmp_path):
    path = tmp_path / "fast.html"
    written(path, "--schedule", "1f1b", "--ranks", 2, "--microbatches", 2000, "--forward", "1ms",
            "--backward", "2ms", "--message", "16MB", "--bandwidth", "10GB/s")
    page = opened(path)
    canvas = page.find_element(By.ID, "canvas").size
    page.find_element(By.ID, "show-transfers").click()
    page.find_element(By.ID, "show-path").click()
    frame(page)
    at = place(page, 0, "0B1000")
    middle = pixels(page, 300, round(at["y"]), 800, 1)
    foot = pixels(page, 300, round(at["y"]) + 10, 800, 1)
    page.find_element(By.ID, "show-path").click()
    frame(page)
    assert pixels(page, 300, round(at["y"]), 800, 1) == middle
    assert pixels(page, 300, round(at["y"]) + 10, 800, 1) != foot
    assert canvas["width"] > 1200


def test_a_long_path_is_listed_as_far_as_it_is_in_sight(opened, tmp_path):
    path = tmp_path / "long.html"
    steps = written(path, "--schedule", "1f1b", "--ranks", 8, "--microbatches", 512, "--forward",
                    "1ms", "--backward", "2ms")["critical_path"]["steps"]
    page = opened(path)
    assert 0 < len(page.find_elements(By.CSS_SELECTOR, "#path-rows tr[data-step]")) < steps
    page.execute_script("const list = document.getElementById('path-list'); "
                        "list.scrollTop = list.scrollHeight;")
    frame(page)
    last = page.find_elements(By.CSS_SELECTOR, "#path-rows tr[data-step]")[-1]
    assert int(last.get_attribute("data-step")) == steps - 1 and "0B511" in last.text
