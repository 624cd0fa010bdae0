"""Labelling as a person does it: in a browser, by keyboard, one comparison after the other."""

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import WebDriverWait

from serving.comparisons.labelling.offered import key_of

#: Which comparison is shown and may be labelled now; nothing while the next one is fetched.
_SHOWN = """
const shown = document.querySelector("#stage article.comparison");
return shown && shown.dataset.own === "" ? shown.dataset.comparison : null;
"""


def press(browser, key):
    ActionChains(browser, duration=0).send_keys(key).perform()


def introduced(browser, url, name):
    """Open a server's pages as somebody of that name; nobody is asked who they are then."""
    browser.get(f"{url}/comparisons")
    browser.execute_script("localStorage.clear(); sessionStorage.clear()")
    browser.delete_all_cookies()
    browser.execute_script(
        "document.cookie = `perfjudge.name=${encodeURIComponent(arguments[0])}; path=/comparisons`", name
    )


def label_by_keyboard(browser, url, name, answers, number, seconds=30):
    """Label what `url` wants labelled first, `number` comparisons of it; return what was said of each.

    `answers` has "pass", "fail" or "cannot_tell" for every comparison. All labels are kept at the end.
    """
    introduced(browser, url, name)
    browser.get(f"{url}/comparisons/next")
    wait, said = WebDriverWait(browser, seconds, poll_frequency=0.01), {}
    names = {key_of(one): one for one in answers}
    for _ in range(number):
        shown = names[wait.until(lambda driver: fresh(driver, {key_of(one) for one in said}))]
        said[shown] = answers[shown]
        press(browser, said[shown][0])
        press(browser, "j")
    wait.until(lambda driver: driver.execute_script("return labelling.unkept()") == 0)
    return said


def fresh(browser, said):
    """Return the key of the comparison that is shown, unless it was labelled already."""
    shown = browser.execute_script(_SHOWN)
    return None if shown in said else shown
