"""The harness itself: what a test stands on really stops and comes back."""
import socket
import subprocess
import time

import pytest

from harness.services import PostgreSQL, RadosGW, free_run


def test_the_store_pauses_and_comes_back(store):
    assert store.objects("nothing-there") == {}
    store.pause()
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(["curl", "-s", store.endpoint], timeout=1, capture_output=True)
    finally:
        store.resume()
    assert store.objects("nothing-there") == {}


def test_the_database_halts_and_comes_back(shaky_database):
    database = shaky_database
    database.sql("CREATE TABLE IF NOT EXISTS harness (x int); DELETE FROM harness;"
                 " INSERT INTO harness VALUES (7)")
    database.halt()
    try:
        with pytest.raises(AssertionError):
            database.sql("SELECT 1")
    finally:
        database.restart()
    assert database.sql("SELECT x, x + 1 FROM harness") == [["7", "8"]]
    database.restart()
    assert database.sql("SELECT count(*) FROM harness") == [["1"]]


@pytest.mark.parametrize("kind", [pytest.param(RadosGW, marks=pytest.mark.long), PostgreSQL])
def test_what_is_started_is_ended(kind):
    s = kind()
    socket.create_connection(("127.0.0.1", s.port), timeout=5).close()
    s.stop()
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", s.port), timeout=5).close()
        except ConnectionRefusedError:
            break
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.1)
    assert not s.dir.exists()


def test_free_ports_in_a_row():
    first = free_run(3)
    with socket.socket() as s:
        s.bind(("127.0.0.1", first + 1))
        assert not first <= free_run(3) <= first + 2
