"""The figures that README.md and docs/ quote: each is filled in from its source, or marked as not measured.

A block (a paragraph, a list, a table, or the output of a command) with figures has a comment before it::

    <!-- figures: results/sap-hana-held-out: (champion) / missed fails; 5 % -->

which gives the source of each figure in turn, or repeats a figure that is a limit or a setting. A source is

    results/PAGE: KEY / KEY / COLUMN   a cell of a table of docs/results/PAGE.md, in the only row that has all
                                       keys, or whose table's title has them
    results/PAGE: KEY / KEY / #2       the second number of the only line with all keys; it may be repeated
    FAMILY: KEY / KEY / KEY            a value of reports/FAMILY/metrics.json; {champion} is replaced by its
    name

and may be left out if it is that of the figure before. The value is rounded to as many digits as the block
shows. Whole tables are placed between ``<!-- table: NAME -->`` and ``<!-- /table -->``, NAME being one of
`TABLES`. Blocks whose figures were not measured give the reason: ``<!-- not measured: a limit -->``, in the
words of `REASONS`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from decimal import ROUND_HALF_EVEN, Decimal
from functools import partial
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks.pages import PAGES, RESULTS, markdown_table
from benchmarks.table import read_metrics
from data.errors import InputError
from data.families import FAMILIES
from data.paths import FamilyPaths
from data.tables.files import write_text

#: The model cards.
CARDS = Path("docs/cards.md")
#: Why a block's figures have no source.
REASONS = (
    "a limit", "a definition", "a setting", "an example", "an estimate", "what a test requires",
    "how the data were made",
)  # fmt: skip
_MARK = re.compile(r"<!--\s*(figures|not measured|table|/table)(?::\s*(.*?))?\s*-->", re.DOTALL)
_NUMBER = re.compile(
    r"(?<![\w.,/#:~^-])[-\u2212]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\.?\d)(?![\w-]*\w*\d)(?!,\d{3})"
)
_COUNTED = "comparisons|regressions|fails|passes|co-runs|verdicts|vectors|cases|answers|alarms|misses"
#: Text after a number that makes it a figure.
_UNIT = re.compile(
    rf"\s?%|\s(?:of \d|(?:{_COUNTED}|times|points|[mnuµ]?s|seconds?|minutes?|hours?|[KMGT]i?B)\b)"
)
#: Text between two numbers that are both figures or neither.
_JOINED = re.compile(r"(?:,| to| and| or|, and) (?=[-\u2212]?\d)")
#: Text before the total in counts such as "3 of 20".
_PART = re.compile(r"\d of $")
_NOT_TEXT = re.compile(
    r"<!--.*?-->|`[^`]*`|\]\([^)]*\)|https?://\S+"
    r"|\b(?:[Ff]igures?|[Ss]ections?|[Cc]hapters?|[Tt]ables?|MLflow|OpenAPI|Python) "
    r"\d[\d.]*(?:(?:,| and| to| or) \d[\d.]*)*",
    re.DOTALL,
)
_TABLE = re.compile(r"<!-- table: ([\w-]+) -->\n.*?<!-- /table -->", re.DOTALL)
#: Beginnings of indented commands, JSON and XML, which quote no figures.
_COMMAND = re.compile(
    r"\s*(?:[{<]|(?:[A-Z_]+=\S*\s+)*(?:cat|cp|createdb|curl|dask|docker|export|git|gzip|mkdir|perf|pip|printf|psql|python|sed|"
    r"sqlite3|sudo|uv|TOKEN=\S+)\s)"
)


class Figure(NamedTuple):
    """A number in a text: its begin and end, its text, and whether it is a percentage."""

    begin: int
    end: int
    text: str
    percent: bool


class Block(NamedTuple):
    """Lines between two empty ones, with the mark before them."""

    line: int
    begin: int
    end: int
    kind: str
    says: str


def find_figures(text: str) -> list[Figure]:
    """Return the numbers in a text that are measured figures, limits or requirements.

    These are numbers with decimals, of thousands, before a unit or before a counted noun, and numbers joined
    to one of them (``1.5 to 3 %``). Code, links, numbers of figures, sections and tables are left out.
    """
    hidden = _NOT_TEXT.sub(lambda match: re.sub(r"\S", "x", match[0]), text)
    numbers: list[Figure] = []
    after: tuple[int, bool] | None = None
    for match in reversed([*_NUMBER.finditer(hidden)]):
        unit = _UNIT.match(hidden, match.end())
        percent = unit is not None and "%" in unit[0]
        joined = _JOINED.match(hidden, match.end())
        if joined and after and joined.end() == after[0] and not unit:
            percent = after[1] and joined[0] in {" to ", " or "}
        elif not (unit or "." in match[0] or "," in match[0] or _PART.search(hidden, 0, match.start())):
            continue
        numbers.append(Figure(match.start(), match.end(), match[0], percent))
        after = match.start(), percent
    return numbers[::-1]


def split_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a document, but not its generated tables."""
    mark, at, number, generated = ("", ""), 0, 1, False
    for part in re.split(r"(\n[ \t]*\n)", text):
        begin, line = at, number + len(part) - len(part.lstrip("\n"))
        at, number = at + len(part), number + part.count("\n")
        named = _MARK.fullmatch(part.strip())
        if named and named[1] in {"table", "/table"}:
            generated = named[1] == "table"
        elif named:
            mark = named[1], " ".join((named[2] or "").split())
        elif part.strip() and not generated:
            yield Block(line, begin, at, *mark)
            mark = "", ""


def unsourced_blocks(text: str) -> Iterator[str]:
    """Yield a line for each block that has figures without a mark, or a mark without figures."""
    plain = _without_inputs(text)
    for block in split_blocks(plain):
        quoted = [figure.text for figure in find_figures(plain[block.begin : block.end])]
        if quoted and not block.kind:
            yield f"{block.line}: {', '.join(quoted)}: no source"
        elif block.kind and not quoted:
            yield f"{block.line}: a mark, and no figure below it"
        elif block.kind == "not measured" and block.says not in REASONS:
            yield f"{block.line}: {block.says!r} is no reason; expected one of: {', '.join(REASONS)}"


def _without_inputs(text: str) -> str:
    """Return the text with headings, fenced blocks and commands blanked, at the same length."""

    def blank(match: re.Match[str]) -> str:
        is_text = match[0].startswith("    ") and not _COMMAND.match(match[0])
        return match[0] if is_text else re.sub(r"[^\s]", "x", match[0])

    text = re.sub(r"^```.*?^```|^#.*?$", blank, text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?:^    .*(?:\n|\Z))+", blank, text, flags=re.MULTILINE)


def fill_figures(text: str, root: Path = Path(), name: str = "") -> str:
    """Return a document with its figures and tables replaced by the values of their sources."""

    def generated_table(match: re.Match[str]) -> str:
        if match[1] not in TABLES:
            raise InputError(f"{match[1]!r} is no table of documents; expected one of: {', '.join(TABLES)}")
        return f"<!-- table: {match[1]} -->\n\n{TABLES[match[1]](root).strip(chr(10))}\n\n<!-- /table -->"

    text = _TABLE.sub(generated_table, text)
    result, done, plain = [], 0, _without_inputs(text)
    for block in (block for block in split_blocks(plain) if block.kind == "figures"):
        quoted, named = find_figures(plain[block.begin : block.end]), [*_figure_sources(block.says)]
        place = f"{name}:{block.line}"
        if len(quoted) != len(named):
            figure_texts = ", ".join(figure.text for figure in quoted)
            raise InputError(f"{place}: {len(quoted)} figures ({figure_texts}), and {len(named)} sources")
        for figure, (source, keys) in zip(quoted, named, strict=True):
            try:
                value = _source_value(source, keys, root).rounded(figure) if source else figure.text
            except InputError as exc:
                source_text = f"{source}: {' / '.join(keys)}"
                raise InputError(f"{place}: {figure.text!r}: {source_text}: {exc}") from None
            if not source and keys[0] != figure.text:
                raise InputError(f"{place}: {figure.text!r}, where the mark has {keys[0]!r}")
            result += [text[done : block.begin + figure.begin], value]
            done = block.begin + figure.end
    return "".join([*result, text[done:]])


def _figure_sources(says: str) -> Iterator[tuple[str, list[str]]]:
    """Yield source and keys of each figure; the source of a repeated figure is empty."""
    source = ""
    for item in says.split(";"):
        before, colon, keys = item.strip().partition(": ")
        if colon:
            source = before
        elif re.fullmatch(r"[-\u2212\d.,]+", before):
            yield "", [before]
            continue
        yield source, [key.strip() for key in (keys if colon else before).split(" / ")]


class Value(NamedTuple):
    """A number from a source, whether it is in percent, and its decimal digits, None if unlimited."""

    number: Decimal
    percent: bool
    digits: int | None

    @classmethod
    def parse(cls, cell: str) -> Value:
        match = _NUMBER.match(cell.strip())
        if match is None:
            raise InputError(f"{cell!r} is no number")
        number = Decimal(match[0].replace(",", "").replace("\u2212", "-"))
        percent = re.match(r"\s?%", cell.strip()[match.end() :]) is not None
        return cls(number, percent, len(match[0].partition(".")[2]))

    def rounded(self, figure: Figure) -> str:
        """Return the value with as many digits as `figure`; InputError if it has fewer."""
        digits = len(figure.text.partition(".")[2])
        number, has = self.number, self.digits
        if figure.percent and not self.percent:
            number, has = number * 100, None if has is None else max(has - 2, 0)
        if self.percent and not figure.percent:
            raise InputError("a percentage there, but not here")
        if has is not None and digits > has:
            raise InputError(f"only {has} digits behind the point")
        exact = number.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN)
        return f"{exact:,f}" if abs(exact) >= 10_000 or "," in figure.text else f"{exact:f}"  # noqa: PLR2004


def _source_value(source: str, keys: Sequence[str], root: Path) -> Value:
    if source in FAMILIES:
        return _metrics_value(read_metrics(source, root), keys)
    path = root / "docs" / f"{source}.md"
    if not source.startswith("results/") or not path.is_file():
        raise InputError("no such source; expected results/PAGE or a family")
    page = path.read_text(encoding="utf-8")
    *keys, last = keys
    if not last.startswith("#"):
        return Value.parse(_cell(page, keys, last))
    # notes may be repeated below several tables
    lines = dict.fromkeys(line for line in page.splitlines() if all(key in line for key in keys))
    line, number = _single_match([*lines]), int(last[1:])
    numbers = [*_NUMBER.finditer(line)]
    if len(numbers) < number:
        raise InputError(f"only {len(numbers)} numbers in that line")
    return Value.parse(line[numbers[number - 1].start() :])


def _metrics_value(metrics: Mapping[str, Any], keys: Sequence[str]) -> Value:
    value: Any = metrics
    for key in (metrics["champion"] if key == "{champion}" else key for key in keys):
        if not isinstance(value, Mapping) or key not in value:
            raise InputError(f"there is no {key!r}")
        value = value[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError("that is no number")
    return Value(Decimal(str(value)), percent=False, digits=None)


def _table_rows(page: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the text of each row of each table, the table's title before it, and its cells by heading."""
    title, headings = "", list[str]()
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if line.startswith("# "):
            title = line
        if not cells or not headings:
            headings = cells
        elif set(cells) != {"---"}:
            yield title + line, dict(zip(headings, cells, strict=True))


def _cell(page: str, keys: Sequence[str], column: str) -> str:
    """Return a column's cell in the only row with all keys, preferring keys that equal a whole cell."""
    by_equality = defaultdict(list)
    for text, cells in _table_rows(page):
        if column in cells and all(key in text for key in keys):
            by_equality[sum(key in cells.values() for key in keys)].append(cells[column])
    return _single_match(by_equality[max(by_equality, default=0)])


def _single_match(matches: Sequence[str]) -> str:
    if len(matches) != 1:
        raise InputError(f"{len(matches)} places have that, not one")
    return matches[0]


#: The index of all pages.
INDEX = RESULTS / "index.md"


def document_paths(root: Path = Path()) -> list[Path]:
    """Return the paths, relative to `root`, of all documents but the cards and the pages of results."""
    docs = [path.relative_to(root) for path in sorted((root / "docs").rglob("*.md"))]
    quoting = [path for path in docs if path != CARDS and (path == INDEX or path.parent != RESULTS)]
    return [Path("README.md"), *quoting]


def render_cards(root: Path = Path()) -> str:
    """Return the cards of all families, in Markdown, from the figures of the last pipeline run."""
    options = {"keep_trailing_newline": True, "trim_blocks": True}
    loader = FileSystemLoader(Path(__file__).parent)
    # no escapes: Markdown, of our own figures
    templates = Environment(loader=loader, undefined=StrictUndefined, **options)  # noqa: S701
    figures = {family: read_metrics(family, root) for family in FAMILIES}
    return templates.get_template("cards.md.jinja").render(figures)


def write_documents(root: Path = Path()) -> list[Path]:
    """Write documents with the figures of their sources, and marks in outdated pages; return what changed."""
    problems, changed = [], []
    pages = {page.path(): partial(page.marked, root) for page in PAGES}
    written = dict.fromkeys(document_paths(root)) | pages | {CARDS: partial(render_cards, root)}
    for path, content in written.items():
        old = (root / path).read_text(encoding="utf-8")
        try:
            text = content() if content else fill_figures(old, root, str(path))
        except InputError as exc:
            problems.append(str(exc))
            continue
        if text != old:
            write_text(root / path, text)
            changed.append(path)
    if problems:
        raise InputError("; ".join(problems))
    return changed


def _percent(value: float, digits: int) -> str:
    return f"{100 * value:.{digits}f} %"


def _accuracy(scores: Mapping[str, float]) -> tuple[str, str]:
    return _percent(scores["within_tolerance"], 1), _percent(scores["mape"], 2)


def _indented(text: str) -> str:
    return "".join(f"    {line.rstrip()}\n" for line in text.splitlines())


def _pipeline_output(root: Path) -> str:
    """Return the table that the stage evaluate of comparisons prints."""
    from training.evaluation.figures import print_scores

    with redirect_stdout(StringIO()) as output:
        print_scores(read_metrics("comparisons", root), "grouped", "comparisons")
    return _indented(output.getvalue())


def _dvc_output(root: Path, families: Sequence[str]) -> str:
    """Return the output of ``dvc metrics show`` for the summaries of `families`."""
    from tabulate import tabulate

    paths = [FamilyPaths(family).summary for family in families]
    summaries = {str(path): json.loads((root / path).read_text(encoding="utf-8")) for path in paths}
    names = sorted({name for summary in summaries.values() for name in summary})
    rows = [[path, *(str(by_name.get(name, "-")) for name in names)] for path, by_name in summaries.items()]
    return _indented(tabulate(rows, ["Path", *names], tablefmt="plain", disable_numparse=True))


def _corun_table(root: Path) -> str:
    """Return the accuracy of the static co-run champion by split, and the measurement's repeatability."""
    metrics, rows = read_metrics("corun", root), []
    splits = {"pairs": "pairs never seen", "random": "at random, 4:1 (the paper's split)"}
    for split, held_out in {**splits, "tasks": "both tasks never seen"}.items():
        scores = metrics["splits"][split]["entries"][metrics["champion"]]
        pooled = {name: scores[name]["pooled"] for name in ("within_tolerance", "mape", "coverage")}
        rows.append([held_out, *_accuracy(pooled), _percent(pooled["coverage"], 1)])
    rows.append(["nothing: measured once more", *_accuracy(metrics["repeatability"]), ""])
    return markdown_table(["held out", "within 3 %", "mean error", "interval of 90 % holds"], rows)


def _online_table(root: Path) -> str:
    """Return the accuracy of the online co-run champion by seconds of measurement."""
    online, designs = read_metrics("corun", root)["online"], {"random": "co-runs at random", "tasks": "tasks"}
    entries = [entry for entry in online["entries"] if entry["model"] == online["champion"]]
    entries.sort(key=lambda entry: (entry["seconds"], entry["design"]))
    rows = [
        [f"{entry['seconds']:g}", designs[entry["design"]], *_accuracy(entry), f"{entry['r2']:.2f}"]
        for entry in entries
    ]
    return markdown_table(["seconds", "held out", "within 3 %", "mean error", "R²"], rows)


def _result_page(root: Path, name: str) -> str:
    return (root / RESULTS / f"{name}.md").read_text(encoding="utf-8")


def _public_coruns(root: Path) -> str:
    """Return the mean errors of docs/results/corun-accuracy.md, a column per model."""
    models = {"contention": "ours", "xgboost": "plain XGBoost", "random-forest": "plain forest"}
    errors: dict[tuple[str, ...], dict[str, str]] = {}
    for _, cells in _table_rows(_result_page(root, "corun-accuracy")):
        key = cells["data"], cells["held out"], cells["seed"]
        errors.setdefault(key, {})[cells["model"]] = cells["mean error"].replace("%", " %")
    rows = [[*key, *(by_model.get(model, "") for model in models)] for key, by_model in errors.items()]
    return markdown_table(["data", "held out", "seed", *models.values()], rows)


def _progress_table(root: Path) -> str:
    """Return the rows of docs/results/progress.md about 10 s of simulated programs."""
    columns = ("within 5 %", "mean error", "interval of 90 % holds", "its width")
    page, rows = _result_page(root, "progress"), []
    for keys in product(("phases come again and again", "phases come once"), ("whole", "its beginning")):
        cells = (_cell(page, (*keys, "10", "progress"), name).replace("%", " %") for name in columns)
        rows.append([*keys, *cells])
    return markdown_table(["programs", "the run alone", *columns], rows)


def _index_sections(root: Path) -> str:
    """Return the sections of docs/results/index.md: a line and a figure per page."""
    sections: dict[str, list[list[str]]] = {}
    for page in PAGES:
        *keys, column = page.figure_source.split(" / ")
        figure = page.figure, _cell(_result_page(root, page.name), keys, column)
        origin = page.origin(root)
        written = f"{origin.day if origin else ''}{'' if page.is_current(root) else ', outdated'}"
        row = [f"[{page.name}]({page.name}.md)", f"{page.about} ({page.data})", *figure, written]
        sections.setdefault(page.section, []).append(row)
    headings = ["page", "subject (data)", "figure", "value", "written"]
    return "\n\n".join(f"## {name}\n\n{markdown_table(headings, rows)}" for name, rows in sections.items())


#: Functions that write the tables between two marks, by name.
TABLES: Mapping[str, Callable[[Path], str]] = {
    "printed-by-the-pipeline": _pipeline_output,
    "dvc-metrics-verdicts": partial(_dvc_output, families=("comparisons", "matrices")),
    "dvc-metrics-numbers": partial(_dvc_output, families=("corun", "fingerprints")),
    "co-runs": _corun_table,
    "online-co-runs": _online_table,
    "public-co-runs": _public_coruns,
    "progress": _progress_table,
    "pages-of-results": _index_sections,
}
