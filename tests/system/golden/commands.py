"""The commands of ``commands.txt``, by group."""

import shlex
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
SAMPLES = "docs/samples"
LISTED = Path(__file__).with_name("commands.txt")


def commands():
    """Return the lines of each group; `arguments` splits them."""
    groups = {}
    for line in LISTED.read_text().splitlines():
        if line.startswith("["):
            group = groups.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            group.append(line)
    return groups


def arguments(line):
    """Return the arguments of a command as a shell would split them."""
    return shlex.split(line)
