"""The page in a real browser, as wide as a phone and as a desktop."""

import json
import shutil

import numpy as np
import pytest

from nnghmc.engine.events import Note
from nnghmc.run.report import write_page
from support_report import made_up, made_up_learned

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip("Chromium and its chromedriver are not installed", allow_module_level=True)
webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
WIDTHS = {"phone": 390, "desktop": 1280}
SCHEMES = ("light", "dark")

MEASURES = """
const seen = part => part.getClientRects().length > 0 && part.offsetHeight > 0;
const contrast = part => {
  const light = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map(
    c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4
    ).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  let ground = part;
  while (getComputedStyle(ground).backgroundColor === 'rgba(0, 0, 0, 0)') {
    ground = ground.parentElement;
  }
  const both = [getComputedStyle(part).color, getComputedStyle(ground).backgroundColor].map(light);
  return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
};
const words = [...document.querySelectorAll(
  'h1,h2,h3,p,a,li,dt,dd,th,td,caption,figcaption,summary')];
return {
  width: document.documentElement.scrollWidth,
  window: window.innerWidth,
  sections: [...document.querySelectorAll('section')].filter(seen).map(part => part.id),
  images: [...document.images].map(image => ({
    loaded: image.complete && image.naturalWidth > 0,
    width: image.getBoundingClientRect().width,
    height: image.getBoundingClientRect().height,
    alt: image.alt.trim().length,
  })),
  outside: words.filter(part => !part.closest('.scroll') && seen(part)
    && part.getBoundingClientRect().right > window.innerWidth).map(part => part.textContent),
  faintest: Math.min(...words.filter(seen).map(contrast)),
  smallest: Math.min(...words.filter(seen).map(
    part => parseFloat(getComputedStyle(part).fontSize))),
  scrolling: [...document.querySelectorAll('.scroll')].filter(
    box => box.scrollWidth > box.clientWidth).length,
};
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A run that was handed over, and one with long words and many variables."""
    folder = tmp_path_factory.mktemp("reports")
    troubled = made_up(
        np.random.default_rng(0).normal(size=(2, 20, 25)),
        notes=(
            Note("a kind", "a" * 200, "b" * 200),
            Note("chains disagree", "the chains disagree", "make more draws"),
        ),
        model=f"Posterior({'word' * 100})",
        method="a_method_with_a_long_name_" * 5,
    )
    for name, contents in {"learned": made_up_learned(), "troubled": troubled}.items():
        write_page(contents, folder / f"{name}.html")
    return folder


def shown(browser, page, width, scheme="light"):
    """The page at this width; what the browser was asked for before is forgotten."""
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get(page.as_uri())
    return browser.execute_script(MEASURES)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("device", WIDTHS)
@pytest.mark.parametrize("name", ["learned", "troubled"])
def test_the_page_is_readable(browser, pages, name, device, scheme):
    found = shown(browser, pages / f"{name}.html", WIDTHS[device], scheme)
    assert found["window"] == WIDTHS[device]
    assert found["width"] <= found["window"]
    assert not found["outside"]
    assert len(found["sections"]) == 10
    assert found["images"]
    assert all(image["loaded"] and image["alt"] for image in found["images"])
    assert min(image["width"] for image in found["images"]) >= 300
    assert min(image["height"] for image in found["images"]) >= 190
    assert found["smallest"] >= 13
    assert found["faintest"] >= 4.5  # WCAG's AA
    assert (found["scrolling"] > 0) == (device == "phone")


def test_nothing_is_fetched_and_nothing_complains(browser, pages):
    page = pages / "learned.html"
    shown(browser, page, WIDTHS["desktop"])
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith("data:")] == [page.as_uri()]


def test_links_lead_to_their_sections(browser, pages):
    shown(browser, pages / "learned.html", WIDTHS["phone"])
    browser.find_element("css selector", "nav a[href='#cost']").click()
    top = "return document.getElementById('cost').getBoundingClientRect().top"
    assert browser.current_url.endswith("#cost")
    assert -1 <= browser.execute_script(top) < 844


def test_dark_is_dark_and_pictures_stay_on_light_ground(browser, pages):
    grounds = """
    const light = part => getComputedStyle(part).backgroundColor.match(/\\d+/g).slice(0, 3).map(
      Number).reduce((sum, part) => sum + part, 0) / 765;
    return [light(document.body), light(document.images[0])];
    """
    for scheme, dark in (("light", False), ("dark", True)):
        shown(browser, pages / "learned.html", WIDTHS["desktop"], scheme)
        body, picture = browser.execute_script(grounds)
        assert (body < 0.2) == dark
        assert picture > 0.9
