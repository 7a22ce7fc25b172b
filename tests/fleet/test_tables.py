"""One table, whoever is asked: each load has what any broker acknowledged before it."""
import threading
import time
import urllib.error
import urllib.request

import pytest

import reading
from brokers import log_of, until
from raw import Client, Record, batch

T = 1_700_000_000_000
BUSY = {"table.commit.interval.ms": 150, "table.upkeep.interval.ms": 200,
        "wal.delete.delay.ms": 300, "table.orphan.age.ms": 1000}


@pytest.fixture
def clients(trio):
    made = [Client(b.address) for b in trio.brokers]
    yield made
    for c in made:
        c.close()


def rec(text):
    return Record(text, timestamp=T)


def test_a_load_has_what_another_broker_acknowledged(trio, clients, topic):
    clients[0].create_topic(topic)
    for i in range(12):
        assert clients[i % 3].produce(topic, batch([rec(b"%d" % i)])).ErrorCode == 0
        for b in (trio[1 + (i + 1) % 3],) if i % 3 else trio.brokers:
            found = reading.rows_pyiceberg(b, topic)
            assert sorted(found) == [(0, n, b"%d" % n) for n in range(i + 1)], (i, b.number)


def test_a_new_table_is_there_for_all_at_once(trio, clients, topic):
    for i in range(6):
        name = f"{topic}-{i}"
        clients[i % 3].create_topic(name)
        assert reading.load(trio[1 + (i + 1) % 3], name).scan().count() == 0
        clients[(i + 1) % 3].delete_topic(name)
        url = (f"{trio[1 + (i + 2) % 3].catalog_uri}/v1/main/namespaces/default/tables/{name}")
        with pytest.raises(urllib.error.HTTPError) as e:
            urllib.request.urlopen(url, timeout=30)
        assert e.value.code == 404


def test_duckdb_reads_through_any_broker(trio, clients, store, topic):
    clients[0].create_topic(topic, 3)
    for i in range(30):
        clients[i % 3].produce(topic, batch([rec(b"%d" % i)]), i % 3)
    for b in trio.brokers:
        assert sorted(reading.rows_duckdb(b, topic, store.endpoint)) == \
            sorted((i % 3, i // 3, b"%d" % i) for i in range(30))


def test_consumers_read_history_through_any_broker(trio, clients, topic):
    """What one broker made a table of is read as a log from another."""
    clients[0].create_topic(topic)
    expected = []
    for i in range(9):
        values = [b"%d-%d" % (i, n) for n in range(50)]
        clients[i % 3].produce(topic, batch([rec(v) for v in values]))
        expected += values
        reading.load(trio[1 + (i + 1) % 3], topic)          # compacts
        for c in clients:
            assert [r.value for r in log_of(c, topic)] == expected, i
    for b in trio.brokers:
        assert reading.verify(b, topic)["equal"]


def test_fresh_while_all_write_and_all_compact(fleet, store):
    """Compaction, merging, purging on each broker meanwhile; a query may not show fewer rows than
    were acknowledged when it began, and at the end log and table are the same records."""
    f = fleet(3, settings=BUSY)
    with Client(f[1].address) as c:
        c.create_topic("t", 4, {"table.target.file.bytes": 1 << 20,
                                "table.snapshot.retention.count": 5})
        c.produce("t", batch([rec(b"first")]))
    acked, stop, lock, errors = [1], threading.Event(), threading.Lock(), []

    def produce(number):
        with Client(f[number].address) as c:
            i = 0
            while not stop.is_set():
                p = c.produce("t", batch([rec(b"%d-%d-" % (number, i + n) + b"x" * 100)
                                          for n in range(10)]), i // 10 % 4)
                if p.ErrorCode:
                    errors.append(p)
                i += 10
                with lock:
                    acked[0] += 10
                time.sleep(0.005)

    threads = [threading.Thread(target=produce, args=(n,)) for n in (1, 2, 3)]
    for t in threads:
        t.start()
    queries = 0
    deadline = time.monotonic() + 8
    try:
        while time.monotonic() < deadline:
            before = acked[0]
            b = f.brokers[queries % 3]
            seen = reading.load(b, "t").scan().count()
            assert seen >= before, f"broker {b.number}: {seen} rows, {before} were acknowledged"
            queries += 1
    finally:
        stop.set()
        for t in threads:
            t.join(30)
    assert not errors, errors[:3]
    assert queries >= 5
    logs = []
    for b in f.brokers:
        with Client(b.address) as c:
            logs.append([(p, r.offset, r.value) for p in range(4) for r in log_of(c, "t", p)])
    assert len(logs[0]) == acked[0] and logs[0] == logs[1] == logs[2]
    for b in f.brokers:
        assert sorted(reading.rows_pyiceberg(b, "t")) == logs[0]
        said = reading.verify(b, "t")
        assert said["equal"], said
    assert sorted(reading.rows_duckdb(f[2], "t", store.endpoint)) == logs[0]
    for b in f.brokers:
        text = b.log_path.read_text()
        assert "damaged" not in text, [x for x in text.split("\n") if "damaged" in x][:3]


def test_background_work_is_done_by_who_is_left(fleet):
    """No table is loaded: whoever holds the lease makes the commits; it is killed, another does."""
    f = fleet(3, settings={**BUSY, "broker.session.ms": 1500})
    with Client(f[1].address) as c:
        c.create_topic("t")

    def rows():
        r = f.sql("SELECT coalesce(sum(row_count), 0) FROM data_file WHERE removed_ms = 0")
        return int(r[0][0])
    total = 0
    for dead in (None, 1, 2):
        if dead:
            f[dead].kill()
        with Client(f[3].address) as c:
            for _ in range(10):
                assert c.produce("t", batch([rec(b"x")])).ErrorCode == 0
        total += 10
        until(lambda: rows() >= total, 90, every=0.2)
    f[1].start()
    f[2].start()
    assert reading.load(f[1], "t").scan().count() == total


def test_files_of_a_killed_broker_are_not_left(fleet):
    """Everything that lies under tables/ some seconds later is named by the newest state."""
    f = fleet(3, settings=BUSY)
    with Client(f[1].address) as c:
        c.create_topic("t", 2, {"table.file.grace.ms": 1000,
                                "table.snapshot.retention.count": 2})
    for i in range(45):
        number = 1 + i % 3
        with Client(f[number].address) as c:
            assert c.produce("t", batch([rec(b"%d" % i)]), i % 2).ErrorCode == 0
        if i % 15 == 14:
            f[number].kill()
            f[number].start()

    def settled():
        named = {k for (k,) in f.sql("SELECT file_key FROM data_file")}
        held = {k for k in f.objects("tables") if "/data/" in k}
        return named and held == named
    until(settled, 40, every=0.5)
    for b in f.brokers:
        assert reading.load(b, "t").scan().count() == 45
