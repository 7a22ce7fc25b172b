"""Consumer groups: one coordinator, known to all; it dies, the group goes on."""
import threading
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

import raw
from brokers import until
from clients import QUIET
from groups import Member
from raw import Client

COORDINATOR_LOADING, COORDINATOR_ABSENT, NOT_COORDINATOR = 14, 15, 16


@pytest.fixture
def clients(trio):
    made = {b.number: Client(b.address) for b in trio.brokers}
    yield made
    for c in made.values():
        c.close()


def coordinator(client, group):
    for _ in range(200):
        c = client.call("FindCoordinator", 4, KeyType=0, CoordinatorKeys=[group]).Coordinators[0]
        if c.ErrorCode == 0:
            return c.NodeId
        assert c.ErrorCode in (COORDINATOR_LOADING, COORDINATOR_ABSENT), c
        time.sleep(0.05)
    raise AssertionError("no coordinator")


def loaded(ask):
    """The answer of a coordinator that has read the group: until then clients repeat."""
    for _ in range(200):
        answer = ask()
        code = answer.ErrorCode if isinstance(answer, dict) else answer
        if code != COORDINATOR_LOADING:
            return answer
        time.sleep(0.02)
    raise AssertionError("the group is not loaded")


def commit(*args, **kw):
    return loaded(lambda: commit_once(*args, **kw))


def commit_once(client, group, topic, offset, partition=0, generation=-1, member=""):
    r = client.call("OffsetCommit", 8, GroupId=group, GenerationIdOrMemberEpoch=generation,
                    MemberId=member, Topics=[{"Name": topic, "Partitions": [
                        {"PartitionIndex": partition, "CommittedOffset": offset}]}])
    return r.Topics[0].Partitions[0].ErrorCode


def committed(client, group, topic, partition=0):
    """-> (error, offset)"""
    r = client.call("OffsetFetch", 8, Groups=[{"GroupId": group, "Topics": [
        {"Name": topic, "PartitionIndexes": [partition]}]}]).Groups[0]
    if r.ErrorCode:
        return r.ErrorCode, None
    p = r.Topics[0].Partitions[0]
    return p.ErrorCode, p.CommittedOffset


def alone(client, group, **kw):
    """A group's only member, through its first generation."""
    m = Member(client, group, **kw)
    r = loaded(m.join)
    assert r.ErrorCode == 0 and r.Leader == m.id, r
    r = m.sync({m.id: b"mine"})
    assert (r.ErrorCode, r.Assignment) == (0, b"mine"), r
    return m


def group_of(clients, number, stem):
    """A group that broker `number` coordinates."""
    for i in range(1000):
        if coordinator(clients[1], f"{stem}-{i}") == number:
            return f"{stem}-{i}"
    raise AssertionError(f"broker {number} coordinates no group")


def test_all_name_the_same_coordinator_and_they_are_spread(clients, topic):
    count = Counter()
    for i in range(60):
        found = {coordinator(c, f"{topic}-{i}") for c in clients.values()}
        assert len(found) == 1, found
        count.update(found)
    assert set(count) == {1, 2, 3} and min(count.values()) >= 5, count


def test_the_others_are_not_its_coordinator(clients, topic):
    clients[1].create_topic(topic)
    for number in (1, 2, 3):
        group = group_of(clients, number, topic)
        assert commit(clients[number], group, topic, 5) == 0
        for n, c in clients.items():
            if n == number:
                assert committed(c, group, topic) == (0, 5)
                continue
            assert commit(c, group, topic, 9) == NOT_COORDINATOR
            assert committed(c, group, topic)[0] == NOT_COORDINATOR
            m = Member(c, group)
            assert m.join().ErrorCode == NOT_COORDINATOR
            m.id = "somebody"
            assert m.heartbeat() == NOT_COORDINATOR
        assert committed(clients[number], group, topic) == (0, 5)


def test_a_member_joins_its_coordinator(clients, topic):
    for number in (1, 2, 3):
        m = alone(clients[number], group_of(clients, number, topic))
        assert m.heartbeat() == 0
        m.leave()


def test_offsets_of_a_deleted_topic_are_gone(clients, topic):
    """Deleted and made again through others: the coordinator must not give the old offset."""
    clients[1].create_topic(topic)
    group = group_of(clients, 1, topic)
    assert commit(clients[1], group, topic, 5) == 0
    clients[2].delete_topic(topic)
    clients[3].create_topic(topic)
    assert committed(clients[1], group, topic) == (0, -1)


def test_a_commit_outlives_its_coordinator(fleet):
    f = fleet(3, settings={"broker.session.ms": 1500, "broker.heartbeat.ms": 200})
    with Client(f[1].address) as c:
        c.create_topic("t")
        group = next(f"g{i}" for i in range(1000) if coordinator(c, f"g{i}") == 2)
        kept = next(f"g{i}" for i in range(1000) if coordinator(c, f"g{i}") == 1)
        assert commit(c, kept, "t", 3) == 0
        with Client(f[2].address) as two:
            m = alone(two, group)
            for i in range(1, 50):
                assert commit(two, group, "t", i, generation=m.generation, member=m.id) == 0
        f[2].kill()
        began = time.monotonic()
        until(lambda: coordinator(c, group) != 2, 5)
        assert time.monotonic() - began < 4
        new = coordinator(c, group)
        with Client(f[new].address) as other:
            found = until(lambda: [e for e in [committed(other, group, "t")] if e[0] == 0], 5)
            assert found == [(0, 49)]
            # The member goes on there: the group is what it was, or it is told to join again.
            m.client = other
            beat = loaded(m.heartbeat)
            assert beat in (0, raw.UNKNOWN_MEMBER_ID, raw.ILLEGAL_GENERATION, 27), beat
            if beat == 0:
                assert commit(other, group, "t", 50, generation=m.generation, member=m.id) == 0
        assert coordinator(c, kept) == 1 and committed(c, kept, "t") == (0, 3)
        # It comes back, and gets the group back; nothing is forgotten on the way.
        f[2].start()
        until(lambda: coordinator(c, group) == 2, 5)
        with Client(f[2].address) as two:
            found = until(lambda: [e for e in [committed(two, group, "t")] if e[0] == 0], 5)
            assert found == [(0, 50 if beat == 0 else 49)]


def test_an_old_generation_cannot_commit_at_the_next_coordinator(fleet):
    """What the group went through elsewhere counts: the coordinator that was away asks the
    database, not its memory."""
    f = fleet(2, settings={"broker.session.ms": 1500, "broker.heartbeat.ms": 200})
    with Client(f[1].address) as one:
        one.create_topic("t")
        group = next(f"g{i}" for i in range(1000) if coordinator(one, f"g{i}") == 2)
        two = Client(f[2].address)
        old = alone(two, group, session_ms=6000)
        assert commit(two, group, "t", 1, generation=old.generation, member=old.id) == 0
        f[2].pause()
        until(lambda: coordinator(one, group) == 1, 6)
        # The old member is away as well; a new one joins where the group is now.
        new = Member(one, group, session_ms=30000)
        r = loaded(new.join)
        assert r.ErrorCode == 0, r
        assert new.generation > old.generation
        assert new.sync({new.id: b"mine"}).ErrorCode == 0
        assert commit(one, group, "t", 7, generation=new.generation, member=new.id) == 0
        f[2].resume()
        # Its memory says that it coordinates the group and knows the old member.
        code = commit(two, group, "t", 2, generation=old.generation, member=old.id)
        assert code != 0, "a fenced member committed"
        reader = until(lambda: {1: one, 2: two}[coordinator(one, group)], 5)
        found = until(lambda: [e for e in [committed(reader, group, "t")] if e[0] == 0], 8)
        assert found == [(0, 7)]
        two.close()


# ---- the library's consumers ----

class Worker:
    """A member whose bootstrap is one broker; it writes down what it saw and committed."""

    def __init__(self, bootstrap, group, topic):
        self.seen, self.commits = [], {}
        self.stopping = threading.Event()
        self.consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300, "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200, "log_level": 0,
            "topic.metadata.refresh.interval.ms": 1000}, logger=QUIET)
        self.consumer.subscribe([topic])
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopping.is_set():
            positions = {}
            for m in self.consumer.consume(100, 0.1):
                if m.error() is None:
                    self.seen.append((m.partition(), m.offset(), m.value()))
                    positions[m.partition()] = m.offset() + 1
                    self.topic = m.topic()
            if not positions:
                continue
            try:
                done = self.consumer.commit(offsets=[TopicPartition(self.topic, p, o)
                                                     for p, o in positions.items()],
                                            asynchronous=False)
            except KafkaException:
                continue
            for t in done:
                if t.error is None:
                    self.commits[t.partition] = t.offset
        self.consumer.close()

    def end(self):
        self.stopping.set()
        self.thread.join(30)
        assert not self.thread.is_alive()


def test_a_group_goes_on_when_its_coordinator_is_killed(fleet):
    f = fleet(3, settings={"broker.session.ms": 2000, "broker.heartbeat.ms": 200})
    with Client(f[1].address) as c:
        c.create_topic("t", 6)
        number = coordinator(c, "workers")
    survivor = next(b for b in f.brokers if b.number != number)
    workers = [Worker(b.kafka if b.number != number else survivor.kafka, "workers", "t")
               for b in f.brokers]
    producer = Producer({"bootstrap.servers": survivor.kafka, "enable.idempotence": True,
                         "delivery.timeout.ms": 0, "log_level": 0, "retry.backoff.ms": 20,
                         "reconnect.backoff.max.ms": 200}, logger=QUIET)
    sent, stop = [0], threading.Event()

    def produce():
        while not stop.is_set():
            producer.produce("t", b"%d" % sent[0], partition=sent[0] % 6)
            sent[0] += 1
            producer.poll(0.004)
    t = threading.Thread(target=produce)
    t.start()
    try:
        until(lambda: all(len(w.seen) > 50 for w in workers), 40)
        early = {p: committed_anywhere(f, "workers", "t", p) for p in range(6)}
        f[number].kill()
        killed = time.monotonic()
        before = [len(w.seen) for w in workers]
        commits = [dict(w.commits) for w in workers]
        until(lambda: sum(len(w.seen) for w in workers) > sum(before) + 300 and
              any(w.commits != c for w, c in zip(workers, commits)), 25)
        took = time.monotonic() - killed
        assert took < 2 + 8, f"the group stood still for {took:.1f} s"
        for p, offset in early.items():
            assert committed_anywhere(f, "workers", "t", p) >= offset
    finally:
        stop.set()
        t.join(10)
    assert producer.flush(30) == 0
    try:
        until(lambda: len({(p, o) for w in workers for p, o, _ in w.seen}) == sent[0], 40)
    finally:
        for w in workers:
            w.end()
    where = {}
    for w in workers:
        for p, o, v in w.seen:
            assert where.setdefault((p, o), v) == v
    assert sorted(where.values(), key=int) == [b"%d" % i for i in range(sent[0])]
    for p in range(6):
        told = max(w.commits.get(p, 0) for w in workers)
        assert committed_anywhere(f, "workers", "t", p) >= told, "an offset went back"


def committed_anywhere(f, group, topic, partition):
    def ask():
        with Client(f.one().address) as c:
            number = coordinator(c, group)
        if not f[number].alive():
            return None
        with Client(f[number].address) as c:
            error, offset = committed(c, group, topic, partition)
        return None if error else (offset,)
    return until(ask, 10)[0]
