"""confluent-kafka (librdkafka 2.16): producers, groups of every kind, administration."""
import json
import threading
import time

import pytest
from confluent_kafka import (OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, Consumer, KafkaError,
                             KafkaException, Producer, TopicPartition)
from confluent_kafka import ConsumerGroupTopicPartitions as GroupPartitions
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource,
                                   NewPartitions, NewTopic, OffsetSpec, ResourceType)

SECONDS_MAX = 30


@pytest.fixture
def admin(server):
    return AdminClient({"bootstrap.servers": server.bootstrap})


def create(admin, topic, partitions=4, config=None):
    admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})])[topic].result(15)
    wait_for(lambda: topic in admin.list_topics(timeout=5).topics)


def wait_for(condition, seconds=SECONDS_MAX):
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def producer(server, **config):
    return Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 2, **{
        k.replace("_", "."): v for k, v in config.items()}})


def consumer(server, group, **config):
    return Consumer({"bootstrap.servers": server.bootstrap, "group.id": group,
                     "auto.offset.reset": "earliest", "session.timeout.ms": 10000,
                     "heartbeat.interval.ms": 300, **{
                         k if k == "stats_cb" else k.replace("_", "."): v
                         for k, v in config.items()}})


def send(server, topic, values, **config):
    p, failed = producer(server, **config), []
    for v in values:
        p.produce(topic, v, on_delivery=lambda e, m: e and failed.append(e))
        p.poll(0)
    assert p.flush(SECONDS_MAX) == 0 and not failed, failed


def read(c, count, seconds=SECONDS_MAX):
    out, deadline = [], time.monotonic() + seconds
    while len(out) < count:
        assert time.monotonic() < deadline, f"{len(out)} of {count}"
        for m in c.consume(500, 0.5):
            assert m.error() is None, m.error()
            out.append(m)
    return out


# ---- producers -----------------------------------------------------------------------------

@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_produce_consume(server, admin, topic, codec, idempotent):
    create(admin, topic)
    values = [b"%d" % i * (i % 20) for i in range(5000)]
    send(server, topic, values, compression_type=codec, enable_idempotence=idempotent)
    c = consumer(server, "g-" + topic, check_crcs=True)
    c.subscribe([topic])
    got = read(c, 5000)
    c.close()
    assert sorted(m.value() for m in got) == sorted(values)


def test_delivery_reports_name_offsets(server, admin, topic):
    create(admin, topic, 3)
    p, reports = producer(server, enable_idempotence=True), []
    for i in range(600):
        p.produce(topic, b"v%d" % i, b"k", partition=i % 3, timestamp=1_700_000_000_000 + i,
                  on_delivery=lambda e, m: reports.append((e, m.partition(), m.offset())))
    assert p.flush(SECONDS_MAX) == 0
    assert all(e is None for e, _, _ in reports)
    assert sorted(r[1:] for r in reports) == [(q, o) for q in range(3) for o in range(200)]


def test_b007_null_and_empty(server, admin, topic):
    create(admin, topic, 1)
    states = [None, b"", b"x"]
    sent = [(k, v, [("h", h)]) for k in states for v in states for h in states]
    sent += [(b"k", b"v", None), (b"k", b"v", [("a", b"1"), ("b", b""), ("a", None)])]
    p = producer(server)
    for k, v, h in sent:
        p.produce(topic, v, k, headers=h)
    p.flush(SECONDS_MAX)
    c = consumer(server, "g-" + topic)
    c.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert [(m.key(), m.value(), m.headers()) for m in read(c, len(sent))] == sent
    c.close()


def test_timestamps_are_kept(server, admin, topic):
    create(admin, topic, 1)
    p = producer(server)
    for t in (1, 1_700_000_000_123, 1_600_000_000_000):
        p.produce(topic, b"x", timestamp=t)
    p.flush(SECONDS_MAX)
    c = consumer(server, "g-" + topic)
    c.assign([TopicPartition(topic, 0, 0)])
    assert [m.timestamp() for m in read(c, 3)] == [(1, 1), (1, 1_700_000_000_123),
                                                   (1, 1_600_000_000_000)]
    c.close()


def test_message_too_large(server, admin, topic):
    create(admin, topic, 1, {"max.message.bytes": "10000"})
    p, errors = producer(server), []
    p.produce(topic, b"\xa5" * 50_000, on_delivery=lambda e, m: errors.append(e))
    p.flush(SECONDS_MAX)
    assert errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_several_producers_at_once(server, admin, topic):
    create(admin, topic, 4)
    threads = [threading.Thread(target=send, args=(server, topic, [
        b"%d-%d" % (t, i) for i in range(2000)]), kwargs={"enable_idempotence": True})
        for t in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    c = consumer(server, "g-" + topic)
    c.subscribe([topic])
    got = read(c, 10_000)
    c.close()
    assert len({m.value() for m in got}) == 10_000
    by_producer = {}
    for m in got:
        t, i = m.value().split(b"-")
        last = by_producer.setdefault((m.partition(), t), -1)
        assert int(i) > last
        by_producer[m.partition(), t] = int(i)


@pytest.mark.lakestream
def test_b027_idempotent_while_the_server_restarts(fresh, topic):
    """kcat would not do: it ends when its only broker is away."""
    s = fresh()
    create(AdminClient({"bootstrap.servers": s.bootstrap}), topic, 12)
    p = producer(s, enable_idempotence=True, reconnect_backoff_max_ms=200)
    answers, offsets, errors = [0], {}, []

    def delivered(error, m):
        answers[0] += 1
        if error:
            errors.append(error)
        else:
            offsets.setdefault(m.partition(), []).append(m.offset())

    for i in range(1200):
        p.produce(topic, b"%d" % i, on_delivery=delivered)
        p.poll(0.003)
        if i in (300, 600, 900):
            s.restart(kill=i != 600)
    assert p.flush(60) == 0 and not errors and answers[0] == 1200, errors
    for got in offsets.values():
        assert got == list(range(len(got)))
    c = consumer(s, "g-" + topic)
    c.subscribe([topic])
    assert sorted(int(m.value()) for m in read(c, 1200)) == list(range(1200))
    assert not c.consume(10, 1)
    c.close()


# ---- consumers -----------------------------------------------------------------------------

def test_b023_committed_of_nothing(server, admin, topic):
    create(admin, topic, 2)
    c = consumer(server, "never-" + topic)
    got = c.committed([TopicPartition(topic, 0), TopicPartition(topic, 77),
                       TopicPartition("no-such", 0)], timeout=15)
    assert [p.offset for p in got] == [OFFSET_INVALID] * 3
    c.close()


def test_commit_and_committed(server, admin, topic):
    create(admin, topic, 2)
    send(server, topic, [b"%d" % i for i in range(50)])
    c = consumer(server, "g-" + topic, enable_auto_commit=False)
    c.subscribe([topic])
    read(c, 50)
    done = c.commit(asynchronous=False)
    assert sum(p.offset for p in done if p.offset > 0) == 50
    assert sum(p.offset for p in c.committed(
        [TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=10) if p.offset > 0) == 50
    c.close()


def test_b024_manual_assignment_commits_and_resumes(server, admin, topic):
    create(admin, topic, 1)
    send(server, topic, [b"%d" % i for i in range(20)])
    c = consumer(server, "g-" + topic, enable_auto_commit=False)
    c.assign([TopicPartition(topic, 0)])
    got = read(c, 8)[:8]
    c.commit(offsets=[TopicPartition(topic, 0, got[7].offset() + 1)], asynchronous=False)
    c.close()
    c = consumer(server, "g-" + topic)
    c.assign([TopicPartition(topic, 0)])
    assert read(c, 12)[0].offset() == 8
    c.close()


def test_offsets_for_times(server, admin, topic):
    create(admin, topic, 1)
    p = producer(server)
    for t in (2, 4, 6, 8):
        p.produce(topic, b"x", timestamp=1_700_000_000_000 + t)
    p.flush(SECONDS_MAX)
    c = consumer(server, "g-" + topic)
    def at(t):
        return c.offsets_for_times([TopicPartition(topic, 0, 1_700_000_000_000 + t)],
                                   timeout=10)[0].offset
    assert [at(3), at(8), at(9)] == [1, 3, OFFSET_END]
    assert c.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 4)
    c.close()


def test_out_of_range_resets(server, admin, topic):
    create(admin, topic, 1)
    send(server, topic, [b"a", b"b"])
    c = consumer(server, "g-" + topic)
    c.assign([TopicPartition(topic, 0, 5000)])
    assert [m.offset() for m in read(c, 2)] == [0, 1]
    c.close()


def test_seek_pause_resume(server, admin, topic):
    create(admin, topic, 1)
    send(server, topic, [b"%d" % i for i in range(100)])
    tp = TopicPartition(topic, 0, 0)
    c = consumer(server, "g-" + topic)
    c.assign([tp])
    read(c, 100)
    c.seek(TopicPartition(topic, 0, 42))
    assert read(c, 58)[0].offset() == 42
    c.pause([tp])
    send(server, topic, [b"later"])
    assert c.poll(1.0) is None
    c.resume([tp])
    assert read(c, 1)[0].value() == b"later"
    c.close()


def test_regex_subscription_finds_new_topics(server, admin, topic):
    create(admin, topic + "-1", 1)
    c = consumer(server, "g-" + topic, topic_metadata_refresh_interval_ms=500)
    c.subscribe(["^" + topic + "-.*"])
    send(server, topic + "-1", [b"one"])
    assert read(c, 1)[0].value() == b"one"
    create(admin, topic + "-2", 1)
    send(server, topic + "-2", [b"two"])
    assert read(c, 1)[0].value() == b"two"
    c.close()


def test_b020_idle_consumer_holds_its_fetches(server, admin, topic):
    """At most a few fetches a second, as the client's own statistics count them."""
    create(admin, topic, 1)
    counts = []
    c = consumer(server, "g-" + topic, statistics_interval_ms=500, stats_cb=lambda s: counts.append(
        sum(b["req"].get("Fetch", 0) for b in json.loads(s)["brokers"].values())))
    c.assign([TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + 6
    while time.monotonic() < deadline:
        assert c.poll(0.2) is None
    c.close()
    assert 2 <= max(counts) <= 20


def test_b028_client_rack(server, admin, topic):
    create(admin, topic, 1)
    send(server, topic, [b"%d" % i for i in range(100)])
    c = consumer(server, "g-" + topic, client_rack="zone-a")
    c.subscribe([topic])
    assert len(read(c, 100)) == 100
    c.close()


# ---- groups --------------------------------------------------------------------------------

class Member(threading.Thread):
    """A consumer that polls in its own thread and notes what it owned and read."""

    def __init__(self, server, group, topic, **config):
        super().__init__(daemon=True)
        self.c = consumer(server, group, enable_auto_commit=True, auto_commit_interval_ms=200,
                          **config)
        self.owned, self.events, self.values = set(), [], []
        self.cooperative = "cooperative" in config.get("partition_assignment_strategy", "")
        self.topic, self.running = topic, True
        self.start()

    def on_assign(self, c, partitions):
        self.events.append(("assign", sorted(p.partition for p in partitions)))
        if self.cooperative:
            c.incremental_assign(partitions)
        else:
            c.assign(partitions)
        self.owned |= {p.partition for p in partitions}

    def on_revoke(self, c, partitions):
        self.events.append(("revoke", sorted(p.partition for p in partitions)))
        if self.cooperative:
            c.incremental_unassign(partitions)
        else:
            c.unassign()
        self.owned -= {p.partition for p in partitions}

    def run(self):
        self.c.subscribe([self.topic], on_assign=self.on_assign, on_revoke=self.on_revoke,
                         on_lost=self.on_revoke)
        while self.running:
            for m in self.c.consume(100, 0.1):
                if m.error() is None:
                    self.values.append(m.value())
        self.c.close()

    def end(self):
        self.running = False
        self.join(SECONDS_MAX)


def settled(members, partitions):
    owned = [m.owned for m in members]
    return all(owned) and sum(map(len, owned)) == partitions and \
        set().union(*owned) == set(range(partitions))


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_group_rebalances(server, admin, topic, strategy):
    create(admin, topic, 6)
    make = lambda: Member(server, "g-" + topic, topic, partition_assignment_strategy=strategy)
    members = [make()]
    try:
        wait_for(lambda: settled(members, 6))
        send(server, topic, [b"a%d" % i for i in range(300)])
        members += [make(), make()]
        wait_for(lambda: settled(members, 6))
        send(server, topic, [b"b%d" % i for i in range(300)])
        members.pop(0).end()
        wait_for(lambda: settled(members, 6))
        send(server, topic, [b"c%d" % i for i in range(300)])
        wait_for(lambda: sum(v[:1] == b"c" for m in members for v in m.values) >= 300)
    finally:
        for m in members:
            m.end()


def test_group_reads_each_record_once_when_stable(server, admin, topic):
    create(admin, topic, 6)
    members = [Member(server, "g-" + topic, topic) for _ in range(3)]
    try:
        wait_for(lambda: settled(members, 6))
        send(server, topic, [b"%d" % i for i in range(3000)])
        wait_for(lambda: sum(len(m.values) for m in members) >= 3000)
        time.sleep(0.5)
        assert sorted(int(v) for m in members for v in m.values) == list(range(3000))
    finally:
        for m in members:
            m.end()


def test_b029_static_member_restarts(server, admin, topic):
    create(admin, topic, 6)
    group = "g-" + topic
    make = lambda i: Member(server, group, topic, group_instance_id=f"i{i}",
                            session_timeout_ms=20000)
    members = [make(i) for i in range(3)]
    try:
        wait_for(lambda: settled(members, 6))
        time.sleep(1)
        before = [(set(m.owned), len(m.events)) for m in members]
        members[1].end()
        members[1] = make(1)
        wait_for(lambda: members[1].owned == before[1][0])
        time.sleep(1)
        for i in (0, 2):
            assert (members[i].owned, len(members[i].events)) == before[i]
    finally:
        for m in members:
            m.end()


def test_group_survives_a_restart(fresh, topic):
    s = fresh()
    admin = AdminClient({"bootstrap.servers": s.bootstrap})
    create(admin, topic, 4)
    m = Member(s, "g", topic, session_timeout_ms=30000, reconnect_backoff_max_ms=500)
    try:
        wait_for(lambda: settled([m], 4))
        send(s, topic, [b"a%d" % i for i in range(200)])
        wait_for(lambda: len(m.values) >= 200)
        time.sleep(0.5)                 # past the automatic commit
        s.restart()
        send(s, topic, [b"b%d" % i for i in range(200)])
        wait_for(lambda: len(m.values) >= 400)
        assert sorted(m.values) == sorted([b"a%d" % i for i in range(200)] +
                                          [b"b%d" % i for i in range(200)])
    finally:
        m.end()


# ---- administration ------------------------------------------------------------------------

def test_create_describe_delete_topics(server, admin, topic):
    create(admin, topic, 3, {"retention.ms": "5000"})
    d = admin.describe_topics(__import__("confluent_kafka").TopicCollection([topic]))[topic] \
        .result(15)
    assert (d.name, len(d.partitions), d.is_internal) == (topic, 3, False)
    assert str(d.topic_id)
    with pytest.raises(KafkaException) as e:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(15)
    assert e.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics([topic])[topic].result(15)
    wait_for(lambda: topic not in admin.list_topics(timeout=5).topics)
    with pytest.raises(KafkaException) as e:
        admin.delete_topics([topic])[topic].result(15)
    assert e.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_create_partitions(server, admin, topic):
    create(admin, topic, 2)
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(15)
    wait_for(lambda: len(admin.list_topics(topic, timeout=5).topics[topic].partitions) == 5)


def test_describe_and_alter_configs(server, admin, topic):
    create(admin, topic, 1)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(15)
    assert configs["segment.ms"].value == "604800000"
    assert configs["segment.ms"].is_default
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[
        ConfigEntry("retention.ms", "777", incremental_operation=AlterConfigOpType.SET)])
    admin.incremental_alter_configs([change])[change].result(15)
    wait_for(lambda: admin.describe_configs([resource])[resource].result(15)[
        "retention.ms"].value == "777")


def test_list_offsets(server, admin, topic):
    create(admin, topic, 1)
    p = producer(server)
    for t in (100, 300, 200):
        p.produce(topic, b"x", timestamp=1_700_000_000_000 + t)
    p.flush(SECONDS_MAX)
    tp = TopicPartition(topic, 0)
    def ask(spec):
        return admin.list_offsets({tp: spec})[tp].result(15)
    assert ask(OffsetSpec.latest()).offset == 3
    assert ask(OffsetSpec.earliest()).offset == 0
    assert ask(OffsetSpec.max_timestamp()).offset == 1
    assert ask(OffsetSpec.for_timestamp(1_700_000_000_150)).offset == 1


def test_delete_records(server, admin, topic):
    create(admin, topic, 1)
    send(server, topic, [b"%d" % i for i in range(100)])
    tp = TopicPartition(topic, 0, 60)
    assert admin.delete_records([tp])[tp].result(15).low_watermark == 60
    c = consumer(server, "g-" + topic)
    assert c.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (60, 100)
    c.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert [m.offset() for m in read(c, 40)] == list(range(60, 100))
    c.close()


def test_groups_listed_described_altered_deleted(server, admin, topic):
    create(admin, topic, 1)
    group = "g-" + topic
    send(server, topic, [b"%d" % i for i in range(10)])
    m = Member(server, group, topic)
    try:
        wait_for(lambda: len(m.values) == 10)
        d = admin.describe_consumer_groups([group])[group].result(15)
        assert d.state.name == "STABLE" and len(d.members) == 1
        assert d.members[0].assignment.topic_partitions == [TopicPartition(topic, 0)]
        assert group in [g.group_id for g in admin.list_consumer_groups().result(15).valid]
    finally:
        m.end()
    wait_for(lambda: admin.describe_consumer_groups([group])[group].result(15).state.name ==
             "EMPTY")
    change = GroupPartitions(group, [TopicPartition(topic, 0, 4)])
    admin.alter_consumer_group_offsets([change])[group].result(15)
    got = admin.list_consumer_group_offsets([GroupPartitions(group)])[group].result(15)
    assert [(p.topic, p.partition, p.offset) for p in got.topic_partitions] == [(topic, 0, 4)]
    admin.delete_consumer_groups([group])[group].result(15)
    assert group not in [g.group_id for g in admin.list_consumer_groups().result(15).valid]


def test_describe_cluster(server, admin):
    d = admin.describe_cluster().result(15)
    assert d.cluster_id and [f"{n.host}:{n.port}" for n in d.nodes] == [server.bootstrap]


def test_transactions_are_refused_in_words(server, peer, topic):
    """A transactional producer learns at once, from init_transactions, that it can't."""
    if peer == "kafka":
        return
    p = producer(server, transactional_id=topic)
    with pytest.raises(KafkaException) as e:
        p.init_transactions(8)
    assert e.value.args[0].code() != KafkaError._FAIL
