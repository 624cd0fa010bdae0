"""Recognise the format of a file of comparisons."""

from __future__ import annotations

from pathlib import Path

from data.comparisons.formats.tools import TOOLS, recognition
from data.errors import InputError
from data.tables.files import naming_unreadable
from data.tables.problems import nearest_name

#: Format by root element of XML; comparisons may also be in documents with another root.
_ROOTS = {"comparison_results": "comparison-xml", "beaker_run_result": "result-xml"} | {
    tool.root: tool.name for tool in TOOLS.values() if tool.root
}
#: Number of first bytes that are used to recognise a format.
_HEAD = 2**18


def format_of_file(path: Path) -> str:
    """Return the format of a file of comparisons, recognised from its content.

    InputError as by `data.comparisons.formats.recognise_format`, also for compressed files and UTF-16.
    """
    with naming_unreadable(path), path.open("rb") as opened:
        head = opened.read(_HEAD)
    if head.startswith(b"\x1f\x8b"):
        raise InputError("is compressed (gzip); expected the decompressed file", file=path)
    is_utf_16 = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = head.removeprefix(b"\xef\xbb\xbf")
    begin = (head[2:].lstrip(b"\0 \t\r\n") if is_utf_16 else text.lstrip())[:1]
    if not begin:
        raise InputError("is empty; expected measurements", file=path)
    if begin == b"<":
        return _sniff_xml(path, head)
    if is_utf_16:
        raise InputError("is text in UTF-16; expected UTF-8", file=path)
    if begin in {b"{", b"["}:
        return _sniff_json(path)
    file = recognition.UnreadFile(path, text)
    tool = recognition.recognise_tool(file, TOOLS.values())
    if tool is None and b"Performance counter stats for" in text:
        raise InputError("is text of perf stat for people; expected that of perf stat -x, or -j", file=path)
    if tool is None:
        raise recognition.unknown_content(file, TOOLS.values(), "neither XML nor JSON, and text")
    return tool


def _sniff_xml(path: Path, head: bytes) -> str:
    from data.tables.xml_stream import Document, root_of

    root = root_of(Document.from_path(path))
    # any other root may contain comparisons
    is_searched = len(head) < _HEAD
    if root not in _ROOTS and is_searched and b"comparison_result" not in head.replace(b"\0", b""):
        roots = ", ".join(f"<{tag}> ({name})" for tag, name in _ROOTS.items())
        raise InputError(f"is XML in no known format: <{root}> is not one of {roots}", file=path)
    return _ROOTS.get(root, "comparison-xml")


def _sniff_json(path: Path) -> str:
    """Return the format of JSON; invalid JSON and misspelt keys are "comparison-json"."""
    file = recognition.UnreadFile(path)
    keys = file.json_outline.members
    if "comparisons" in keys:
        return "comparison-json"
    tool = recognition.recognise_tool(file, TOOLS.values())
    if tool is not None:
        return tool
    meant = {nearest_name(key, ("comparisons", "results")) for key in keys}
    if "comparisons" in meant or not file.is_json:
        return "comparison-json"
    if keys.keys() == {"results"}:
        return "run-json"
    raise recognition.unknown_content(file, TOOLS.values(), "JSON")
