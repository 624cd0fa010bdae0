"""What is promised of false alarms: on normal pairs of test cases that training has not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from training.evaluation.promise import Promised, Scored, kept


@dataclass(frozen=True)
class Alarms:
    """What is to be promised: at most that `share` of normal pairs raises an alarm, with `confidence`."""

    share: float
    confidence: float

    def kept(self, held: pd.DataFrame, seed: int) -> Promised:
        """Return the share, and the probability of abnormal from which on an alarm keeps it.

        Parameters
        ----------
        held : DataFrame
            ``workload, told`` (probability of abnormal), ``y`` (1 is abnormal) of pairs, by classifiers that
            had not seen the workload.
        seed : int
        """
        normal, workload = (held["y"] == 0).to_numpy(bool), held["workload"].to_numpy(np.str_)
        known = Scored(1 - held["told"].to_numpy(np.float64), normal, workload)
        return kept(known, [self.share], self.confidence, seed)[0].turned()
