"""Client of a perfjudge server: ``from perfjudge_client import Client``."""

from perfjudge_client.client import Answers, Client, ClientError, RefusedError, UnreachableError

__all__ = ["Answers", "Client", "ClientError", "RefusedError", "UnreachableError"]
