"""Crash, fault and recovery tests of a whole server: fixtures.

  started   a factory of servers that only this test uses: started(settings...) -> a server
  problems  a list; what is put there fails the test at its end, all of it shown
"""
import sys
from pathlib import Path

import pytest

CONFORM = Path(__file__).resolve().parents[1] / "conform"
for folder in (CONFORM, CONFORM / "kafka", CONFORM / "iceberg", Path(__file__).parent):
    sys.path.insert(0, str(folder))

from harness import server as servers  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="hundreds of kills instead of some")


@pytest.fixture
def started():
    made = []

    def make(settings=None, **kw):
        s = servers.Lakestream(settings, **kw)
        made.append(s)
        return s.start()

    yield make
    for s in made:
        try:
            s.stop()
        finally:
            s.kill()
        s.remove()
