"""Programs that measure libraries: documents, patterns, checksums, compression, caches."""

import random


def _records(size):
    return [{"id": i, "name": f"row {i}", "values": [i, i / 7, None, True]} for i in range(size)]


def _text(size):
    lines = (
        f"2026-05-{i % 28 + 1:02d} host{i * i % 97} took {i * 7} ms for /page/{i % 31}\n" for i in range(size)
    )
    return "".join(lines)


def json_text(size=60, indent=0, ascii=1, sort=0):  # noqa: A002
    """Return a function that writes `size` records by `json.dumps` and reads them back."""
    import json

    document = _records(size)

    def unit():
        text = json.dumps(document, indent=indent or None, ensure_ascii=bool(ascii), sort_keys=bool(sort))
        return json.loads(text)

    return unit


def pickling(size=200, protocol=4):
    """Return a function that pickles `size` records and reads them back."""
    import pickle

    document = _records(size)
    return lambda: pickle.loads(pickle.dumps(document, protocol=protocol))


def csv_text(size=200, quoting=0):
    """Return a function that writes `size` rows of CSV and reads them back."""
    import csv
    import io

    rows = [[i, f"name {i}", i / 7] for i in range(size)]

    def unit():
        buffer = io.StringIO()
        csv.writer(buffer, quoting=quoting).writerows(rows)
        buffer.seek(0)
        return list(csv.reader(buffer))

    return unit


def xml_text(size=80, pure=0):
    """Return a function that parses XML with `size` rows; if `pure`, in Python instead of C."""
    import sys

    if pure:
        sys.modules["_elementtree"] = None
    import xml.etree.ElementTree as ET

    root = ET.Element("rows")
    for i in range(size):
        ET.SubElement(root, "row", id=str(i)).text = f"text {i}"
    text = ET.tostring(root)
    return lambda: [row.get("id") for row in ET.fromstring(text).iter("row")]


def regex(size=150, how="tight"):
    """Return a function that finds entries in a log of `size` lines by one of three patterns (`how`)."""
    import re

    patterns = {
        "tight": r"(\d{4})-(\d{2})-(\d{2}) (\w+) took (\d+) ms",
        "lazy": r"(\d+?)-(\d+?)-(\d+?) (.*?) took (.*?) ms",
        "caseless": r"(?i)(\d{4})-(\d{2})-(\d{2}) (\w+) TOOK (\d+) ms",
    }
    text, pattern = _text(size), re.compile(patterns[how])
    return lambda: pattern.findall(text)


def hashing(name="sha256", size=65536):
    """Return a function that digests `size` zero bytes by `hashlib`'s function `name`."""
    import hashlib

    block, new = bytes(size), getattr(hashlib, name)
    return lambda: new(block).digest()


def deflate(level=6, size=150, strategy=0):
    """Return a function that compresses `size` lines by zlib."""
    import zlib

    plain = _text(size).encode()

    def unit():
        packer = zlib.compressobj(level, zlib.DEFLATED, 15, 8, strategy)
        return packer.compress(plain) + packer.flush()

    return unit


def inflate(level=6, size=600):
    """Return a function that decompresses `size` lines by zlib."""
    import zlib

    packed = zlib.compress(_text(size).encode(), level)
    return lambda: zlib.decompress(packed)


def bzip(level=9, size=200):
    """Return a function that compresses `size` lines by bz2."""
    import bz2

    plain = _text(size).encode()
    return lambda: bz2.compress(plain, level)


def lzma_text(preset=1, size=150, check=-1):
    """Return a function that compresses `size` lines by lzma."""
    import lzma

    plain = _text(size).encode()
    return lambda: lzma.compress(plain, preset=preset, check=check)


def caching(maxsize=512, keys=400, cost=60):
    """Return a function that calls a cached sum of about `cost` numbers 1500 times with `keys` arguments."""
    from functools import lru_cache

    @lru_cache(maxsize)
    def slow(key):
        return sum(range(key % 7, cost))

    drawn = random.Random(2)
    calls = [drawn.randrange(keys) for _ in range(1500)]
    return lambda: [slow(key) for key in calls]


def heap(size=600, how="heap"):
    """Return a function that sorts `size` numbers by a heap, or by insertion."""
    import heapq
    from bisect import insort

    numbers = random.Random(1).sample(range(10**6), size)

    def by_heap():
        entries = []
        for number in numbers:
            heapq.heappush(entries, number)
        return [heapq.heappop(entries) for _ in numbers]

    def by_insertion():
        entries = []
        for number in numbers:
            insort(entries, number)
        return entries

    return by_heap if how == "heap" else by_insertion


def queue(size=2000, how="deque"):
    """Return a function that puts `size` numbers in a deque, or a list, and takes them out."""
    from collections import deque

    def by_deque():
        waiting = deque(range(size))
        while waiting:
            waiting.popleft()

    def by_list():
        waiting = list(range(size))
        while waiting:
            waiting.pop(0)

    return by_deque if how == "deque" else by_list


def decimals(size=150, precision=28):
    """Return a function that adds up `size` - 1 decimal fractions with `precision` digits."""
    from decimal import Decimal, getcontext

    getcontext().prec = precision
    numbers = [Decimal(i) / Decimal(7) for i in range(1, size)]
    return lambda: sum(number * number / (number + 1) for number in numbers)


def dates(size=150, how="iso"):
    """Return a function that reads `size` dates, by `strptime` unless `how` is "iso", and writes them."""
    from datetime import datetime

    texts = [f"2026-05-{i % 28 + 1:02d}T{i % 24:02d}:30:00" for i in range(size)]
    read = (
        datetime.fromisoformat if how == "iso" else lambda text: datetime.strptime(text, "%Y-%m-%dT%H:%M:%S")
    )
    return lambda: [read(text).isoformat() for text in texts]


def compiling(size=40, optimize=0):
    """Return a function that compiles `size` Python functions to bytecode."""
    source = "".join(
        f"def f{i}(x, y={i}):\n    z = [x * y for x in range(y)]\n    return z or x + {i}\n"
        for i in range(size)
    )
    return lambda: compile(source, "made", "exec", optimize=optimize)


def zstd(level=3, size=800):
    """Return a function that compresses `size` lines by Zstandard."""
    import zstandard

    plain, packer = _text(size).encode(), zstandard.ZstdCompressor(level=level)
    return lambda: packer.compress(plain)


def orjson_text(size=200, sort=0):
    """Return a function that writes `size` records by orjson and reads them back."""
    import orjson

    document = _records(size)
    return lambda: orjson.loads(orjson.dumps(document, option=orjson.OPT_SORT_KEYS if sort else 0))


def lxml_text(size=150, how="xpath"):
    """Return a function that parses XML with `size` rows by lxml and finds rows, by XPath or iteration."""
    from lxml import etree

    text = ("<rows>" + "".join(f'<row id="{i}"><v>{i}</v></row>' for i in range(size)) + "</rows>").encode()
    if how == "xpath":
        return lambda: etree.fromstring(text).xpath("//row[v > 20]")
    return lambda: list(etree.fromstring(text).iter("row"))


def template(size=100, how="jinja"):
    """Return a function that fills a Jinja template with `size` rows."""
    import jinja2

    environment = jinja2.Environment(autoescape=how == "escaped")
    page = environment.from_string("{% for row in rows %}<li>{{ row.name }} {{ row.id }}</li>{% endfor %}")
    rows = _records(size)
    return lambda: page.render(rows=rows)
