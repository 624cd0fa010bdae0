"""What is wrong with a page, as a real browser sees it."""

import re
from contextlib import contextmanager
from pathlib import Path

#: A telephone, a laptop, a wide screen.
WIDTHS = (390, 1400, 1920)
#: What a reader must not come upon: numbers with exponents, and papers under the name of the random number.
UNREADABLE = (r"\\mathdefault", r"\{\{", r"(?<!\w)nan(?!\w)", r"\de[+-]\d", r"(?i:\bseeds?\b(?!\s*\d))")
LOOK = Path(__file__).with_name("look.js").read_text()
#: Returns all that is to be read, also in closed parts.
TEXT = """
const page = document.body.cloneNode(true);
page.querySelectorAll("script, style").forEach((part) => part.remove());
return page.textContent;
"""


def faults(browser, page, widths=WIDTHS, unreadable=UNREADABLE):
    """Return what is wrong with a page: cut off, too small, errors, requests, charts or words without sense.

    A page is a file, or has an address, whose server may be asked for more.
    """
    url = page if isinstance(page, str) else page.as_uri()
    own = "file:" if url.startswith("file:") else url[: url.index("/", 8)]
    browser.get_log("performance")
    browser.get_log("browser")
    widen(browser, widths[0])
    browser.get(url)
    found = [f"{fault} at {width}" for width in widths for fault in looked_at(browser, width)]
    text = browser.execute_script(TEXT)
    for marks in unreadable:
        found += [
            f"shows {text[max(0, at.start() - 30) : at.end() + 10]!r}" for at in re.finditer(marks, text)
        ]
    found += [str(entry) for entry in browser.get_log("browser")]
    found += [f"requests {url}" for url in requested(browser, own)]
    charts = browser.find_elements("css selector", "svg[role=img]")
    return found + ["a chart without words" for chart in charts if not chart.get_attribute("aria-label")]


def points(page):
    """Return what the text of a page says to do with it."""
    return re.findall("<li>(.*?)</li>", re.search(r'<section class="do".*?</section>', page, re.DOTALL)[0])


def charts(browser):
    """Return the charts that are seen at this width."""
    return [one for one in browser.find_elements("css selector", "svg[role=img]") if one.is_displayed()]


def widen(browser, width):
    """Give the page so many pixels, and let nothing glide."""
    calm = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", calm)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@contextmanager
def on_paper(browser):
    """Let the page that is open look as if it was printed on paper of the width of the screen."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def looked_at(browser, width):
    """Return what is wrong with the page that is open, at a width."""
    widen(browser, width)
    assert browser.execute_script("return window.innerWidth") == width
    return browser.execute_script(LOOK)


def requested(browser, own="file:"):
    """Return what was asked of the web since the log was last read, beside what is the page's own."""
    urls = re.findall(r'"url\\?":\\?"([a-z]+:[^"\\]*)', str(browser.get_log("performance")))
    return [url for url in urls if not url.startswith((own, "data:", "about:"))]
