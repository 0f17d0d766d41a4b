# schema.py - `schema.py SCHEMA <JSON`: check that it follows the schema, and that each of its members is described there.
# SPDX-License-Identifier: Apache-2.0
"""Knows the words of JSON Schema that this repository uses, and refuses others.

Exit status: 0 it does, 1 it does not; each fault is a line.
"""

import json
import sys

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
WORDS = {"$schema", "title", "description", "type", "required", "properties", "items",
         "additionalProperties", "const", "enum"}


def faults(schema, value, at="$"):
    """Sentences about what differs."""
    unknown = set(schema) - WORDS
    if unknown:
        yield f"{at}: this check does not know {', '.join(sorted(unknown))}"
    kinds = schema.get("type", list(TYPES) + ["number"])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(isinstance(value, TYPES.get(kind, (int, float))) for kind in kinds):
        yield f"{at}: {value!r} is none of {', '.join(kinds)}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name in schema.get("required", []):
            if name not in value:
                yield f"{at}: {name} is missing"
        for name, member in value.items():
            if name in known or others:
                yield from faults(known.get(name, others), member, f"{at}.{name}")
            else:
                yield f"{at}: {name} is not described"
    for i, member in enumerate(value if isinstance(value, list) else []):
        yield from faults(schema.get("items", {}), member, f"{at}[{i}]")


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        schema = json.load(f)
    found = list(faults(schema, json.load(sys.stdin)))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


sys.exit(main())
