"""Fixtures for all conformance tests.

  server   one shared server for the whole run (each test uses topics of its own)
  fresh    a factory of servers that only this test uses: fresh(settings...) -> a started server
  topic    a topic name that no other test uses
  peer     "lakestream" or "kafka" (pytest --peer kafka runs the same tests against the real one)
"""
import itertools
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "kafka"))

from harness import server as servers  # noqa: E402

# A short wait of an empty group for more members: it only costs time here. test_groups.py tries
# the default.
# Records have times of years ago: nothing may leave the log by age while a long run goes on.
SHARED_SETTINGS = {"num.partitions": 4, "group.initial.rebalance.delay.ms": 300,
                   "log.retention.ms": -1}
_topics = itertools.count(1)


def pytest_addoption(parser):
    parser.addoption("--peer", default="lakestream", choices=["lakestream", "kafka"],
                     help="which server the tests judge")
    parser.addoption("--all", action="store_true", help="the long tests too")


def pytest_configure(config):
    config.addinivalue_line("markers", "lakestream: holds for Lakestream only, not for Kafka")
    config.addinivalue_line("markers", "long: only with --all")


def pytest_collection_modifyitems(config, items):
    kept, dropped = [], []
    for item in items:
        ours_only = item.get_closest_marker("lakestream")
        if ours_only and config.getoption("--peer") != "lakestream":
            dropped.append(item)
        elif item.get_closest_marker("long") and not config.getoption("--all"):
            dropped.append(item)
        else:
            kept.append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


@pytest.fixture(scope="session")
def peer(request):
    return request.config.getoption("--peer")


@pytest.fixture(scope="session")
def server(peer):
    s = servers.new_server(peer, SHARED_SETTINGS).start()
    yield s
    try:
        s.stop()
    except BaseException:
        print(f"data: {s.data_dir} log: {s.log_path}", file=sys.stderr)
        raise
    s.remove()


@pytest.fixture(autouse=True)
def _server_stays_up(request):
    """A crash is reported once, by the test that caused it; the others then get a new server."""
    yield
    if "server" not in request.fixturenames:
        return
    s = request.getfixturevalue("server")
    if not s.alive():
        code, tail = s.process.returncode, s.tail()
        s.kill()
        s.start()
        pytest.fail(f"the server ended with {code} during this test\n{tail}")


@pytest.fixture
def fresh(peer):
    started = []

    def make(settings=None, **kw):
        s = servers.new_server(peer, {**SHARED_SETTINGS, **(settings or {})}, **kw)
        started.append(s)
        return s.start()

    yield make
    errors = []
    for s in started:
        try:
            s.stop()
            s.remove()
        except servers.ServerError as e:
            errors.append(str(e))
    assert not errors, "\n".join(errors)


@pytest.fixture
def topic(request):
    return topic_name(request.node.name)


def topic_name(stem):
    stem = "".join(c if c.isalnum() else "-" for c in stem)[:60]
    return f"{stem}-{os.getpid()}-{next(_topics)}"


@pytest.fixture
def bootstrap(server):
    return server.bootstrap
