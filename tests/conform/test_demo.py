"""The demo itself: what it prints is true, what it tells a user to paste works, it cleans up."""
import os
import re
import signal
import subprocess
import sys
import tempfile

import pytest

from harness import engines, paths, server as servers

DEMO = paths.ROOT / "tools" / "demo.py"
pytestmark = pytest.mark.lakestream


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="demo-test-") as path:
        yield path


def demo(folder, *args, env=None):
    environment = {**os.environ, **servers.SANITIZER_ENV, "TMPDIR": folder, **(env or {})}
    return subprocess.run([sys.executable, str(DEMO), *args], capture_output=True, text=True,
                          timeout=300, env=environment)


def paste(text):
    r = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True,
                       timeout=120)
    assert r.returncode == 0, (text, r.stdout, r.stderr)
    return r.stdout


def blocks(text):
    """{title: text} of what --keep prints to be pasted."""
    text = text.split("To paste:")[1]
    return dict(b.strip().split("\n", 1) for b in text.strip().split("\n\n") if "\n" in b.strip())


def test_it_runs_and_cleans_up(folder):
    r = demo(folder, "--records", "5000")
    assert r.returncode == 0, (r.stdout, r.stderr)
    assert re.search(r"rows in the table +5,000\n", r.stdout)
    assert re.search(r"rows in the table +5,001\n", r.stdout)
    assert re.search(r"last ack to answer +\S+ m?s", r.stdout)
    assert "\033[" not in r.stdout          # no colours in a file
    assert os.listdir(folder) == []


def test_kept_server_and_pasted_commands(folder):
    r = demo(folder, "--records", "1000", "--keep")
    assert r.returncode == 0, (r.stdout, r.stderr)
    pid = int(re.search(r"kill (\d+);", r.stdout)[1])
    try:
        found = blocks(r.stdout)
        title = {t.split(":")[0].split(" (")[0]: t for t in found}
        assert set(title) == {"kcat", "DuckDB", "PyIceberg", "Spark",
                              "Stop it and delete its data"}
        assert paste(found[title["kcat"]]).count("\n") >= 10
        assert "1002" in re.sub(r"\D", " ", str(sum(
            int(n) for n in re.findall(r"│ +\d+ │ +(\d+) │", paste(found[title["DuckDB"]])))))
        assert "'__partition': 0" in paste(found[title["PyIceberg"]])
        for setting, value in engines.spark_settings("http").items():
            assert setting in found[title["Spark"]] and value in found[title["Spark"]]
        paste(found[title["Stop it and delete its data"]])
        assert not alive(pid) and os.listdir(folder) == []
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0] != "Z"


def test_a_failure_says_what_and_cleans_up(folder):
    """The server does not start: its own words are shown, the exit code is 1."""
    r = demo(folder, env={"LAKESTREAM_WAL_SYNC": "sometimes"})
    assert r.returncode == 1
    assert "The demo failed" in r.stderr and "sometimes" in r.stderr
    assert "Traceback" not in r.stderr
    assert os.listdir(folder) == []


def test_a_missing_client_is_named(folder):
    r = demo(folder, "--records", "10", env={"PATH": folder})
    assert r.returncode == 1 and "kcat" in r.stderr
    assert "Traceback" not in r.stderr and os.listdir(folder) == []
