"""The page of penstock simulate --html in headless Chromium: it draws, zooms, answers the mouse,
adds up."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

ROOT = Path(__file__).parents[3]
PENSTOCK = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build")) / "penstock"
DRIVER = shutil.which("chromedriver")
BROWSER = shutil.which("chromium")

pytestmark = pytest.mark.skipif(
    not (DRIVER and BROWSER),
    reason="no Chromium: the packages chromium and chromium-driver are missing")

STUDY = ["--schedule", "1f1b", "--ranks", 4, "--microbatches", 8, "--forward", "1ms",
         "--backward", "2ms", "--message", "16MB", "--bandwidth", "100GB/s", "--latency", "40us",
         "--saved", "64MB"]


def simulate(*arguments):
    return subprocess.run([str(PENSTOCK), "simulate", *map(str, arguments)], capture_output=True,
                          text=True, timeout=120)


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in ["--headless=new", "--window-size=1400,1000", "--disable-dev-shm-usage",
                 "--hide-scrollbars"]:
        options.add_argument(flag)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium's sandbox does not start for root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The page's file, and what the same simulation says as JSON."""
    path = tmp_path_factory.mktemp("html") / "out.html"
    done = simulate(*STUDY, "--html", path, "--json")
    assert done.returncode == 0, done.stderr
    return path, json.loads(done.stdout)


@pytest.fixture
def page(browser, study):
    complaints(browser)
    browser.get(study[0].as_uri())
    yield browser
    assert complaints(browser) == []


def complaints(browser):
    """Errors and refused requests. That `pixel` reads the canvas slowly is no fault of the page."""
    return [entry["message"] for entry in browser.get_log("browser")
            if "getImageData" not in entry["message"]]


def shown(page):
    """The seconds that the timeline shows."""
    frame(page)
    span = page.find_element(By.ID, "range")
    return float(span.get_attribute("data-from")), float(span.get_attribute("data-to"))


def frame(page):
    """Waits until what was asked for is drawn."""
    page.execute_async_script(
        "const done = arguments[0]; "
        "requestAnimationFrame(() => requestAnimationFrame(() => done()));")


def pixel(page, x, y):
    """Red, green, blue and opacity of a point of the window, on the canvas."""
    return page.execute_script("""
        const canvas = document.getElementById("canvas"), box = canvas.getBoundingClientRect();
        const ratio = canvas.width / box.width;
        const x = (arguments[0] - box.left) * ratio, y = (arguments[1] - box.top) * ratio;
        return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data];""", x, y)


def place(page, rank, name):
    found = page.execute_script("return penstockPage.place(arguments[0], arguments[1])", rank, name)
    assert found, f"{name} is not on the timeline of rank {rank}"
    return found


def move_to(page, at):
    actions = ActionChains(page)
    actions.w3c_actions.pointer_action.move_to_location(round(at["x"]), round(at["y"]))
    actions.perform()


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
    wheel = webdriver.common.actions.wheel_input.ScrollOrigin.from_viewport(
        round(at["x"]), round(at["y"]))
    ActionChains(page).scroll_from_origin(wheel, 0, -500).perform()
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


def test_dark_mode_changes_the_page_and_the_drawing(page):
    frame(page)
    ground = page.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
    lane = pixel(page, place(page, 3, "3F0")["x"] - 60, place(page, 3, "3F0")["y"])
    page.execute_cdp_cmd("Emulation.setEmulatedMedia",
                         {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    try:
        frame(page)
        body = page.find_element(By.TAG_NAME, "body")
        assert body.value_of_css_property("background-color") != ground
        assert pixel(page, place(page, 3, "3F0")["x"] - 60, place(page, 3, "3F0")["y"]) != lane
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_long_path_is_listed_as_far_as_it_is_in_sight(browser, tmp_path):
    path = tmp_path / "long.html"
    done = simulate("--schedule", "1f1b", "--ranks", 8, "--microbatches", 512, "--forward", "1ms",
                    "--backward", "2ms", "--html", path, "--json")
    steps = json.loads(done.stdout)["critical_path"]["steps"]
    browser.get(path.as_uri())
    assert 0 < len(browser.find_elements(By.CSS_SELECTOR, "#path-rows tr[data-step]")) < steps
    browser.execute_script("const list = document.getElementById('path-list'); "
                           "list.scrollTop = list.scrollHeight;")
    frame(browser)
    last = browser.find_elements(By.CSS_SELECTOR, "#path-rows tr[data-step]")[-1]
    assert int(last.get_attribute("data-step")) == steps - 1 and "0B511" in last.text
    assert complaints(browser) == []
