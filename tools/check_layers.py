#!/usr/bin/env python3
"""Checks that a file includes only its own folder and folders of lower levels (src/LAYERS).

Also: a header that ends in _int.h stays in its folder, and a server sees nothing between stream/
and the operating system that stream/ is there to hide.
"""
import re
import sys

from source import ROOT, c_files, relative, report, without_comments

SRC = ROOT / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
HIDDEN_FROM_SERVERS = {"wal", "lake", "meta", "store"}


def read_layers():
    levels, allowed = {}, set()
    for line in (SRC / "LAYERS").read_text().splitlines():
        words = line.split("#")[0].split()
        if len(words) == 3 and words[0] == "allow":
            allowed.add((words[1], words[2]))
        elif len(words) == 2:
            levels[words[1]] = int(words[0])
    return levels, allowed


def folder_of(path, levels):
    """The listed folder that a path (below src/) lies in: the longest one."""
    found = [f for f in levels if path.startswith(f + "/")]
    return max(found, key=len, default=None)


def check(path, levels, allowed):
    name = str(path.relative_to(SRC))
    own = folder_of(name, levels)
    if own is None:
        yield f"src/{name}: its folder is not in src/LAYERS"
        return
    text = without_comments(path.read_text(), strings=False)
    for m in INCLUDE.finditer(text):
        header, line = m.group(1), text.count("\n", 0, m.start()) + 1
        other = folder_of(header, levels)
        if other is None:
            if not (path.parent / header).exists() and "/" in header:
                yield f"src/{name}:{line}: no such folder in src/LAYERS: {header}"
            continue
        where = f"src/{name}:{line}: {header}"
        if other == own:
            continue
        if header.endswith("_int.h"):
            yield f"{where} is for {other}/ only"
        if levels[other] >= levels[own] and (own, other) not in allowed:
            yield f"{where}: {own} (level {levels[own]}) must not include {other}" \
                  f" (level {levels[other]})"
        if own.startswith("servers/") and other in HIDDEN_FROM_SERVERS and \
                not name.endswith("_test.c"):
            yield f"{where}: a server sees stream/, not {other}/"


def main():
    levels, allowed = read_layers()
    return report([p for f in c_files() for p in check(f, levels, allowed)], "layers")


if __name__ == "__main__":
    assert relative(SRC)
    sys.exit(main())
