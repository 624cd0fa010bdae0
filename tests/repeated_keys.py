"""JSON in which one key appears twice."""

import json


def objects_of(value):
    """Return the objects in a value of JSON that have a key, from the outside to the inside."""
    if isinstance(value, list):
        return [one for part in value for one in objects_of(part)]
    if not isinstance(value, dict):
        return []
    return ([value] if value else []) + [one for part in value.values() for one in objects_of(part)]


def with_repeated_key(value, chosen, key, other, *, escaped=True):
    """Return JSON in which the object `chosen` of `value` has `key` twice, first with the value `other`.

    escaped : whether every character of the first of both is escaped.
    """
    if isinstance(value, list):
        parts = (with_repeated_key(one, chosen, key, other, escaped=escaped) for one in value)
        return f"[{', '.join(parts)}]"
    if not isinstance(value, dict):
        return json.dumps(value)
    members = [
        f"{json.dumps(name)}: {with_repeated_key(one, chosen, key, other, escaped=escaped)}"
        for name, one in value.items()
    ]
    if value is chosen:
        units = key.encode("utf-16-be", "surrogatepass").hex()
        spelled = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
        name = f'"{spelled}"' if escaped else json.dumps(key, ensure_ascii=False)
        members.insert(0, f"{name}: {json.dumps(other)}")
    return f"{{{', '.join(members)}}}"
