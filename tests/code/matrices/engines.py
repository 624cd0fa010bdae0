"""Engines fitted to small matrices."""

from data.matrices.validity import decide_validity
from training.matrices.engine.stored import EngineRecipe
from training.matrices.fitting import MatrixExamples
from training.matrices.schemes import BLENDS, JOINED, LARGE, Cell

SEED = 1


def trained_on(tables, model="logistic", trials=2):
    examples = MatrixExamples.from_tables(tables, decide_validity(tables, 0.5), "digest")
    cell = Cell(model, JOINED if model in BLENDS else LARGE)
    return EngineRecipe(cell, trials, SEED, examples.has_invalid_flags, 0.5, "digest").train(examples.tables)
