"""Tests of many brokers on one bucket: real processes, a real S3 server, a real PostgreSQL.

  store, database   for the run: RadosGW and PostgreSQL
  shaky_database    a PostgreSQL that tests may stop
  fleet             a factory: fleet(3, racks="abc", settings...) -> a started Fleet of its own
  trio              three brokers in the zones a, b, c, shared by tests that harm nobody
  topic             a name that no other test uses
"""
import itertools
import signal
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CONFORM = HERE.parent / "conform"
for folder in (CONFORM, CONFORM / "kafka", CONFORM / "iceberg", HERE.parent / "crash", HERE):
    sys.path.insert(0, str(folder))

from agree import agreed  # noqa: E402
from brokers import Fleet  # noqa: E402
from harness import services  # noqa: E402

_topics = itertools.count(1)


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="the long tests too")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: only with --all")
    # A run that is told to end (a time limit) ends what it started, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(config, items):
    if config.getoption("--all"):
        return
    dropped = [i for i in items if i.get_closest_marker("long")]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [i for i in items if i not in dropped]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.failed_call = outcome.get_result().failed


@pytest.fixture(scope="session")
def store():
    s = services.RadosGW()
    yield s
    s.stop()


@pytest.fixture(scope="session")
def database():
    d = services.PostgreSQL()
    yield d
    d.stop()


@pytest.fixture(scope="module")
def shaky_database():
    d = services.PostgreSQL()
    yield d
    d.stop()


def show_logs(f):
    for b in f.brokers:
        print(f"---- broker {b.number}, {b.log_path}\n{b.tail(4000)}")


@pytest.fixture
def fleet(store, database, request):
    made = []

    def make(count=3, racks="", settings=None, start=True, on=database, **kw):
        f = Fleet(store, on, settings, kw)
        made.append(f)
        for i in range(count):
            f.add(i + 1, racks[i] if racks else "")
        return agreed(f.start()) if start else f

    yield make
    errors = []
    for f in made:
        if not f.database.running:
            f.database.restart()
        if getattr(request.node, "failed_call", False):
            show_logs(f)
        try:
            f.stop()
        except AssertionError as e:
            errors.append(str(e))
        f.remove()
    assert not errors, "\n".join(errors)


@pytest.fixture(scope="session")
def shared_trio(store, database):
    f = Fleet(store, database)
    for i in range(3):
        f.add(i + 1, "abc"[i])
    try:
        yield agreed(f.start())
        f.stop()
    finally:
        for b in f.brokers:
            b.kill()
        f.remove()


@pytest.fixture
def trio(shared_trio, request):
    """A crash is reported once, by the test that caused it; the others get a new broker."""
    yield shared_trio
    if getattr(request.node, "failed_call", False):
        show_logs(shared_trio)
    ended = [b for b in shared_trio.brokers if not b.alive()]
    for b in ended:
        code = b.process.returncode if b.process else None
        b.kill()
        b.start()
        pytest.fail(f"broker {b.number} ended with {code} during this test\n{b.tail()}")


@pytest.fixture
def topic(request):
    stem = "".join(c if c.isalnum() else "-" for c in request.node.name)[:60]
    return f"{stem}-{next(_topics)}"
