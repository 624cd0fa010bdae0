"""What is said of input that cannot be used."""

import pandas as pd
import pytest

from data.errors import InputError
from data.tables.problems import Problems


def refusal(call, *arguments, **further):
    """Return the line in which a call is refused."""
    with pytest.raises(InputError) as caught:
        call(*arguments, **further)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def expect_only_flaw(message, flawed, whole):
    """Expect tables to be refused for one flaw, without which they are as the whole ones."""
    assert refusal(flawed.without_flaws, Problems()) == message
    problems = Problems(keep_going=True)
    left = flawed.without_flaws(problems)
    assert [str(problem) for problem in problems.skipped] == [message]
    for name, table in vars(whole).items():
        pd.testing.assert_frame_equal(getattr(left, name), table)
