"""The family ``matrices`` in the training package: its stages evaluate, train and promote.

Tuning is part of every fit (`training.engine`), so there is no stage tune. Evaluation writes to
``reports/matrices``; test cases (``workload``) are held out whole, and every row below is of held-out test
cases. A *scheme* says which remedies of seed 001 were taken (`training.matrix_schemes`); *counts* are of vectors, the
seed's way, or of pairs of matrices, which are what is asked.

``metrics.json``
    ``family, data, seed, champion`` (an entry), ``splits.test-cases`` (``scheme, folds, entries``), ``selected`` (the
    entry that is best on the other folds, judged on each), ``served`` (the champion behind rules and
    validity tree: what it says of runs nobody has flagged). An entry has ``kind`` ("model" or "opponent") and
    per score ``mean, std, pooled``, of pairs.
``oof.parquet``
    ``pair_id, workload, group, split, repeat, fold, entry, kind, scheme, model, group_used, probability,
    threshold, verdict, status, cause, cause_size``: every entry's verdict on every pair. The opponents are
    ``largest z`` and ``metrics beyond 3 sigma``; ``cause`` is empty and ``cause_size`` missing where nothing
    was injected or it is not known.
``tables.parquet``
    ``table`` (2, 4, 5, 6, 7, 8), ``row`` (the seed's name of the classifier), ``model, scheme, folds, vectors,
    abnormal, balanced_accuracy, spread, false_positive, false_negative, pair_balanced_accuracy, pair_spread,
    seed_balanced_accuracy, seed_false_positive, seed_false_negative``; the seed's are missing where it has
    none. Counts are of vectors pooled over folds; ``spread`` is the standard deviation over folds.
``ablation.parquet``
    ``part`` ("added", "left out", "grouping"), ``step`` (counted from 0), ``remedy`` (in words), ``model``,
    the fields of the scheme (``metrics, form, prune, grouping, components, balance``), and the columns of
    tables.parquet from ``folds`` on, and ``pair_false_positive, pair_false_negative``. "added": from the naive
    state to the full scheme, one remedy at a time; "left out": the full scheme without one; "grouping": none,
    given and automatic groups.
``curves.parquet``
    ``figure`` (4 cost ratio, 5 share of the normal vectors left out, 6 dimensions), ``model, grouping, x, folds,
    balanced_accuracy, spread``, of vectors.
``times.parquet``
    Figure 7: ``model, dimensions, seconds``, of fitting all training vectors once; never the same twice.
``validity.parquet``
    ``judge`` ("rules", "tree", "both"), ``fold, kind`` (of invalidity; empty for valid runs), ``runs, rejected``.
``groups.parquet``
    ``workload, group, automatic``: the automatic group of each test case beside the given one.
``served.parquet``
    ``pair_id, workload, group, fold, verdict, probability, status, baseline_runs, target_runs, reason``.
"""

from __future__ import annotations
