"""Files of one run as a benchmark program writes them."""

import json

import numpy as np

LEVELS = {"a": 100.0, "b": 40.0, "c": 7.0, "d": 900.0, "e": 20.0, "f": 60.0}


def run_file(path, scale=None, whole=1.0, seed=0, left_out=(), machine="m", levels=LEVELS):
    """Write a run of operations at these levels, with 1 % of noise, some of them slower."""
    rng = np.random.default_rng(seed)
    slower, results = scale or {}, []
    for name, level in levels.items():
        samples = level * whole * slower.get(name, 1.0) * (1 + rng.normal(0, 0.01, 12))
        about = {"benchmark": "bench", "operation": name, "machine": machine, "unit": "ms", "better": "lower"}
        if name not in left_out:
            results.append({**about, "configurations": [{"threads": 1, "samples": samples.tolist()}]})
    path.write_text(json.dumps({"results": results}))
    return path


def named_run(path, names, seed=0):
    """Write a run of operations of these names, each of its own level."""
    return run_file(path, seed=seed, levels={name: 100.0 * at for at, name in enumerate(names, 1)})
