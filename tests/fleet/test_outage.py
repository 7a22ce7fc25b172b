"""The database or the store goes away under load: producers wait or are told to try again, then go
on; nothing that was acknowledged is lost. Brokers are started again by a supervisor, as an unknown
outcome of a commit ends them.
"""
import threading
import time

import pytest
from confluent_kafka import Producer

import raw
from brokers import log_of, until
from clients import QUIET
from raw import Client, batch

PARTITIONS = 3


class Writers:
    """One idempotent producer for each broker's bootstrap, through it all."""

    def __init__(self, f, topic):
        self.topic, self.sent, self.acked, self.failed = topic, {}, {}, []
        self.stopping = threading.Event()
        self.last = [time.monotonic()] * len(f.brokers)
        self.threads = [threading.Thread(target=self.run, args=(i, f.bootstrap), daemon=True)
                        for i in range(len(f.brokers))]
        for t in self.threads:
            t.start()

    def run(self, i, bootstrap):
        producer = Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1,
            "delivery.timeout.ms": 0, "retry.backoff.ms": 50, "retry.backoff.max.ms": 200,
            "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0,
            "socket.timeout.ms": 10_000}, logger=QUIET)

        def answered(error, message):
            if error is not None:
                self.failed.append(error)
                return
            self.last[i] = time.monotonic()
            key = (message.partition(), message.offset())
            assert key not in self.acked
            self.acked[key] = message.value()
        n = 0
        while not self.stopping.is_set():
            if len(producer) < 1000:
                producer.produce(self.topic, b"%d-%d" % (i, n), partition=n % PARTITIONS,
                                 on_delivery=answered)
                n += 1
            producer.poll(0.002)
        self.left = producer.flush(90)
        self.sent[i] = n

    def count(self):
        return len(self.acked)

    def more(self, count, seconds):
        before = self.count()
        until(lambda: self.count() > before + count, seconds)

    def end(self):
        self.stopping.set()
        for t in self.threads:
            t.join(120)
            assert not t.is_alive()


def check(f, w):
    """All that was acknowledged, at its place; each record once, in its producer's order."""
    assert not w.failed, w.failed[:3]
    assert w.count() == sum(w.sent.values())
    for b in f.brokers:
        with Client(b.address) as c:
            found = {(p, r.offset): r.value for p in range(PARTITIONS)
                     for r in log_of(c, w.topic, p)}
        assert found == w.acked, f"broker {b.number}"
    for p in range(PARTITIONS):
        for i in w.sent:
            mine = [int(v.split(b"-")[1]) for (q, _), v in sorted(w.acked.items())
                    if q == p and v.startswith(b"%d-" % i)]
            assert mine == list(range(p, w.sent[i], PARTITIONS))


@pytest.fixture
def database(shaky_database):
    return shaky_database


@pytest.fixture
def loaded(fleet, database):
    """-> start(settings…) -> (fleet, writers that have begun)"""
    made = []

    def start(**settings):
        f = fleet(3, settings=settings, on=database)
        with Client(f[1].address) as c:
            c.create_topic("t", PARTITIONS)
        w = Writers(f, "t")
        made.append(w)
        w.more(500, 30)
        return f, w
    yield start
    for w in made:
        w.stopping.set()


def test_the_database_restarts_under_load(loaded, database):
    f, w = loaded()
    with f.supervised():
        for _ in range(3):
            database.restart()
            w.more(500, 60)
        w.end()
    print(f"{f.restarts} brokers were started again")
    check(f, w)


def test_the_database_is_away_for_ten_seconds(loaded, database):
    f, w = loaded()
    with f.supervised():
        database.halt()
        time.sleep(1)
        during = w.count()
        time.sleep(9)
        assert w.count() == during, "acknowledged without the database"
        database.restart()
        w.more(1000, 60)
        w.end()
    print(f"{f.restarts} brokers were started again")
    check(f, w)


def test_a_database_that_is_away_is_a_wait_or_a_retriable_error(fleet, database):
    """Told to plain clients, without a library in between."""
    f = fleet(2, on=database)
    retriable = {5, 6, 7, 9, 13, 14, 15, 16, 56}
    with f.supervised():
        with Client(f[1].address) as c:
            c.create_topic("t")
            assert c.produce("t", batch([b"0"])).ErrorCode == 0
        database.halt()
        try:
            for request in ("produce", "offsets"):
                try:
                    with Client(f[2].address, timeout=20) as c:
                        p = c.produce("t", batch([b"1"])) if request == "produce" else \
                            c.list_offset("t", -1)
                        assert p.ErrorCode in retriable, (request, p)
                except (raw.Closed, OSError):       # a wait, or a broker that ended
                    pass
        finally:
            database.restart()

        def works():
            try:
                with Client(f[2].address) as c:
                    return c.produce("t", batch([b"2"])).ErrorCode == 0
            except OSError:
                return False
        until(works, 30, every=0.2)


def test_the_store_pauses_under_load(loaded, store):
    f, w = loaded()
    with f.supervised():
        store.pause()
        try:
            time.sleep(1)
            during = w.count()
            time.sleep(4)
            assert w.count() == during, "acknowledged without the store"
        finally:
            store.resume()
        w.more(1000, 60)
        w.end()
    assert f.restarts == 0, "a store that pauses ends nobody"
    check(f, w)


def test_readers_go_on_at_the_tail_while_the_store_pauses(fleet, store):
    """What is in memory is served."""
    f = fleet(2)
    with Client(f[1].address) as c:
        c.create_topic("t")
        assert c.produce("t", batch([b"x"])).ErrorCode == 0
        assert [r.value for r in log_of(c, "t")] == [b"x"]
        store.pause()
        try:
            assert [r.value for r in log_of(c, "t")] == [b"x"]
            assert c.metadata(["t"]).Topics[0].ErrorCode == 0
            assert c.end_offset("t") == 1
        finally:
            store.resume()


def test_a_broker_stands_still_under_load(loaded):
    """Others go on meanwhile; it goes on afterwards."""
    f, w = loaded()
    for number in (2, 1):
        f[number].pause()
        time.sleep(f.settings["broker.session.ms"] / 1000 + 1)
        before = w.count()
        until(lambda: w.count() > before, 20)
        f[number].resume()
        w.more(500, 30)
    w.end()
    check(f, w)
