"""Brokers that are fenced, end, start again: what is acknowledged, and what is left behind."""
import re
import shutil
import threading
import time

import pytest

import raw
from brokers import EXIT_LOST, log_of, until
from raw import Client, batch

QUICK_TABLES = {"table.commit.interval.ms": 200, "table.upkeep.interval.ms": 200,
                "wal.delete.delay.ms": 300}


def test_a_second_process_of_the_same_id_fences_the_first(fleet):
    """The first acknowledges nothing any more, and ends with code 70."""
    f = fleet(2)
    first = f[1]
    with Client(first.address) as c:
        c.create_topic("t")
        assert c.produce("t", batch([b"before"])).BaseOffset == 0
    acked, stop = [], threading.Event()

    def produce():
        try:
            with Client(first.address) as c:
                while not stop.is_set():
                    n = len(acked)
                    p = c.produce("t", batch([b"first %d" % n]))
                    if p.ErrorCode:
                        return
                    acked.append((time.monotonic(), p.BaseOffset, b"first %d" % n))
        except (OSError, ConnectionError):
            pass
    t = threading.Thread(target=produce)
    t.start()
    until(lambda: len(acked) > 5)
    second = f.add(number=1, rack="again").start()
    started = time.monotonic()
    assert first.wait_end(15) == EXIT_LOST
    stop.set()
    t.join(30)
    f.brokers.remove(first)
    assert "fenced" in first.log_path.read_text().lower()
    first.remove()
    late = [a for a in acked if a[0] > started]
    assert not late, f"acknowledged {len(late)} records after its successor was ready"
    with Client(second.address) as c, Client(f[2].address) as two:
        assert c.produce("t", batch([b"second"])).ErrorCode == 0
        found = {r.offset: r.value for r in log_of(two, "t")}
        assert all(found[o] == v for _, o, v in acked)
        assert sorted(found) == list(range(len(found)))
        # At most what was in flight was committed without its answer.
        assert len(found) <= len(acked) + 3


def test_an_idle_broker_that_is_fenced_ends_too(fleet):
    """Nothing is produced through it: its heartbeat tells."""
    f = fleet(1)
    first = f[1]
    f.add(number=1).start()
    assert first.wait_end(f.settings["broker.session.ms"] / 1000 + 5) == EXIT_LOST
    f.brokers.remove(first)
    first.remove()


def test_a_paused_broker_that_was_replaced_acknowledges_nothing(fleet):
    """Requests that came while it stood still are waiting in its sockets."""
    f = fleet(2)
    first = f[1]
    with Client(first.address) as c:
        c.create_topic("t")
        c.produce("t", batch([b"before"]))
        first.pause()
        c.send("Produce", 9, {"Acks": -1, "TimeoutMs": 30000, "TopicData": [
            {"Name": "t", "PartitionData": [{"Index": 0, "Records": batch([b"late"])}]}]})
        second = f.add(number=1).start()
        first.resume()
        try:
            assert c.recv().Responses[0].PartitionResponses[0].ErrorCode != 0
        except raw.Closed:
            pass
    assert first.wait_end(15) == EXIT_LOST
    f.brokers.remove(first)
    first.remove()
    with Client(second.address) as c:
        assert [r.value for r in log_of(c, "t")] == [b"before"]


def test_all_start_again_and_have_everything(fleet):
    f = fleet(3)
    with Client(f[1].address) as c:
        c.create_topic("t", 3)
    for i in range(30):
        with Client(f[1 + i % 3].address) as c:
            assert c.produce("t", batch([b"%d" % i] * 3), i % 3).ErrorCode == 0
    with Client(f[1].address) as c:
        expected = [[r.value for r in log_of(c, "t", p)] for p in range(3)]
    assert sum(map(len, expected)) == 90
    for kill in (False, True):
        for b in f.brokers:
            b.kill() if kill else b.stop()
        f.start()
        for b in f.brokers:
            with Client(b.address) as c:
                assert [[r.value for r in log_of(c, "t", p)] for p in range(3)] == expected
                p = c.produce("t", batch([b"more"]), 0)
                assert (p.ErrorCode, p.BaseOffset) == (0, len(expected[0]))
            expected[0].append(b"more")


def test_a_broker_needs_nothing_of_its_folder(fleet):
    """Its machine is gone; another takes its number."""
    f = fleet(2)
    with Client(f[1].address) as c:
        c.create_topic("t")
        for i in range(20):
            assert c.produce("t", batch([b"%d" % i])).ErrorCode == 0
    f[1].kill()
    shutil.rmtree(f[1].data_dir)
    f[1].data_dir.mkdir()
    f[1].start()
    for b in f.brokers:
        with Client(b.address) as c:
            assert [r.value for r in log_of(c, "t")] == [b"%d" % i for i in range(20)]


def test_no_record_lies_in_a_brokers_folder(fleet):
    f = fleet(2)
    with Client(f[1].address) as c:
        c.create_topic("t")
        for i in range(50):
            c.produce("t", batch([b"look for me %d" % i]))
    for b in f.brokers:
        for path in b.data_dir.rglob("*"):
            if path.is_file():
                assert b"look for me" not in path.read_bytes(), path
    assert any(k.startswith("wal/") for k in f.objects())


# ---- what is left in the store ----

def wal_objects(f):
    """{(epoch, sequence)} of what the store holds, and of what the database names."""
    held = set()
    for key in f.objects("wal"):
        if key.endswith("/open"):           # witnesses that the epoch was given out
            continue
        m = re.fullmatch(r"wal/(\d{10})/(\d{12})\.wal", key)
        assert m, key
        held.add((int(m[1]), int(m[2])))
    named = {(int(e), int(s)) for e, s in
             f.sql("SELECT epoch, sequence FROM wal_object")}
    return held, named


def test_every_named_wal_object_is_held(fleet):
    f = fleet(3, settings={"table.commit.interval.ms": 3_600_000})
    with Client(f[1].address) as c:
        c.create_topic("t")
    for i in range(30):
        with Client(f[1 + i % 3].address) as c:
            assert c.produce("t", batch([b"x"])).ErrorCode == 0
    held, named = wal_objects(f)
    assert len(named) >= 10 and named <= held
    assert len({epoch for epoch, _ in named}) == 3, "each broker writes under an epoch of its own"


@pytest.mark.parametrize("end", ["stop", pytest.param("kill", marks=pytest.mark.long)])
def test_wal_objects_go_when_the_table_has_them(fleet, end):
    """Also those of a broker that was killed, by whoever is left; what a lease of a dead one
    covers waits until it runs out."""
    f = fleet(3, settings=QUICK_TABLES)
    with Client(f[1].address) as c:
        c.create_topic("t", 3)
    for i in range(60):
        with Client(f[1 + i % 3].address) as c:
            assert c.produce("t", batch([b"%d" % i]), i % 3).ErrorCode == 0
        if i == 40:
            f[3].kill()
            f[3].start()
        if i == 55:
            f[2].kill()
            f.brokers.remove(f[2])
            f.add(number=2).start()
    most = len(wal_objects(f)[0])
    for b in f.brokers[1:]:
        getattr(b, end)()
    deadline = time.monotonic() + 60
    while any(wal_objects(f)):
        assert time.monotonic() < deadline, wal_objects(f)
        time.sleep(0.5)
    assert most > 0
    for b in f.brokers[1:]:
        b.start()
    for b in f.brokers:
        with Client(b.address) as c:
            assert sum(len(log_of(c, "t", p)) for p in range(3)) == 60


def test_an_idle_fleet_writes_no_objects(fleet):
    f = fleet(2, settings=QUICK_TABLES)
    with Client(f[1].address) as c:
        c.create_topic("t")
        c.produce("t", batch([b"x"]))
    until(lambda: not wal_objects(f)[0], 20, every=0.3)
    before = f.objects()
    time.sleep(2)
    assert f.objects() == before
