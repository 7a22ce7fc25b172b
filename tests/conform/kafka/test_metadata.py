"""Metadata that clients cache (cases E, one broker), and how topics come to be."""
import threading
import time
import uuid

import pytest

import raw
from raw import Client, batch


@pytest.fixture
def client(server):
    with Client(server.address) as c:
        yield c


def test_every_metadata_version(client, topic):
    client.create_topic(topic, 3)
    _, high = client.versions()["Metadata"]
    for version in range(0, high + 1):
        r = client.metadata([topic], version)
        t = r.Topics[0]
        assert (t.ErrorCode, t.Name, len(t.Partitions)) == (0, topic, 3), version
        broker = r.Brokers[0]
        assert (broker.Host, broker.Port) == client.address, version
        for p in t.Partitions:
            assert p.LeaderId == broker.NodeId and broker.NodeId in p.ReplicaNodes, version
            assert p.LeaderId in p.IsrNodes, version
        if version >= 1:
            assert r.ControllerId == broker.NodeId and t.IsInternal is False
        if version >= 2:
            assert r.ClusterId


def test_metadata_of_all_none_and_one(client, topic):
    client.create_topic(topic)
    everything = client.metadata(None)
    assert topic in [t.Name for t in everything.Topics]
    assert client.metadata([]).Topics == []
    assert topic in [t.Name for t in client.call("Metadata", 0, Topics=[]).Topics]
    assert [t.Name for t in client.metadata([topic]).Topics] == [topic]


def test_metadata_by_topic_id(client, topic):
    topic_id = client.create_topic(topic)
    r = client.call("Metadata", 12, Topics=[{"TopicId": topic_id, "Name": None}])
    assert (r.Topics[0].ErrorCode, r.Topics[0].Name) == (0, topic)
    r = client.call("Metadata", 12, Topics=[{"TopicId": uuid.uuid4(), "Name": None}])
    assert r.Topics[0].ErrorCode == raw.UNKNOWN_TOPIC_ID


def test_unknown_topic_is_not_made_when_not_asked_for(client, topic):
    assert client.metadata([topic], auto_create=False).Topics[0].ErrorCode == raw.UNKNOWN_TOPIC
    time.sleep(0.1)
    assert client.metadata([topic]).Topics[0].ErrorCode == raw.UNKNOWN_TOPIC


def test_s15_auto_creation(client, topic):
    first = client.metadata([topic], auto_create=True).Topics[0]
    assert first.ErrorCode in (0, raw.UNKNOWN_TOPIC, 5)     # Kafka makes clients ask again
    for _ in range(200):
        t = client.metadata([topic]).Topics[0]
        if t.ErrorCode == 0 and t.Partitions:
            break
        time.sleep(0.02)
    assert t.ErrorCode == 0 and len(t.Partitions) == 4


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ü", "x" * 250, "a\n", "a:b",
                                  "a\0b"])
def test_s15_invalid_names(client, name):
    assert client.metadata([name], auto_create=True).Topics[0].ErrorCode == raw.INVALID_TOPIC
    r = client.call("CreateTopics", 7, timeoutMs=5000, Topics=[
        {"Name": name, "NumPartitions": 1, "ReplicationFactor": 1}])
    assert r.Topics[0].ErrorCode == raw.INVALID_TOPIC


@pytest.mark.parametrize("name", ["x" * 249, "a.b.c", "default.x", "a..b", ".a", "a.", "UPPER",
                                  "__", "-", "_x-1.Y", "a_b"])
def test_names_round_trip(client, name):
    if client.metadata([name]).Topics[0].ErrorCode:
        client.create_topic(name, 1)
    assert client.produce(name, batch([b"x"])).ErrorCode == 0
    assert client.metadata([name]).Topics[0].Name == name
    assert client.records(name)[-1].value == b"x"
    client.delete_topic(name)


def test_names_that_only_look_alike_are_different_topics(client, topic, peer):
    names = [topic + "-A", topic + "-a"]
    if peer == "lakestream":
        names += [topic + ".x", "default." + topic + ".x"]
    for n in names:
        client.create_topic(n)
        client.produce(n, batch([n.encode()]))
    for n in names:
        assert [r.value for r in client.records(n)] == [n.encode()]


def test_b026_leader_epochs(client, topic):
    client.create_topic(topic)
    p = client.metadata([topic]).Topics[0].Partitions[0]
    assert p.LeaderEpoch >= 0
    client.produce(topic, batch([b"x"]))
    for api in ("fetch", "list"):
        for epoch, expected in ((p.LeaderEpoch, 0), (-1, 0),
                                (p.LeaderEpoch + 5, raw.UNKNOWN_LEADER_EPOCH)):
            if api == "fetch":
                got = client.fetch(topic, 0, 0, leader_epoch=epoch).ErrorCode
            else:
                r = client.call("ListOffsets", 7, ReplicaId=-1, Topics=[
                    {"Name": topic, "Partitions": [{"PartitionIndex": 0, "Timestamp": -1,
                                                    "CurrentLeaderEpoch": epoch}]}])
                got = r.Topics[0].Partitions[0].ErrorCode
            assert got == expected, (api, epoch)
    assert client.list_offset(topic, -1).LeaderEpoch == p.LeaderEpoch
    b = raw.parse_batches(client.fetch(topic, 0, 0).Records)[0]
    assert b.leader_epoch == p.LeaderEpoch and b.crc_good


def test_b026_offset_for_leader_epoch(client, topic):
    client.create_topic(topic)
    client.produce(topic, batch([b"x"] * 7))
    epoch = client.metadata([topic]).Topics[0].Partitions[0].LeaderEpoch
    for version in (2, 3, 4):
        r = client.call("OffsetForLeaderEpoch", version, **({"ReplicaId": -1} if version >= 3
                        else {}), Topics=[{"Topic": topic, "Partitions": [
                            {"Partition": 0, "LeaderEpoch": epoch},
                            ]}])
        p = r.Topics[0].Partitions[0]
        assert (p.ErrorCode, p.LeaderEpoch, p.EndOffset) == (0, epoch, 7)
        r = client.call("OffsetForLeaderEpoch", version, Topics=[
            {"Topic": topic, "Partitions": [{"Partition": 0, "LeaderEpoch": epoch + 3}]}])
        p = r.Topics[0].Partitions[0]
        assert (p.ErrorCode, p.LeaderEpoch, p.EndOffset) == (0, -1, -1)
    r = client.call("OffsetForLeaderEpoch", 4, Topics=[
        {"Topic": "no-" + topic, "Partitions": [{"Partition": 0, "LeaderEpoch": 0}]}])
    assert r.Topics[0].Partitions[0].ErrorCode == raw.UNKNOWN_TOPIC


def sample(address, topic, seen, stop):
    while not stop.is_set():
        try:
            with Client(address, timeout=2) as c:
                while not stop.is_set():
                    t = c.metadata([topic]).Topics[0]
                    seen.append((t.ErrorCode, len(t.Partitions),
                                 tuple(p.LeaderEpoch for p in t.Partitions)))
                    time.sleep(0.01)
        except OSError:
            time.sleep(0.01)


def test_b026_b027_epochs_and_counts_over_restarts(fresh, topic, peer):
    """A sampler asks all the time while the server restarts, by signal and by kill."""
    s = fresh()
    with Client(s.address) as c:
        topic_id = c.create_topic(topic, 12)
    seen, stop = [], threading.Event()
    t = threading.Thread(target=sample, args=(s.address, topic, seen, stop))
    t.start()
    try:
        for i in range(2 if peer == "kafka" else 6):
            time.sleep(0.3)
            s.restart(kill=bool(i % 2) and peer != "kafka")
            with Client(s.address) as c:
                c.wait_topic(topic, 12)
                assert c.topic_id(topic) == topic_id
    finally:
        stop.set()
        t.join()
    good = [x for x in seen if x[0] == 0]
    assert good
    if peer == "kafka":             # it answers before its metadata has been loaded
        return
    assert {(error, count) for error, count, _ in seen if error in (0, raw.UNKNOWN_TOPIC)} == \
        {(0, 12)}
    for earlier, later in zip(good, good[1:]):
        assert all(a <= b for a, b in zip(earlier[2], later[2]))


def test_b027_metadata_under_load_never_shrinks(client, topic, server):
    client.create_topic(topic, 12)
    seen, stop = [], threading.Event()
    t = threading.Thread(target=sample, args=(server.address, topic, seen, stop))
    t.start()
    try:
        for i in range(60):
            client.create_topic(f"{topic}-{i}", 3)
            client.produce_many(topic, {p: batch([b"x"]) for p in range(12)})
            client.delete_topic(f"{topic}-{i}")
    finally:
        stop.set()
        t.join()
    assert {(error, count) for error, count, _ in seen} == {(0, 12)}


def test_b028_preferred_replica(client, topic):
    client.create_topic(topic)
    for rack in ("", "zone-a", "zone-b"):
        began = time.monotonic()
        p = client.fetch(topic, 0, 0, version=11, rack=rack, max_wait=400)
        assert p.PreferredReadReplica == -1
        assert time.monotonic() - began > 0.35
        client_a = client.metadata([topic]).Topics[0].Partitions[0].LeaderId
        assert client_a == client.metadata([topic]).Topics[0].Partitions[0].LeaderId


def test_s13_fetch_v11_fields(client, topic):
    client.create_topic(topic)
    client.produce(topic, batch([b"x"]))
    r = client.fetch_raw(topic, 0, 0, version=11)
    p = r.Responses[0].Partitions[0]
    assert (r.ErrorCode, r.ThrottleTimeMs) == (0, 0)
    assert (p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset,
            p.PreferredReadReplica) == (0, 1, 1, 0, -1)
    assert p.AbortedTransactions in (None, [])


def test_describe_cluster(client):
    for version in range(client.newest("DescribeCluster") + 1):
        r = client.call("DescribeCluster", version)
        assert r.ErrorCode == 0 and r.ClusterId
        assert [(b.Host, b.Port) for b in r.Brokers] == [client.address]
        assert r.ControllerId == r.Brokers[0].BrokerId


def test_describe_topic_partitions(client, topic):
    client.create_topic(topic, 5)
    r = client.call("DescribeTopicPartitions", 0, Topics=[{"Name": topic}])
    t = r.Topics[0]
    assert (t.ErrorCode, t.Name, [p.PartitionIndex for p in t.Partitions]) == \
        (0, topic, [0, 1, 2, 3, 4])
    assert r.NextCursor is None
    for p in t.Partitions:          # null would break the Java client
        assert p.EligibleLeaderReplicas == [] and p.LastKnownElr == []
    r = client.call("DescribeTopicPartitions", 0, Topics=[{"Name": topic}],
                    ResponsePartitionLimit=2)
    assert [p.PartitionIndex for p in r.Topics[0].Partitions] == [0, 1]
    assert (r.NextCursor.TopicName, r.NextCursor.PartitionIndex) == (topic, 2)
    r = client.call("DescribeTopicPartitions", 0, Topics=[{"Name": topic}],
                    Cursor={"TopicName": topic, "PartitionIndex": 2})
    assert [p.PartitionIndex for p in r.Topics[0].Partitions] == [2, 3, 4]
    r = client.call("DescribeTopicPartitions", 0, Topics=[{"Name": "no-" + topic}])
    assert r.Topics[0].ErrorCode == raw.UNKNOWN_TOPIC
