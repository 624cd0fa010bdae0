"""Profiles, asked of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from serving.asking import Asking

if TYPE_CHECKING:
    from serving.fingerprints.schemas import Application, Machine, ProfileAnswer


class AsksProfiles(Asking):
    """A server that tells what applications lean on."""

    def irup(
        self, machines: Sequence[Machine | Mapping[str, Any]], application: Application | Mapping[str, Any]
    ) -> ProfileAnswer:
        """Have an application profiled, and predicted on the machines without a value of it.

        Parameters
        ----------
        machines : sequence of Machine or mapping
            Fingerprints as docs/http.md has them.
        application : Application or mapping
            Its performance on some of those.

        Raises
        ------
        JudgeError
            If the server refuses it, or does not answer.
        """
        from serving.fingerprints.schemas import ProfileAnswer

        return self.ask("/v1/irup", {"machines": machines, "application": application}, ProfileAnswer)
