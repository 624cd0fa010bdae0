"""What is wrong with a page, as a real browser sees it."""

import re

#: A desktop and a phone.
WIDTHS = (1280, 400)


def faults(browser, path):
    """Return what is wrong with the page: too wide, errors, requests, charts or words that say nothing."""
    browser.get_log("performance")
    found = [fault for width in WIDTHS for fault in _at(browser, path, width)]
    found += [str(entry) for entry in browser.get_log("browser")]
    found += [f"requests {url}" for url in requested(browser)]
    charts = browser.find_elements("css selector", "svg[role=img]")
    return found + ["a chart without words" for chart in charts if not chart.get_attribute("aria-label")]


def requested(browser):
    """Return what was asked of the web since the log was last read."""
    urls = re.findall(r'"url\\?":\\?"([a-z]+:[^"\\]*)', str(browser.get_log("performance")))
    return [url for url in urls if not url.startswith(("file:", "data:", "about:"))]


def _at(browser, path, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    assert browser.execute_script("return window.innerWidth") == width
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    if wide > width:
        yield f"is {wide} wide at {width}"
    text = browser.find_element("tag name", "body").text
    for marks in (r"\mathdefault", "{{", "nan"):
        if re.search(rf"(?<!\w){re.escape(marks)}(?!\w)", text):
            yield f"shows {marks} at {width}"
