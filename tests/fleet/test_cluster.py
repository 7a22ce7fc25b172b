"""./dev cluster: what it prints can be pasted, and what it started is ended."""
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cluster

PROGRAM = Path(cluster.__file__)


def paste(text):
    r = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True,
                       timeout=120)
    assert r.returncode == 0, (text, r.stdout, r.stderr)
    return r.stdout


def check(said):
    produce, leaders, pyiceberg, duckdb, brokers = said
    assert {f'{{"broker":{n}}}' for n in (1, 2, 3)} <= set(re.findall(r"\{.*\}", produce))
    assert set(re.findall(r"leader (\d+)", leaders)) == {"2"}
    assert re.search(r"3 brokers", leaders)
    assert '"broker":3' in pyiceberg.replace(" ", "") or "7B2262726F6B6572223A337D" in pyiceberg
    assert "count_star()" in duckdb
    assert "(3 rows)" in brokers


def test_what_is_printed_can_be_pasted(trio):
    check([paste(text) for _, text in cluster.snippets(trio, sys.executable)])


@pytest.mark.long
def test_it_ends_what_it_started():
    process = subprocess.Popen([sys.executable, PROGRAM], stdout=subprocess.PIPE, text=True)
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Ctrl-C"):
                break
        text = "".join(lines)
        assert "Ctrl-C" in text, text
        pids = [int(p) for p in re.findall(r"process (\d+)", text)]
        assert len(pids) == 3
        parts = re.split(r"\n# .*\n", text)[1:]
        check([paste(p) for p in parts[:5]])
        paste(parts[5].split("\n")[0])              # kill -9
        deadline = time.monotonic() + 10
        while "Start it again" not in process.stdout.readline():
            assert time.monotonic() < deadline
    finally:
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(90) == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
