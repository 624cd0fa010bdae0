import numpy as np

from training.comparisons.evaluate import Said, steadiest

GROUPS = np.array([f"o{number // 10}" for number in range(400)])
FAILED = np.arange(400) % 5 == 0


def said(*wrong):
    fails = FAILED.copy()
    fails[[*wrong]] ^= True
    return Said(np.where(fails, 0.9, 0.1), fails)


def test_of_models_that_cannot_be_told_apart_the_steadiest_is_taken():
    models = {"nimble": said(7), "steady": said(7, 13)}
    assert steadiest(FAILED, models, GROUPS, ["steady", "nimble"], 0) == "steady"
    assert steadiest(FAILED, models, GROUPS, ["nimble", "steady"], 0) == "nimble"


def test_a_model_that_is_surely_worse_is_not_taken_however_steady():
    models = {"nimble": said(7), "steady": said(*range(0, 400, 15))}
    assert steadiest(FAILED, models, GROUPS, ["steady", "nimble"], 0) == "nimble"


def test_a_model_that_the_order_lacks_comes_last():
    models = {"new": said(7), "steady": said(7)}
    assert steadiest(FAILED, models, GROUPS, ["steady"], 0) == "steady"
