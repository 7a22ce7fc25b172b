#!/usr/bin/env python3
"""Measures the C code against the style's sizes. Over a hard limit is a problem; the rest is told.

Hard: 100 lines a function (a flat table or switch whose head comment says "flat" may be longer),
1,500 lines a file, 100 columns, each exported function documented in its header.
"""
import re
import sys

from source import c_files, relative, report, without_comments

FUNCTION_LINES_MAX, FILE_LINES_MAX, COLUMNS_MAX = 100, 1500, 100
NAME = re.compile(r"^(?:[\w\s*]*?\b)?(\w+)\(", re.M)
DECLARED = re.compile(r"^(?!typedef|static|extern \"C\"|struct \w+ \{)[\w][\w\s*]*?\b(ls_\w+)\(",
                      re.M)


def functions(text):
    """(name, first line, lines) of each function whose braces stand in column 0."""
    lines, start = text.splitlines(), None
    for i, line in enumerate(lines):
        if line.startswith("{"):
            start = i
        elif line.startswith("}") and start is not None:
            head = next((j for j in range(start - 1, max(-1, start - 12), -1)
                         if re.match(r"^\w+\(", lines[j])), start)
            name = lines[head].split("(")[0]
            yield name, head + 1, i - start + 1
            start = None


def flat(raw_lines, line):
    """Whether the comment before a function says that it is flat."""
    for text in reversed(raw_lines[max(0, line - 12):line - 1]):
        if text.strip() in ("", "}"):
            return False
        if "flat" in text.lower() and ("*" in text):
            return True
    return False


def undocumented(text):
    """Exported functions of a header without a comment on them or on the group they stand in."""
    documented = False
    for block in re.split(r"\n\s*\n", text):
        declared = DECLARED.findall(without_comments(block))
        if declared and "/*" not in block:
            yield from declared
        documented = documented or bool(declared)


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))] if values else 0


def main():
    problems, sizes, files = [], [], []
    source_lines = test_lines = comment_lines = 0
    for path in c_files():
        raw, name = path.read_text(), relative(path)
        lines = raw.splitlines()
        if len(lines) > FILE_LINES_MAX:
            problems.append(f"{name}: {len(lines)} lines")
        problems += [f"{name}:{i}: {len(line)} columns" for i, line in enumerate(lines, 1)
                     if len(line) > COLUMNS_MAX]
        if path.suffix == ".h":
            problems += [f"{name}: {f}() is not documented" for f in undocumented(raw)]
            continue
        code = without_comments(raw)
        for function, line, size in functions(code):
            if size > FUNCTION_LINES_MAX and not flat(lines, line):
                problems.append(f"{name}:{line}: {function}() has {size} lines")
            sizes.append(size)
        if name.name.endswith("_test.c"):
            test_lines += len(lines)
        else:
            source_lines += len(lines)
            files.append(len(lines))
            comment_lines += sum(1 for a, b in zip(lines, without_comments(raw, False).splitlines())
                                 if a.strip() and not b.strip())
    print(f"functions {len(sizes)}: median {percentile(sizes, 50)}, p95 {percentile(sizes, 95)}, "
          f"longest {max(sizes, default=0)} lines")
    print(f"files {len(files)}: median {percentile(files, 50)}, longest {max(files, default=0)}; "
          f"comment lines {100 * comment_lines // max(1, source_lines)} %; "
          f"test lines per source line {test_lines / max(1, source_lines):.2f}")
    return report(problems, "sizes")


if __name__ == "__main__":
    sys.exit(main())
