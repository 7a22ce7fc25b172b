"""A query sees every record acknowledged before it asked, at once and under load."""
import random
import threading
import time

import pytest

from raw import Client, Record, batch
from tables import (T, avro, catalog, duck, fill, get, load, log_rows, manifests, metadata,
                    read_pyiceberg)

pytestmark = pytest.mark.lakestream


def count(server, topic):
    return load(server, topic).scan().count()


def test_one_record_is_in_the_very_next_query(server, topic):
    with Client(server.address) as c:
        c.create_topic(topic)
        for i in range(1, 21):
            c.produce(topic, batch([Record(b"%d" % i, timestamp=T)]))
            assert count(server, topic) == i


def test_duckdb_sees_it_in_the_next_attach_and_query(server, topic):
    with Client(server.address) as c:
        c.create_topic(topic)
        for i in range(1, 6):
            c.produce(topic, batch([Record(b"%d" % i, timestamp=T)]))
            con = duck(server)
            assert con.execute(f'SELECT count(*) FROM lake."default"."{topic}"').fetchone() == \
                (i,)
            con.close()


def count_duckdb(server):
    """A session that stays open, as a user's does: each query is a transaction of its own."""
    con = duck(server)
    return lambda s, topic: con.execute(
        f'SELECT count(*) FROM lake."default"."{topic}"').fetchone()[0]


@pytest.mark.parametrize("engine", ["pyiceberg", "duckdb"])
def test_fresh_while_others_produce(server, topic, engine):
    """Four producers; a query may not show fewer rows than were acknowledged when it began."""
    ask = count if engine == "pyiceberg" else count_duckdb(server)
    with Client(server.address) as c:
        c.create_topic(topic, 4)
        c.produce(topic, batch([Record(b"first", timestamp=T)]))
    acked, stop, lock, errors = [1], threading.Event(), threading.Lock(), []

    def produce(p):
        with Client(server.address) as c:
            while not stop.is_set():
                r = c.produce(topic, batch([Record(b"x" * 50, timestamp=T)] * 10), p)
                if r.ErrorCode:
                    errors.append(r)
                with lock:
                    acked[0] += 10
                time.sleep(0.002)

    threads = [threading.Thread(target=produce, args=(p,)) for p in range(4)]
    for t in threads:
        t.start()
    try:
        for _ in range(25):
            before = acked[0]
            seen = ask(server, topic)
            assert seen >= before
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not errors
    assert ask(server, topic) == acked[0]
    rows = read_pyiceberg(server, topic)
    assert len({r[:2] for r in rows}) == len(rows) == acked[0]


def test_many_concurrent_loads_share_a_commit(server, topic):
    with Client(server.address) as c:
        c.create_topic(topic)
        c.produce(topic, batch([Record(b"x", timestamp=T)]))
    counts = []
    threads = [threading.Thread(target=lambda: counts.append(count(server, topic)))
               for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert counts == [1] * 16
    assert len(metadata(server, topic)["snapshots"]) <= 2


def test_no_new_data_no_new_snapshot(server, topic):
    fill(server, topic)
    first = metadata(server, topic)
    for _ in range(30):
        load(server, topic)
    assert metadata(server, topic) == first


def test_etag(server, topic):
    fill(server, topic)
    path = f"main/namespaces/default/tables/{topic}"
    path = path if get(server, path)[0] == 200 else path.removeprefix("main/")
    status, headers, body = get(server, path)
    assert status == 200 and headers["ETag"]
    status, _, nothing = get(server, path, {"If-None-Match": headers["ETag"]})
    assert status == 304 and nothing is None
    with Client(server.address) as c:
        c.produce(topic, batch([Record(b"new", timestamp=T)]))
    status, again, body = get(server, path, {"If-None-Match": headers["ETag"]})
    assert status == 200 and again["ETag"] != headers["ETag"]


def test_two_streams_do_not_wait_for_each_other(server, topic):
    names = [f"{topic}-{i}" for i in range(5)]
    with Client(server.address) as c:
        for n in names:
            c.create_topic(n)
            c.produce(n, batch([Record(n.encode(), timestamp=T)]))
    cat = catalog(server)
    for n in names:
        assert [r[4] for r in read_pyiceberg(server, n)] == [n.encode()]
    assert {("default", n) for n in names} <= set(cat.list_tables("default"))


def produce_and_load_until_killed(server, topic, rng):
    """Records and loads as fast as they go; kill -9 somewhere in between."""
    killer = threading.Timer(rng.uniform(0.1, 0.7), server.kill)
    killer.start()
    try:
        with Client(server.address) as c:
            while True:
                for p in range(3):
                    c.produce(topic, batch([Record(b"x" * 100, timestamp=T)] * 20), p)
                load(server, topic)
    except Exception:
        if server.process is not None:      # it was not the kill
            killer.join()
            if server.process is not None:
                raise
    killer.join()


def test_b038_the_same_files_are_never_committed_twice(fresh, topic):
    """kill -9 while tables commit: no file stands twice in a table, no row either, none lacks."""
    s, rng = fresh(), random.Random(38)
    with Client(s.address) as c:
        c.create_topic(topic, 3)
    for _ in range(8):
        produce_and_load_until_killed(s, topic, rng)
        s.start()
        load(s, topic)
        meta = metadata(s, topic)
        here = [e["data_file"]["file_path"] for _, _, _, entries in manifests(meta)
                for e in entries if e["status"] != 2]
        assert len(here) == len(set(here))
    rows = read_pyiceberg(s, topic)
    assert len({r[:2] for r in rows}) == len(rows) > 0
    assert rows == log_rows(s, topic)
    added = set()
    for snapshot in meta["snapshots"]:
        for m in avro(snapshot["manifest-list"])[2]:
            for e in avro(m["manifest_path"])[2]:
                if e["status"] == 1:
                    added.add((e["data_file"]["file_path"], e["snapshot_id"]))
    paths = [path for path, _ in added]
    assert len(paths) == len(set(paths))        # each was added by one snapshot
