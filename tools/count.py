#!/usr/bin/env python3
"""Counts test results from what the runners wrote.

  count.py meson FILE GROUP   meson's testlog.json (a JSON object a line)
  count.py junit FILE GROUP   pytest's junit xml
      print "GROUP PASSED FAILED SKIPPED"; a missing or empty file is one failure, never a pass.
  count.py sum FILE           add such lines up; print a table and, as the last line,
                              "N passed, N failed, N skipped"; exit 1 on any failure.
"""
import json
import os
import sys
import xml.etree.ElementTree as ET

MESON_PASSED = {"OK", "EXPECTEDFAIL"}


def count_meson(path):
    passed = failed = skipped = 0
    with open(path) as f:
        for line in f:
            result = json.loads(line)["result"]
            if result in MESON_PASSED:
                passed += 1
            elif result == "SKIP":
                skipped += 1
            else:
                failed += 1
    return passed, failed, skipped


def count_junit(path):
    passed = failed = skipped = 0
    for case in ET.parse(path).getroot().iter("testcase"):
        tags = {child.tag for child in case}
        if "failure" in tags or "error" in tags:
            failed += 1
        elif "skipped" in tags:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count_file(count, path):
    try:
        counts = count(path)
    except (OSError, ValueError, ET.ParseError) as e:
        print(f"no results: {e}", file=sys.stderr)
        return 0, 1, 0
    return counts if any(counts) else (0, 1, 0)


def sum_up(path):
    groups = {}
    with open(path) as f:
        for line in f:
            name, *counts = line.split()
            total = groups.setdefault(name, [0, 0, 0])
            for i, c in enumerate(counts):
                total[i] += int(c)
    for name, (passed, failed, skipped) in groups.items():
        print(f"{name:12} {passed:5} passed {failed:5} failed {skipped:5} skipped")
    passed, failed, skipped = (sum(g[i] for g in groups.values()) for i in range(3))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


def main():
    what, path = sys.argv[1:3]
    if what == "sum":
        sys.exit(sum_up(path))
    counts = count_file({"meson": count_meson, "junit": count_junit}[what], path)
    print(os.path.basename(sys.argv[3]), *counts)


main()
