"""Programs whose phases come once, one after the other, such as reading, indexing, sorting and writing."""

from importlib import import_module


def _prepared(program):
    name, *options = program.split(",")
    module, function = name.split(".")
    values = dict(option.split(":", 1) for option in options)
    values = {key: int(value) if value.isdigit() else value for key, value in values.items()}
    return getattr(import_module(module), function)(**values)


def once(**units):
    """Return a function that does a unit of the current phase; StopIteration after the last phase.

    `units` has the units of each phase, in order, by its program: MODULE.NAME of this folder, then options
    after commas, such as ``numeric.gather,size:8000000=20``. A program is prepared when its phase begins.
    """

    def turns():
        for program, count in units.items():
            unit = _prepared(program)
            for _ in range(count):
                yield unit()

    left = turns()
    return lambda: next(left)
