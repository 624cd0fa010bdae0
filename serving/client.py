"""The Python client of a server: ``from serving.client import Judge``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from serving.asking import Answers, Asking, Batched, JudgeError
from serving.supply import MEBIBYTE

if TYPE_CHECKING:
    from data.comparisons.request import Comparison
    from serving.comparisons.schemas import VerdictAnswer
    from serving.corun.schemas import CorunQuestion, FirstSeconds, OnlineAnswer, SoloRun, StaticPrediction
    from serving.fingerprints.schemas import Application, Machine, ProfileAnswer
    from serving.matrices.schemas import MatrixVerdictAnswer, Pair

__all__ = ["Answers", "Judge", "JudgeError"]


class Judge(Asking):
    """A client of a perfjudge server; parameters as of `serving.asking.Asking`.

    Every request raises a JudgeError if the server refuses it or does not answer. docs/http.md describes the
    mappings
    that may replace the request types.
    """

    def comparisons(self, comparisons: Iterable[Comparison | Mapping[str, Any]]) -> Answers[VerdictAnswer]:
        """Have any number of comparisons judged, in their order."""
        from serving.comparisons.schemas import JudgeAnswer

        question = Batched(
            "/v1/comparisons/judge",
            "comparisons",
            JudgeAnswer,
            lambda told: Answers.of(told.verdicts, told.model, told.notes),
            10_000,
            32 * MEBIBYTE,
        )
        return self.ask_each(question, comparisons)

    def matrices(
        self, pairs: Iterable[Pair | Mapping[str, Any]], units: Mapping[str, str] | None = None
    ) -> Answers[MatrixVerdictAnswer]:
        """Have any number of pairs of matrices judged, in their order.

        Parameters
        ----------
        units : mapping, optional
            Of metrics.
        """
        from serving.matrices.schemas import PAIRS, MatricesAnswer

        question = Batched(
            "/v1/matrices/judge",
            "pairs",
            MatricesAnswer,
            lambda told: Answers.of(told.verdicts, told.model, told.notes),
            PAIRS,
            16 * MEBIBYTE,
            {"units": units} if units else {},
        )
        return self.ask_each(question, pairs)

    def corun_static(
        self,
        coruns: Iterable[CorunQuestion | Mapping[str, Any]],
        tasks: Sequence[SoloRun | Mapping[str, Any]] = (),
    ) -> Answers[StaticPrediction]:
        """Have any number of co-runs predicted before they run, in their order.

        Parameters
        ----------
        tasks : sequence of SoloRun or mapping
            Solo runs of tasks that the model does not know, at most 200.
        """
        from serving.corun.schemas import CORUNS, StaticAnswer

        question = Batched(
            "/v1/corun/static",
            "coruns",
            StaticAnswer,
            lambda told: Answers.of(told.predictions, told.model),
            CORUNS,
            8 * MEBIBYTE,
            {"tasks": tasks} if tasks else {},
        )
        return self.ask_each(question, coruns)

    def corun_online(
        self,
        solo: FirstSeconds | Mapping[str, Any],
        corun: FirstSeconds | Mapping[str, Any],
        machine: str | None = None,
        *,
        whole: bool | None = None,
    ) -> OnlineAnswer:
        """Predict a co-run from the first seconds of a task alone and with its co-runners.

        Parameters
        ----------
        machine : str, optional
            Default: a machine that the model was trained on.
        whole : bool, optional
            Whether `solo` is a complete run, not only its beginning. Default: whether it lasts longer.
        """
        from serving.corun.schemas import OnlineAnswer

        content: dict[str, Any] = {"solo": solo, "corun": corun}
        content |= {} if machine is None else {"machine": machine}
        content |= {} if whole is None else {"solo_is_whole": whole}
        return self.ask("/v1/corun/online", content, OnlineAnswer)

    def irup(
        self, machines: Sequence[Machine | Mapping[str, Any]], application: Application | Mapping[str, Any]
    ) -> ProfileAnswer:
        """Have an application profiled, and predicted on the machines without a value of it.

        Parameters
        ----------
        machines : sequence of Machine or mapping
            Fingerprints.
        application : Application or mapping
            Its performance on some of those.
        """
        from serving.fingerprints.schemas import ProfileAnswer

        return self.ask("/v1/irup", {"machines": machines, "application": application}, ProfileAnswer)
