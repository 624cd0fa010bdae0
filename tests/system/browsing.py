"""What is wrong with a page, as a real browser sees it."""

import re

#: A desktop and a phone.
WIDTHS = (1280, 400)


def faults(browser, page, widths=WIDTHS):
    """Return what is wrong with a page: too wide, errors, requests, charts or words that say nothing.

    A page is a file, or has an address, whose server may be asked for more.
    """
    url = page if isinstance(page, str) else page.as_uri()
    own = "file:" if url.startswith("file:") else url[: url.index("/", 8)]
    browser.get_log("performance")
    browser.get_log("browser")
    found = [fault for width in widths for fault in _at(browser, url, width)]
    found += [str(entry) for entry in browser.get_log("browser")]
    found += [f"requests {url}" for url in requested(browser, own)]
    charts = browser.find_elements("css selector", "svg[role=img]")
    return found + ["a chart without words" for chart in charts if not chart.get_attribute("aria-label")]


def requested(browser, own="file:"):
    """Return what was asked of the web since the log was last read, beside what is the page's own."""
    urls = re.findall(r'"url\\?":\\?"([a-z]+:[^"\\]*)', str(browser.get_log("performance")))
    return [url for url in urls if not url.startswith((own, "data:", "about:"))]


def _at(browser, url, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(url)
    assert browser.execute_script("return window.innerWidth") == width
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    if wide > width:
        yield f"is {wide} wide at {width}"
    text = browser.find_element("tag name", "body").text
    for marks in (r"\mathdefault", "{{", "nan"):
        if re.search(rf"(?<!\w){re.escape(marks)}(?!\w)", text):
            yield f"shows {marks} at {width}"
