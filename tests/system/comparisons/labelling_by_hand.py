"""Labelling as a person does it: in a browser, by keyboard, one comparison after the other."""

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import WebDriverWait

#: Which comparison is shown and may be labelled now; nothing while the next one is fetched.
_SHOWN = """
const shown = document.querySelector("#stage article.comparison");
return shown && shown.dataset.own === "" ? shown.dataset.id : null;
"""


def press(browser, key):
    ActionChains(browser, duration=0).send_keys(key).perform()


def introduced(browser, url, name):
    """Open a server's pages as somebody of that name; nobody is asked who they are then."""
    browser.get(f"{url}/comparisons")
    browser.execute_script("localStorage.clear(); sessionStorage.clear()")
    browser.execute_script("localStorage.setItem('perfjudge.name', JSON.stringify(arguments[0]))", name)


def label_by_keyboard(browser, url, name, decide, number, seconds=30):
    """Label what `url` wants labelled first, `number` comparisons of it; return what was said of each.

    `decide` takes the name of a comparison and returns "pass" or "fail". All labels are kept at the end.
    """
    introduced(browser, url, name)
    browser.get(f"{url}/comparisons/next")
    wait, said = WebDriverWait(browser, seconds, poll_frequency=0.01), {}
    for _ in range(number):
        shown = wait.until(lambda driver: fresh(driver, said))
        said[shown] = decide(shown)
        press(browser, said[shown][0])
    wait.until(lambda driver: driver.execute_script("return labelling.unkept()") == 0)
    return said


def fresh(browser, said):
    """Return the name of the comparison that is shown, unless it was labelled already."""
    shown = browser.execute_script(_SHOWN)
    return None if shown in said else shown
