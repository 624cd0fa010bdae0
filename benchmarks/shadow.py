"""What a challenger in the shadow costs those who ask, and how much of it hears of what they ask.

Run it with ``python -m benchmarks.shadow`` after ``dvc repro``; it wants ``wrk`` (Debian has it) and writes
``docs/results/shadow.md``.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.request import urlopen

from benchmarks.serving import Load, comparisons, loaded, running
from benchmarks.table import PERFJUDGE, Table, busy, free_port, load, require_programs
from training.registry import champions
from training.registry.champions import CHALLENGER, CHAMPION, DIGEST, files_digest

NAME, PLACE = "regression-comparison", "/v1/comparisons/judge"
#: Which of the trained models answers, and which one judges beside it.
MODELS = {CHAMPION: "extra-trees", CHALLENGER: "logistic"}
CONNECTIONS, SECONDS, ROUNDS = (1, 16), 5, 5
#: Seconds in which the shadow comes to the end of what waits for it.
CALM = 3.0


def fill(root: Path) -> None:
    """Make a registry in `root` that has both."""
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{root / 'mlflow.db'}"
    store = champions.client()
    store.create_registered_model(NAME)
    for alias, model in MODELS.items():
        directory = (Path("models/comparisons") / model).absolute()
        tags = {DIGEST: files_digest(directory), "model": model}
        made = store.create_model_version(NAME, directory.as_uri(), tags=tags)
        store.set_registered_model_alias(NAME, alias, made.version)


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """Serve for as long as the block lasts; give the address."""
    port = str(free_port())
    url, command = f"http://127.0.0.1:{port}", [str(PERFJUDGE), "serve", "--port", port]
    with running([*command, "--log-level", "warning", *options], f"{url}/readyz"):
        yield url


def asked(url: str, bodies: list[str]) -> dict[int, Load]:
    found = {}
    for connections in CONNECTIONS:
        time.sleep(CALM)
        found[connections] = loaded(url + PLACE, bodies, connections, SECONDS)
    return found


def heard(url: str, answers: int) -> float:
    """Return the share of the answers that the challenger judged, too."""
    time.sleep(CALM)
    with urlopen(f"{url}/v1/shadow") as answer:  # noqa: S310 - our own address
        figures = json.load(answer)["figures"]
    return sum(one["judged"] for one in figures) / answers


def main() -> None:
    require_programs("wrk")
    before = load()
    bodies = [json.dumps({"comparisons": [one]}) for one in comparisons()]
    rounds: dict[str, list[dict[int, Load]]] = {"alone": [], "with --shadow": []}
    with tempfile.TemporaryDirectory() as scratch:
        fill(Path(scratch))
        with serving() as alone, serving("--shadow") as both:
            for url in (alone, both):
                loaded(url + PLACE, bodies, 1, 2)
            for _ in range(ROUNDS):
                rounds["alone"].append(asked(alone, bodies))
                rounds["with --shadow"].append(asked(both, bodies))
            answers = sum(each.answers for one in rounds["with --shadow"] for each in one.values())
            share = heard(both, answers)
    columns = {
        "server": "", "connections": "", "answers/s": ",.0f", "p50 ms": ".2f", "p99 ms": ".2f", "failed": "",
    }  # fmt: skip
    Table(
        "A challenger in the shadow",
        columns,
        [
            (
                name,
                connections,
                *(
                    median(getattr(one[connections], what) for one in found)
                    for what in ("per_second", "p50", "p99")
                ),
                sum(one[connections].failed for one in found),
            )
            for connections in CONNECTIONS
            for name, found in rounds.items()
        ],
        [
            busy(before),
            f"One process answers; {MODELS[CHAMPION]} is champion, {MODELS[CHALLENGER]} is challenger.",
            f"Bodies of one shipped comparison; medians of {ROUNDS} rounds of {SECONDS} s, in turn.",
            f"The challenger judged {share:.0%} of the answers; what found no room was dropped and counted.",
            "wrk, the server and the shadow share the processors.",
        ],
    ).publish("shadow")


if __name__ == "__main__":
    main()
