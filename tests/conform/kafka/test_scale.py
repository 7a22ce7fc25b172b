"""Many topics, many partitions, many members. How long it takes is the benchmark's business."""
import threading
import time

import pytest
from confluent_kafka import Consumer, Producer

from raw import Client, batch


def create_many(c, topics):
    """topics: {name: partitions}, in one request."""
    r = c.call("CreateTopics", 7, timeoutMs=120_000, Topics=[
        {"Name": n, "NumPartitions": p, "ReplicationFactor": 1} for n, p in topics.items()])
    assert {t.Name for t in r.Topics if t.ErrorCode == 0} == set(topics)


@pytest.mark.lakestream
def test_thousand_topics_are_listed_and_survive(fresh, topic):
    s = fresh()
    topics = {f"{topic}-{i:04}": 1 + i % 4 for i in range(1000)}
    with Client(s.address, timeout=120) as c:
        create_many(c, topics)
        before = {t.Name: t for t in c.metadata(None).Topics}
    assert {n: len(t.Partitions) for n, t in before.items()} == topics
    s.restart(kill=True)
    with Client(s.address, timeout=120) as c:
        after = {t.Name: t for t in c.metadata(None).Topics}
        assert {n: len(t.Partitions) for n, t in after.items()} == topics
        assert {n: t.TopicId for n, t in after.items()} == \
            {n: t.TopicId for n, t in before.items()}
        # The same in pages.
        seen, cursor = {}, None
        while True:
            r = c.call("DescribeTopicPartitions", 0, Topics=[], ResponsePartitionLimit=300,
                       Cursor=cursor)
            for t in r.Topics:
                seen[t.Name] = seen.get(t.Name, 0) + len(t.Partitions)
            if not r.NextCursor:
                break
            cursor = {"TopicName": r.NextCursor.TopicName,
                      "PartitionIndex": r.NextCursor.PartitionIndex}
        assert seen == topics
        assert c.produce(f"{topic}-0007", batch([b"x"])).ErrorCode == 0


@pytest.mark.lakestream
def test_ten_thousand_partitions(fresh, topic):
    s = fresh()
    count = 10_000
    with Client(s.address, timeout=120) as c:
        create_many(c, {topic: count})
        assert [p.PartitionIndex for p in c.metadata([topic]).Topics[0].Partitions] == \
            list(range(count))
        got = c.produce_many(topic, {p: batch([b"%d" % p]) for p in range(0, count, 7)})
        assert {p.ErrorCode for p in got.values()} == {0}
    s.restart(kill=True)
    with Client(s.address, timeout=120) as c:
        r = c.call("ListOffsets", 7, ReplicaId=-1, Topics=[{"Name": topic, "Partitions": [
            {"PartitionIndex": p, "Timestamp": -1} for p in range(count)]}])
        ends = {p.PartitionIndex: p.Offset for p in r.Topics[0].Partitions}
        assert ends == {p: int(p % 7 == 0) for p in range(count)}
        r = c.fetch_raw(topic, {p: 0 for p in range(count)}, None)
        assert sum(bool(p.Records) for t in r.Responses for p in t.Partitions) == len(got)
        assert c.records(topic, 9996)[0].value == b"9996"


class Group:
    """Real consumers in one thread; what each owns and what all have read."""

    def __init__(self, server, group, topic, count):
        self.owned, self.values = [set() for _ in range(count)], []
        self.joined = 0
        self.members = []
        for i in range(count):
            c = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group,
                          "auto.offset.reset": "earliest", "session.timeout.ms": 45_000,
                          "heartbeat.interval.ms": 500, "auto.commit.interval.ms": 500,
                          "reconnect.backoff.max.ms": 500,
                          "partition.assignment.strategy": "range"})
            c.subscribe([topic], on_assign=self.assigned(i), on_revoke=self.revoked(i))
            self.members.append(c)

    def assigned(self, i):
        def on_assign(_, partitions):
            self.joined += 1
            self.owned[i] = {p.partition for p in partitions}
        return on_assign

    def revoked(self, i):
        return lambda _, partitions: self.owned[i].clear()

    def poll_until(self, condition, seconds=120):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (len(self.values), self.owned)
            for c in self.members:
                m = c.poll(0)
                if m is not None and m.error() is None:
                    self.values.append(int(m.value()))
            time.sleep(0.002)

    def close(self):
        """All at once, in a bounded time: librdkafka 2.16 now and then does not come back from
        closing a member whose group rebalances, though no request of it is unanswered."""
        threads = [threading.Thread(target=c.close, daemon=True) for c in self.members]
        for t in threads:
            t.start()
        deadline = time.monotonic() + 20
        for t in threads:
            t.join(max(0, deadline - time.monotonic()))


def produce(server, topic, values, partitions):
    p, failed = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 5}), []
    for v in values:
        p.produce(topic, b"%d" % v, partition=v % partitions,
                  on_delivery=lambda e, m: e and failed.append(e))
    assert p.flush(60) == 0 and not failed


@pytest.mark.lakestream
def test_group_of_fifty_survives_kill(fresh, topic):
    s, members, partitions = fresh(), 50, 100
    with Client(s.address) as c:
        c.create_topic(topic, partitions)
    g = Group(s, "g", topic, members)
    try:
        g.poll_until(lambda: all(len(o) == partitions // members for o in g.owned))
        assert set().union(*g.owned) == set(range(partitions))
        produce(s, topic, range(2000), partitions)
        g.poll_until(lambda: len(g.values) >= 2000)
        with Client(s.address) as c:
            before = c.call("DescribeGroups", 5, Groups=["g"]).Groups[0]
        owned, joined = [set(o) for o in g.owned], g.joined
        s.restart(kill=True)
        produce(s, topic, range(2000, 4000), partitions)
        g.poll_until(lambda: len(g.values) >= 4000)
        assert sorted(g.values) == list(range(4000))
        # Nobody had to join again: the same members, the same partitions.
        assert g.owned == owned and g.joined == joined
        with Client(s.address) as c:
            after = c.call("DescribeGroups", 5, Groups=["g"]).Groups[0]
        assert after.GroupState == before.GroupState == "Stable"
        assert {(m.MemberId, m.MemberAssignment) for m in after.Members} == \
            {(m.MemberId, m.MemberAssignment) for m in before.Members}
    finally:
        g.close()
