"""The code that a page of results measures: definitions, those that they name, and so on; and its digest."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from data.errors import InputError

#: The directory of the code that runs.
ROOT = Path(__file__).parents[2]
#: Modules that write and draw pages: they count only for pages whose names they are among.
_WRITING = re.compile(r"benchmarks\.(pages|table)\b|serving\.reports\b")
_ADDRESS = re.compile(r"[a-z_]\w*(\.\w+)+:\w+")
#: Conditions of blocks that do not run when a module is imported.
_NOT_RUN = ("TYPE_CHECKING", "__name__ == '__main__'")


class Code(NamedTuple):
    """Files with code, relative to the project, and the first digits of the SHA-256 of that code."""

    files: frozenset[Path]
    digest: str


def measured_code(names: Iterable[str], root: Path = ROOT, not_run: Collection[str] = ()) -> Code:
    """Return the code at `names`, and all definitions of the project that it names, directly or not.

    Modules in the packages or modules `not_run` are left out. A name is ``package.module``,
    ``package.module:definition``, a file, files (``folder/*``), or ``file.yaml:key.key``; InputError if
    nothing is there. The digest ignores formatting, comments, docstrings, annotations of functions, messages
    of exceptions, and which module has a definition.
    """
    files, parts, seen, todo = set[Path](), set[str](), set[str](), set[str]()
    root, names = root.resolve(), [*names]
    for name in names:
        file, _, key = name.partition(":")
        paths = [*root.glob(file)]
        files |= {path.relative_to(root) for path in paths}
        parts |= {_text_at(key, path.read_text(encoding="utf-8")) for path in paths}
        module, path, _ = _find(file, root)
        if not paths and (module != file or key not in {"", *_definitions(path.read_text(encoding="utf-8"))}):
            raise InputError("no such code or file", file="benchmarks/pages/pages.yaml", place=name)
        todo.add(name.replace(":", "."))
    while todo:
        seen.add(dotted := todo.pop())
        module, path, name = _find(dotted, root)
        if not module or (_WRITING.match(module) and module not in names):
            continue
        if any(f"{module}.".startswith(f"{other}.") for other in not_run):
            continue
        files.add(path.relative_to(root))
        definitions = _definitions(path.read_text(encoding="utf-8"))
        for key in {name, ""} if name else definitions:
            for text, named in definitions.get(key, ()):
                parts.add(text)
                todo |= {f"{module}{other}" if other.startswith(".") else other for other in named} - seen
    text = "\n".join(sorted(filter(None, parts)))
    return Code(frozenset(files), hashlib.sha256(text.encode()).hexdigest()[:8])


@cache
def _text_at(key: str, text: str) -> str:
    value: Any = yaml.safe_load(text) if key else text
    for part in key.split(".") if key else ():
        if part not in value:
            raise InputError(f"there is no {key!r}", file="benchmarks/pages/pages.yaml")
        value = value[part]
    return json.dumps([key, value], sort_keys=True)


@cache
def _find(dotted: str, root: Path) -> tuple[str, Path, str]:
    """Return the module in a dotted name, "" if it is none of the project, its file, and the definition."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        place = root.joinpath(*parts[:end])
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if path.is_file():
                return ".".join(parts[:end]), path, "".join(parts[end : end + 1])
    return "", root, ""


@cache
def _definitions(source: str) -> Mapping[str, Sequence[tuple[str, frozenset[str]]]]:
    """Return the text of statements and the names in it, by the names that they define, or by ""."""
    tree, found = _Bare().visit(ast.parse(source)), defaultdict(list)
    imports = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            before = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            imports |= {alias.asname or alias.name: f"{before}{alias.name}" for alias in node.names}
    for name, dotted in imports.items():
        found[name].append(("", frozenset({dotted})))
    statements = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    local = {*imports, *(name for statement in statements for name in _defined(statement))}
    for statement in statements:
        part = ast.unparse(statement), frozenset(_named(statement, local, imports))
        for name in _defined(statement) or {""}:
            found[name].append(part)
    return found


def _defined(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    nodes = [*ast.walk(statement)]
    inner = {name for node in nodes if isinstance(node, ast.comprehension) for name in ast.walk(node.target)}
    names = (node for node in nodes if isinstance(node, ast.Name) and node not in inner)
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _named(statement: ast.stmt, local: set[str], imports: Mapping[str, str]) -> Iterator[str]:
    """Yield the definitions that a statement names, those of its own module with a point before."""
    owners = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imports:
            owners.add(node.value)
            yield f"{imports[node.value.id]}.{node.attr}"
        elif isinstance(node, ast.Name) and node.id in local and node not in owners:
            yield f".{node.id}"
        elif isinstance(node, ast.Constant) and _ADDRESS.fullmatch(str(node.value)):
            yield str(node.value).replace(":", ".")


class _Bare(ast.NodeTransformer):
    """Removes what the digest ignores, and blocks that do not run."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the name that is called

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Raise(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if ast.unparse(node.test) in _NOT_RUN else node

    # text of f-strings depends on the version of Python
    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        return ast.List(node.values)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        self.generic_visit(node)
        spec = node.format_spec or ast.Constant(None)
        return ast.List([node.value, ast.Constant(node.conversion), spec])
