"""The HTML pages in headless Chromium; shared by their tests, which skip first without selenium."""

import json
import os
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

from planning import PENSTOCK, run

DRIVER = shutil.which("chromedriver")
BROWSER = shutil.which("chromium")

needs_chromium = pytest.mark.skipif(
    not (DRIVER and BROWSER),
    reason="no Chromium: the packages chromium and chromium-driver are missing")


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


@pytest.fixture
def opened(browser):
    """A function that opens a file; at the end nothing has complained."""
    complaints(browser)

    def open_file(path, width=1400, scheme="light"):
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})
        browser.get(path.as_uri())
        frame(browser)
        return browser

    yield open_file
    assert complaints(browser) == []


def complaints(browser):
    """Errors and refused requests. That `pixel` reads the canvas slowly is no fault of the page."""
    return [entry["message"] for entry in browser.get_log("browser")
            if "getImageData" not in entry["message"]]


def frame(page):
    """Waits until what was asked for is drawn."""
    page.execute_async_script(
        "const done = arguments[0]; "
        "requestAnimationFrame(() => requestAnimationFrame(() => done()));")


def shown(page):
    """The seconds that the timeline shows."""
    frame(page)
    span = page.find_element("id", "range")
    return float(span.get_attribute("data-from")), float(span.get_attribute("data-to"))


def pixel(page, x, y):
    """Red, green, blue and opacity of a point of the window, on the canvas."""
    return pixels(page, x, y, 1, 1)[0]


def pixels(page, x, y, width, height):
    """The same of each point of a rectangle, row by row."""
    numbers = page.execute_script("""
        const canvas = document.getElementById("canvas"), box = canvas.getBoundingClientRect();
        const ratio = canvas.width / box.width;
        const x = (arguments[0] - box.left) * ratio, y = (arguments[1] - box.top) * ratio;
        return [...canvas.getContext("2d").getImageData(x, y, arguments[2], arguments[3]).data];
        """, x, y, width, height)
    return [numbers[at:at + 4] for at in range(0, len(numbers), 4)]


def drawn(page, colour):
    """How many pixels of the canvas have exactly this colour of the page, and of how many."""
    frame(page)
    return page.execute_script("""
        const canvas = document.getElementById("canvas");
        const hex = getComputedStyle(document.documentElement).getPropertyValue(
            `--${arguments[0]}`).trim();
        const wanted = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let count = 0;
        for (let i = 0; i < data.length; i += 4)
          if (wanted.every((part, at) => data[i + at] === part) && data[i + 3] === 255) ++count;
        return [count, data.length / 4];
        """, colour)


def place(page, row, name):
    found = page.execute_script("return penstockPage.place(arguments[0], arguments[1])", row, name)
    assert found, f"{name} is not on row {row} of the timeline"
    return found


def move_to(page, at):
    actions = ActionChains(page)
    actions.w3c_actions.pointer_action.move_to_location(round(at["x"]), round(at["y"]))
    actions.perform()


def check_width(page):
    """Nothing sticks out of the window sideways but what scrolls by itself."""
    wider = page.execute_script("""
        return [...document.querySelectorAll("body *")].filter((element) =>
            !element.closest(".scroll") &&
            element.getBoundingClientRect().right > innerWidth + 0.5).map((element) =>
            `${element.tagName} ${element.id} ${element.className}`)""")
    assert wider == []
    assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def study_flags(ranks, microbatches):
    """Flags of a 1F1B schedule with transfers and memory."""
    return ["--schedule", "1f1b", "--ranks", ranks, "--microbatches", microbatches, "--forward",
            "1ms", "--backward", "2ms", "--message", "16MB", "--bandwidth", "100GB/s", "--latency",
            "40us", "--saved", "64MB"]


def written(path, *arguments):
    """Writes the page of a simulation; what it says as JSON."""
    done = run(PENSTOCK, "simulate", *arguments, "--html", path, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def turn_wheel(page, at, by, *keys):
    actions = ActionChains(page)
    for key in keys:
        actions.key_down(key)
    actions.scroll_from_origin(
        ScrollOrigin.from_viewport(round(at["x"]), round(at["y"])), 0, by)
    for key in keys:
        actions.key_up(key)
    actions.perform()
