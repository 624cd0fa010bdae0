"""Generated result files of many versions with known changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data.comparisons.sides import Floats

RULES = """<timelines>
<timeline title="kernels">
<baseline><Kernel value="kernel-5\\.0\\.0"/></baseline>
<targets><Kernel value="kernel-5\\..*"/></targets>
</timeline>
</timelines>
"""


#: Samples of a version, and their standard deviation as a share of their mean.
SAMPLES, SPREAD = 5, 0.01


@dataclass(frozen=True)
class DrawnResults:
    """A randomly drawn result file per version; every tenth operation drops once, the next one creeps."""

    versions: int = 200
    operations: int = 500
    threads: tuple[int, ...] = (1, 4, 16, 64)

    def levels(self) -> Floats:
        """Return the level of each operation at each version, as a share of its first level."""
        levels = np.ones((self.operations, self.versions))
        levels[::10, self.versions // 2 :] -= 0.1
        quarter = self.versions // 4
        levels[1::10] -= 0.09 * np.clip((np.arange(self.versions) - quarter) / quarter, 0, 1)
        return levels

    def write(self, folder: Path, *, summaries: bool = False) -> list[Path]:
        """Write a result file per version with samples, or their summaries; return the paths."""
        draws, paths = np.random.default_rng(0), []
        scale = 1000.0 * (1 + np.arange(self.operations))[:, None] * np.array(self.threads)
        for version, level in enumerate(self.levels().T):
            of_version = 1 + SPREAD / 2 * draws.standard_normal((self.operations, 1, 1))
            values = of_version * (1 + SPREAD * draws.standard_normal((*scale.shape, SAMPLES)))
            values *= (level[:, None] * scale)[..., None]
            paths.append(folder / f"{version:04d}" / "result.xml")
            paths[-1].parent.mkdir(parents=True)
            paths[-1].write_text("\n".join(self._lines(version, values, summaries=summaries)) + "\n")
        return paths

    def _lines(self, version: int, values: Floats, *, summaries: bool) -> Iterator[str]:
        yield from ("<beaker_run_result>", "<settings>")
        yield f'<Kernel value="kernel-5.{version // 20}.{version % 20}"/>'
        yield from ('<Hostname value="m1"/>', '<BenchmarkName value="drawn"/>')
        yield from ("</settings>", "<test_result>")
        for operation, by_threads in enumerate(values):
            yield f'<nas_result benchmark_name="op{operation}">'
            for threads, samples in zip(self.threads, by_threads, strict=True):
                yield f'<threads number="{threads}">'
                if summaries:
                    low, q1, median, q3, high = np.quantile(samples, [0, 0.25, 0.5, 0.75, 1]).tolist()
                    yield (
                        f'<mops mean="{samples.mean():.1f}" stdev="{samples.std():.1f}" first_q="{q1:.1f}" '
                        f'median="{median:.1f}" third_q="{q3:.1f}" max="{high:.1f}" min="{low:.1f}"/>'
                    )
                else:
                    for value in samples.tolist():
                        yield f'<result mops="{value:.1f}" total_time="31.4" out_of_cpu_time="0.9"/>'
                yield "</threads>"
            yield "</nas_result>"
        yield from ("</test_result>", "</beaker_run_result>")
