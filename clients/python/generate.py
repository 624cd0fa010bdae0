"""Write the client's types of requests and answers from the endpoints of the server.

    uv run python clients/python/generate.py [FILE]

Run it after a change of an endpoint. FILE is by default ``perfjudge_client/schemas.py``, which is committed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from serving.plugins import Endpoint, all_endpoints

SCHEMAS = Path(__file__).parent / "src/perfjudge_client/schemas.py"
HEADER = '"""Requests and answers of the server. Written by clients/python/generate.py: do not edit."""'
OPTIONS = (
    "--input-file-type=openapi",
    "--output-model-type=msgspec.Struct",
    "--target-python-version=3.11",
    "--use-standard-collections",
    "--use-union-operator",
    "--enum-field-as-literal=all",
    "--keyword-only",
    "--use-schema-description",
    "--use-single-line-docstring",
    "--use-default",
    "--strict-nullable",
    "--no-formatters",
    "--disable-timestamp",
    f"--custom-file-header={HEADER}",
    # labels, even an empty list of them, would make the server read a request slowly
    '--extra-template-data={"#all#": {"base_class_kwargs": {"omit_defaults": true}}}',
)
#: Keywords of JSON Schema that restrict values or only describe them: the server checks its requests.
_LEFT_OUT = {
    "examples", "exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maxProperties", "maximum",
    "minItems", "minLength", "minProperties", "minimum", "not", "oneOf", "pattern", "propertyNames",
}  # fmt: skip


def openapi_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return an OpenAPI document with the schemas of all requests and answers; its ``paths`` are empty."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = []
    for endpoint in endpoints:
        models += [(endpoint.request, "validation"), (endpoint.answer, "serialization")]
    _, schemas = models_json_schema(models, ref_template="#/components/schemas/{model}")
    return {
        "openapi": "3.1.0",
        "info": {"title": "perfjudge", "version": "1"},
        "paths": {},
        "components": {"schemas": without_limits(schemas["$defs"])},
    }


def without_limits(schema: Any) -> Any:
    """Return a copy of a JSON Schema without limits, in which keys with a default are also required.

    Titles and keywords that only restrict or describe values, such as ``maximum``, ``pattern`` and
    ``examples``, are removed; properties with such names stay. A field of a generated type has its default
    only if the key is required. A part that is neither a dict nor a list is returned unchanged.
    """
    if isinstance(schema, list):
        return [without_limits(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {
        # the keys of properties are names of fields, not keywords
        key: {name: without_limits(field) for name, field in part.items()}
        if key == "properties"
        else without_limits(part)
        for key, part in schema.items()
        if key not in _LEFT_OUT and not (key == "title" and isinstance(part, str))
    }
    if isinstance(properties := copy.get("properties"), dict):
        defaults = [key for key, part in properties.items() if "default" in part]
        copy["required"] = [*copy.get("required", []), *defaults]
    return copy


def limits(endpoints: Sequence[Endpoint]) -> str:
    """Return Python code that assigns the limits of requests to ``MAX_BYTES`` and ``MAX_ITEMS``.

    ``MAX_BYTES`` maps each path to the largest number of bytes of a body, ``MAX_ITEMS`` maps (path, key) to
    the largest number of items of a list. Only top-level lists with a limit are in it.
    """
    max_bytes = {endpoint.path: endpoint.limit for endpoint in endpoints}
    max_items = {
        (endpoint.path, key): schema["maxItems"]
        for endpoint in endpoints
        for key, schema in endpoint.request.model_json_schema()["properties"].items()
        if "maxItems" in schema
    }
    return (
        f"\n\n#: Maximum number of bytes of a body, by path.\nMAX_BYTES = {max_bytes}\n"
        f"#: Maximum number of items of a list, by path and key.\nMAX_ITEMS = {max_items}\n"
    )


def generate(file: Path) -> None:
    """Overwrite `file` with code: types and limits of all endpoints; CalledProcessError if a tool fails."""
    endpoints = list(all_endpoints())
    subprocess.run(
        [sys.executable, "-m", "datamodel_code_generator", *OPTIONS, f"--output={file}"],
        input=json.dumps(openapi_document(endpoints)),
        text=True,
        check=True,
    )
    with file.open("a", encoding="utf-8") as opened:
        opened.write(limits(endpoints))
    for command in (["check", "--select", "I", "--fix"], ["format"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, "--quiet", file], check=True)


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else SCHEMAS)
