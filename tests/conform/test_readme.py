"""The README's commands work as they stand there, but for the ports of this test's server."""
import os
import re
import subprocess
import sys

import pytest

from harness import engines, paths
from harness.server import SANITIZER_ENV

pytestmark = pytest.mark.lakestream
README = (paths.ROOT / "README.md").read_text()


def blocks():
    """[(language, text)] of "Try it"."""
    part = README.split("\n## Try it\n")[1].split("\n## ")[0]
    return re.findall(r"^```(\w*)\n(.*?)^```$", part, re.M | re.S)


def here(text, server):
    return text.replace("127.0.0.1:9092", server.kafka).replace("127.0.0.1:8181", server.http)


def shell(line, server):
    """One line; our own program gets this server's address, as it would need none there."""
    line = here(line.split("   #")[0], server)
    if line.startswith("build/lakestream "):
        command = line.split()[1]
        where = {"table": f" --http {server.http}", "serve": ""}.get(
            command, f" --bootstrap {server.kafka}")
        line = str(paths.SERVER) + line.removeprefix("build/lakestream") + where
    r = subprocess.run(["bash", "-euo", "pipefail", "-c", line], capture_output=True, text=True,
                       timeout=120, env={**os.environ, **SANITIZER_ENV})
    assert r.returncode == 0, (line, r.stdout, r.stderr)
    return r.stdout


def python(text, server):
    r = subprocess.run([sys.executable, "-c", here(text, server)], capture_output=True, text=True,
                       timeout=120)
    assert r.returncode == 0, (text, r.stdout, r.stderr)
    return r.stdout


def sql(text, server):
    import duckdb
    con = duckdb.connect()
    for name in engines.EXTENSIONS:       # instead of a download
        con.execute(f"INSTALL '{engines.duckdb_extension(name)}'; LOAD {name}")
    statements = [s.strip() for s in here(text.split("-- DuckDB\n")[1], server).split(";")]
    for s in statements:
        if s and not s.startswith(("INSTALL", "LOAD")):
            result = con.execute(s)
    return list(zip(*result.to_arrow_table().columns[:2]))


def test_try_it(fresh):
    server = fresh({"num.partitions": 1})       # the default
    said = {}
    for language, text in blocks():
        if language == "python":
            assert "value" in python(text, server)
        elif language == "sql":
            assert [(p.as_py(), n.as_py()) for p, n in sql(text, server)] == [(0, 1)]
        else:
            for line in text.strip().splitlines():
                if line and not line.startswith(("./dev", "build/lakestream serve --data-dir")):
                    said[line.split("   #")[0].strip()] = shell(line, server)
    assert any("0 0 k1=hello" in out for out in said.values())
    assert any("equal: log and table hold the same records" in out for out in said.values())
    assert any("lakestream_" in out for out in said.values())
    assert len(said) >= 8


def test_links_are_files():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("http") or (paths.ROOT / link).exists(), link
