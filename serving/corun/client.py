"""Co-runs, asked of a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from serving.asking import Answers, Asking, Batched
from serving.supply import MEBIBYTE

if TYPE_CHECKING:
    from serving.corun.schemas import (
        CorunQuestion,
        FirstSeconds,
        OnlineAnswer,
        SoloRun,
        StaticPrediction,
    )


class AsksCoruns(Asking):
    """A server that predicts co-runs."""

    def corun_static(
        self,
        coruns: Iterable[CorunQuestion | Mapping[str, Any]],
        tasks: Sequence[SoloRun | Mapping[str, Any]] = (),
    ) -> Answers[StaticPrediction]:
        """Have co-runs predicted before they run.

        Parameters
        ----------
        coruns : iterable of CorunQuestion or mapping
            As docs/http.md has them; however many.
        tasks : sequence of SoloRun or mapping
            Solo runs of tasks that the model does not know, at most 200.

        Returns
        -------
        Answers of StaticPrediction
            In the order of the co-runs.

        Raises
        ------
        JudgeError
            If the server refuses one of them, or does not answer.
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
        """Have a co-run predicted from the first seconds of a task alone and beside others.

        Parameters
        ----------
        solo, corun : FirstSeconds or mapping
            As docs/http.md has them.
        machine : str, optional
            By default one that the model was trained on.
        whole : bool, optional
            Whether `solo` is a whole run, not only its beginning. By default, if it lasts longer.

        Raises
        ------
        JudgeError
            If the server refuses it, or does not answer.
        """
        from serving.corun.schemas import OnlineAnswer

        told = {"machine": machine, "solo_is_whole": whole}
        content = {"solo": solo, "corun": corun} | {key: one for key, one in told.items() if one is not None}
        return self.ask("/v1/corun/online", content, OnlineAnswer)
