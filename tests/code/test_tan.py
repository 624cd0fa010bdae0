from sklearn.utils.estimator_checks import parametrize_with_checks

from training.tan import TAN


@parametrize_with_checks([TAN(), TAN("classes"), TAN(4)])
def test_tan_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)
