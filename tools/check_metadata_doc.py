#!/usr/bin/env python3
"""Compares the tables and columns of docs/formats/metadata.md with those of both schema.c.

A column stands in the first cell of a row below the line that begins with its table's name; one
cell may name several.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def of_schema(database):
    """table -> columns, from the CREATE TABLE texts."""
    text = (ROOT / f"src/meta/{database}/schema.c").read_text()
    for name, value in re.findall(r'#define (\w+)\s+(".*")', text):
        text = re.sub(rf"(?<!define )\b{name}\b", lambda _: value.replace('\\"', ""), text)
    # Adjacent literals are one text; a comma ends it.
    sql = re.sub(r'"\s*"', "", text)
    tables = {}
    for name, body in re.findall(r'"CREATE TABLE (\w+) \((.*?)\)'
                                 r'(?: WITHOUT ROWID| WITH \(fillfactor = \d+\))?",', sql):
        columns = re.findall(r"(?:^|,) *(\w+) (?:INTEGER|TEXT|BLOB|bigint|text|bytea)", body)
        tables[name] = set(columns)
    return tables


def of_page():
    """table -> columns, from the page's section "Tables"."""
    text = (ROOT / "docs/formats/metadata.md").read_text()
    section = text.split("## Tables\n", 1)[1].split("\n## ", 1)[0]
    tables, columns = {}, None
    for line in section.splitlines():
        head = re.match(r"`(\w+)`:", line)
        if head:
            columns = tables.setdefault(head.group(1), set())
        elif line.startswith("| `") and columns is not None:
            columns.update(re.findall(r"`(\w+)`", line.split("|")[1]))
    return tables


def differences(schema, page, database):
    yield from (f"{t}: not in the page" for t in schema.keys() - page.keys())
    yield from (f"{t}: not in the schema of {database}" for t in page.keys() - schema.keys())
    for table in schema.keys() & page.keys():
        yield from (f"{table}.{c}: not in the page" for c in schema[table] - page[table])
        yield from (f"{table}.{c}: not in the schema of {database}"
                    for c in page[table] - schema[table])


def main():
    page, problems = of_page(), []
    for database in ("sqlite", "postgres"):
        problems += differences(of_schema(database), page, database)
    for problem in sorted(set(problems)):
        print(problem)
    print(f"metadata page: {len(page)} tables, {len(problems)} problems")
    return 1 if problems or not page else 0


if __name__ == "__main__":
    sys.exit(main())
