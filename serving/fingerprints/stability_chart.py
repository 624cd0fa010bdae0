"""How stable two ways to rank the stressors are, application by application."""

from __future__ import annotations

import pandas as pd

from serving.pages.charts import INK, MUTED, PASS, Chart, counted, inline, sketch

#: Applications from which on a picture says more than the table.
_ENOUGH = 5


def stability_chart(name: str, stability: pd.DataFrame) -> Chart | None:
    """Draw the stability of our method over that of the seed's, a dot an application.

    Parameters
    ----------
    name : str
        The anchor.
    stability : DataFrame
        ``application, seed, ours``: mean overlap (Jaccard) of the top five between resamples, 0 to 1.

    Returns
    -------
    Chart or None
        None where there are too few applications for a picture.
    """
    known = stability.dropna()
    if len(known) < _ENOUGH:
        return None
    higher = int((known["ours"] > known["seed"]).sum())
    title = f"Our top five are the more stable ones on {higher} of {counted(len(known), 'application')}"
    alt = f"Scatter plot of the stability of our method over that of the seed's. {title}."
    note = "Above the line ours is the more stable one. 1 = always the same five stressors."
    with sketch(5.2, 4.6) as figure:
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle="--")
        axes.scatter(
            known["seed"], known["ours"], s=26, facecolor=PASS, edgecolor=INK, linewidth=0.6, clip_on=False
        )
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.set_xlabel("the seed's method (overlap of the top five, 0 to 1)")
        axes.set_ylabel("ours (overlap of the top five, 0 to 1)")
        return Chart(name, title, alt, inline(figure, name, alt), note, small=True)
