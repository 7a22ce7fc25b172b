"""Topics and their settings (cases G, and storage items 4, 6, 7, 8, 9)."""
import pytest

import raw
from raw import Client, Record, batch

TOPIC, BROKER = 2, 4
RETENTION = "-1"                # log.retention.ms of the shared server

# What Kafka 4.x calls the settings of a topic.
TOPIC_SETTINGS = {
    "cleanup.policy", "compression.type", "delete.retention.ms", "file.delete.delay.ms",
    "flush.messages", "flush.ms", "index.interval.bytes", "max.compaction.lag.ms",
    "max.message.bytes", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
    "message.timestamp.type", "min.cleanable.dirty.ratio", "min.compaction.lag.ms",
    "min.insync.replicas", "preallocate", "retention.bytes", "retention.ms", "segment.bytes",
    "segment.index.bytes", "segment.jitter.ms", "segment.ms", "unclean.leader.election.enable",
}


@pytest.fixture
def client(server):
    with Client(server.address) as c:
        yield c


def describe(client, name, keys=None, kind=TOPIC, version=4, synonyms=True, docs=False):
    body = {"Resources": [{"ResourceType": kind, "ResourceName": name,
                           "ConfigurationKeys": keys}]}
    if version >= 1:
        body["IncludeSynonyms"] = synonyms
    if version >= 3:
        body["IncludeDocumentation"] = docs
    r = client.call("DescribeConfigs", version, **body).Results[0]
    return r.ErrorCode, {c.Name: c for c in r.Configs}


def create(client, **topics_by_name):
    r = client.call("CreateTopics", 7, timeoutMs=10000, Topics=[
        {"Name": n, **t} for n, t in topics_by_name.items()])
    return {t.Name: t for t in r.Topics}


# ---- B031 ----------------------------------------------------------------------------------

def test_b031_all_keys(client, topic):
    client.create_topic(topic, 1, {"retention.ms": 12345, "segment.bytes": 2000000})
    low, high = client.versions()["DescribeConfigs"]
    for version in range(low, high + 1):
        code, configs = describe(client, topic, version=version)
        assert code == 0
        assert configs["retention.ms"].Value == "12345"
        assert TOPIC_SETTINGS <= set(configs), (version, TOPIC_SETTINGS - set(configs))
        if version >= 1:
            assert configs["retention.ms"].ConfigSource == 1                # topic
            assert configs["max.message.bytes"].ConfigSource in (4, 5)      # static, default
            assert [(s.Name, s.Value) for s in configs["retention.ms"].Synonyms][0] == \
                ("retention.ms", "12345")
            assert [(s.Name, s.Source) for s in configs["segment.bytes"].Synonyms] == \
                [("segment.bytes", 1), ("log.segment.bytes", 5)]
        if version >= 3:
            assert configs["retention.ms"].ConfigType == 5                  # long
            assert configs["max.message.bytes"].ConfigType == 3             # int
            assert configs["preallocate"].ConfigType == 1                   # boolean
            assert configs["cleanup.policy"].ConfigType == 7                # list
            assert configs["compression.type"].ConfigType == 2              # string
            assert configs["min.cleanable.dirty.ratio"].ConfigType == 6     # double


def test_b031_named_keys_only(client, topic):
    client.create_topic(topic)
    code, configs = describe(client, topic, ["retention.ms", "cleanup.policy", "no.such"])
    assert code == 0 and set(configs) == {"retention.ms", "cleanup.policy"}
    assert configs["retention.ms"].Value == RETENTION
    assert configs["cleanup.policy"].Value == "delete"


def test_b031_documentation_and_synonyms_when_asked(client, topic):
    client.create_topic(topic, 1, {"retention.ms": 99})
    _, configs = describe(client, topic, ["retention.ms"], docs=True)
    assert configs["retention.ms"].Documentation
    _, configs = describe(client, topic, ["retention.ms"], synonyms=False)
    assert not configs["retention.ms"].Documentation
    assert configs["retention.ms"].Synonyms == []


def test_b031_broker(client):
    node = str(client.metadata([]).Brokers[0].NodeId)
    for version in range(client.versions()["DescribeConfigs"][0], 5):
        code, configs = describe(client, node, kind=BROKER, version=version)
        assert code == 0
        assert {"num.partitions", "auto.create.topics.enable", "message.max.bytes",
                "log.retention.ms"} <= set(configs)
        assert configs["num.partitions"].Value == "4"
    code, configs = describe(client, node, ["num.partitions"], kind=BROKER)
    assert set(configs) == {"num.partitions"}


def test_b031_unknown_resources(client, topic):
    assert describe(client, "no-" + topic)[0] == raw.UNKNOWN_TOPIC
    assert describe(client, "", kind=TOPIC)[0] == raw.INVALID_TOPIC
    assert describe(client, "notanumber", kind=BROKER)[0] == raw.INVALID_REQUEST


# ---- B032 ----------------------------------------------------------------------------------

def test_b032_your_default_please(client, topic):
    r = create(client, **{topic: {"NumPartitions": -1, "ReplicationFactor": -1}})[topic]
    assert (r.ErrorCode, r.NumPartitions) == (0, 4)
    assert r.ReplicationFactor >= 1 and len(r.Configs) > 10
    client.wait_topic(topic, 4)


@pytest.mark.parametrize("version", range(2, 8))
def test_b032_defaults_in_every_version(client, topic, version):
    r = client.call("CreateTopics", version, timeoutMs=10000, Topics=[
        {"Name": topic, "NumPartitions": -1, "ReplicationFactor": -1}])
    assert r.Topics[0].ErrorCode == 0
    client.wait_topic(topic, 4)


@pytest.mark.parametrize("factor", [1, pytest.param(2, marks=pytest.mark.lakestream),
                                    pytest.param(3, marks=pytest.mark.lakestream)])
def test_b032_any_replication_factor(client, topic, factor):
    r = create(client, **{topic: {"NumPartitions": 2, "ReplicationFactor": factor}})[topic]
    assert (r.ErrorCode, r.NumPartitions) == (0, 2)
    client.wait_topic(topic, 2)


def test_b032_refusals_do_not_stop_the_others(client, topic):
    r = create(client, **{
        topic + "-zero": {"NumPartitions": 0, "ReplicationFactor": 1},
        topic + "-minus": {"NumPartitions": -2, "ReplicationFactor": 1},
        topic + "-factor": {"NumPartitions": 1, "ReplicationFactor": 0},
        topic + "-config": {"NumPartitions": 1, "ReplicationFactor": 1,
                            "Configs": [{"Name": "no.such.config", "Value": "1"}]},
        topic + "-value": {"NumPartitions": 1, "ReplicationFactor": 1,
                           "Configs": [{"Name": "retention.ms", "Value": "soon"}]},
        topic: {"NumPartitions": 1, "ReplicationFactor": 1}})
    assert r[topic].ErrorCode == 0
    assert r[topic + "-zero"].ErrorCode == raw.INVALID_PARTITIONS
    assert r[topic + "-minus"].ErrorCode == raw.INVALID_PARTITIONS
    assert r[topic + "-factor"].ErrorCode == raw.INVALID_REPLICATION_FACTOR
    assert r[topic + "-config"].ErrorCode == raw.INVALID_CONFIG
    assert r[topic + "-value"].ErrorCode == raw.INVALID_CONFIG
    assert all(t.ErrorMessage for n, t in r.items() if n != topic)
    assert create(client, **{topic: {"NumPartitions": 1, "ReplicationFactor": 1}})[topic] \
        .ErrorCode == raw.TOPIC_EXISTS


def test_b032_the_same_name_twice(client, topic):
    t = {"Name": topic, "NumPartitions": 1, "ReplicationFactor": 1}
    r = client.call("CreateTopics", 7, timeoutMs=10000, Topics=[t, t])
    assert all(x.ErrorCode == raw.INVALID_REQUEST for x in r.Topics)


def test_b032_validate_only(client, topic):
    r = client.call("CreateTopics", 7, timeoutMs=10000, validateOnly=True, Topics=[
        {"Name": topic, "NumPartitions": 2, "ReplicationFactor": 1}])
    assert (r.Topics[0].ErrorCode, r.Topics[0].NumPartitions) == (0, 2)
    assert client.metadata([topic]).Topics[0].ErrorCode == raw.UNKNOWN_TOPIC


def test_b032_manual_assignment(client, topic):
    node = client.metadata([]).Brokers[0].NodeId
    r = create(client, **{topic: {
        "NumPartitions": -1, "ReplicationFactor": -1, "Assignments": [
            {"PartitionIndex": 0, "BrokerIds": [node]},
            {"PartitionIndex": 1, "BrokerIds": [node]}]}})[topic]
    assert (r.ErrorCode, r.NumPartitions) == (0, 2)


@pytest.mark.parametrize("version", range(2, 8))
def test_every_create_and_delete_version(client, topic, version):
    name = f"{topic}-{version}"
    r = client.call("CreateTopics", version, timeoutMs=10000, Topics=[
        {"Name": name, "NumPartitions": 1, "ReplicationFactor": 1}])
    assert r.Topics[0].ErrorCode == 0
    client.wait_topic(name, 1)
    if version < 6:
        r = client.call("DeleteTopics", version, TopicNames=[name, "no-" + name], TimeoutMs=5000)
    else:
        r = client.call("DeleteTopics", 6, TimeoutMs=5000, Topics=[
            {"Name": name}, {"Name": "no-" + name}])
    assert {t.Name: t.ErrorCode for t in r.Responses} == {name: 0, "no-" + name: 3}


@pytest.mark.lakestream
def test_delete_twice_in_a_request(client, topic):
    """One of the two is told that there is no such topic; another topic is not affected."""
    client.create_topic(topic)
    client.create_topic(topic + "-other")
    r = client.call("DeleteTopics", 5, TopicNames=[topic, topic + "-other", topic],
                    TimeoutMs=30000)
    codes = [t.ErrorCode for t in r.Responses]
    assert codes[1] == 0 and set(codes) <= {0, raw.UNKNOWN_TOPIC}
    assert client.metadata([topic]).Topics[0].ErrorCode == raw.UNKNOWN_TOPIC


def test_delete_by_id(client, topic):
    import uuid
    topic_id = client.create_topic(topic)
    r = client.call("DeleteTopics", 6, TimeoutMs=5000, Topics=[
        {"Name": None, "TopicId": uuid.uuid4()}, {"Name": None, "TopicId": topic_id}])
    assert sorted(t.ErrorCode for t in r.Responses) == [0, raw.UNKNOWN_TOPIC_ID]


# ---- settings ------------------------------------------------------------------------------

def alter(client, topic, ops, validate=False):
    """ops: [(name, value, op)], op 0 set, 1 delete, 2 append, 3 subtract"""
    r = client.call("IncrementalAlterConfigs", 1, ValidateOnly=validate, Resources=[
        {"ResourceType": TOPIC, "ResourceName": topic, "Configs": [
            {"Name": n, "ConfigOperation": op, "Value": v} for n, v, op in ops]}])
    return r.Responses[0].ErrorCode


def value(client, topic, name):
    import time
    time.sleep(0.1)             # Kafka's broker learns of it from its controller
    return describe(client, topic, [name])[1][name].Value


def test_s7_incremental_alter(client, topic):
    client.create_topic(topic)
    assert alter(client, topic, [("retention.ms", "1000", 0), ("max.message.bytes", "5000", 0)]) \
        == 0
    assert value(client, topic, "retention.ms") == "1000"
    assert value(client, topic, "max.message.bytes") == "5000"
    assert alter(client, topic, [("retention.ms", None, 1)]) == 0
    assert value(client, topic, "retention.ms") == RETENTION
    assert value(client, topic, "max.message.bytes") == "5000"


def test_s7_append_and_subtract(client, topic, server):
    client.create_topic(topic)
    code = alter(client, topic, [("cleanup.policy", "compact", 2)])
    if code == 0:               # where key compaction exists
        assert value(client, topic, "cleanup.policy") == "delete,compact"
        assert alter(client, topic, [("cleanup.policy", "delete", 3)]) == 0
        assert value(client, topic, "cleanup.policy") == "compact"
    else:
        assert code in (raw.INVALID_CONFIG, raw.INVALID_REQUEST)
        assert value(client, topic, "cleanup.policy") == "delete"
    # Only lists can be appended to.
    assert alter(client, topic, [("retention.ms", "5", 2)]) in (raw.INVALID_CONFIG,
                                                                raw.INVALID_REQUEST)
    assert alter(client, topic, [("retention.ms", "5", 3)]) in (raw.INVALID_CONFIG,
                                                                raw.INVALID_REQUEST)
    assert server.alive()


@pytest.mark.parametrize("name, bad", [
    ("retention.ms", "x"), ("retention.ms", ""), ("retention.ms", "-2"),
    ("max.message.bytes", "-1"), ("max.message.bytes", "99999999999999"),
    ("cleanup.policy", "shred"), ("compression.type", "rar"),
    ("message.timestamp.type", "Never"), ("no.such.setting", "1"),
    ("min.cleanable.dirty.ratio", "2"), ("preallocate", "perhaps")])
def test_bad_values_are_refused_and_change_nothing(client, topic, name, bad):
    client.create_topic(topic)
    before = describe(client, topic)[1]
    assert alter(client, topic, [("segment.ms", "123456", 0), (name, bad, 0)]) in (
        raw.INVALID_CONFIG, raw.INVALID_REQUEST)
    assert describe(client, topic)[1] == before


def test_alter_validate_only(client, topic):
    client.create_topic(topic)
    assert alter(client, topic, [("retention.ms", "1", 0)], validate=True) == 0
    assert value(client, topic, "retention.ms") == RETENTION


def test_alter_of_unknown_topic(client, topic):
    assert alter(client, "no-" + topic, [("retention.ms", "1", 0)]) == raw.UNKNOWN_TOPIC


def test_alter_configs_replaces_all(client, topic):
    client.create_topic(topic, 1, {"retention.ms": 5, "segment.ms": 7777})
    r = client.call("AlterConfigs", 2, Resources=[
        {"ResourceType": TOPIC, "ResourceName": topic,
         "Configs": [{"Name": "segment.ms", "Value": "8888"}]}])
    assert r.Responses[0].ErrorCode == 0
    assert value(client, topic, "segment.ms") == "8888"
    assert value(client, topic, "retention.ms") == RETENTION


@pytest.mark.lakestream
def test_key_compaction_is_refused_with_words(client, topic):
    r = create(client, **{topic: {"NumPartitions": 1, "ReplicationFactor": 1, "Configs": [
        {"Name": "cleanup.policy", "Value": "compact"}]}})[topic]
    assert r.ErrorCode in (raw.INVALID_CONFIG, 44)
    assert "compact" in r.ErrorMessage


def test_s9_keyless_record_on_a_compacted_topic(client, topic, peer):
    """Where compaction is refused, no topic of that kind can exist, so none can be keyless."""
    r = create(client, **{topic: {"NumPartitions": 1, "ReplicationFactor": 1, "Configs": [
        {"Name": "cleanup.policy", "Value": "compact"}]}})[topic]
    if r.ErrorCode:
        assert peer == "lakestream"
        return
    client.wait_topic(topic, 1)
    p = client.produce(topic, batch([Record(b"v", b"k"), Record(b"v", None)]))
    assert p.ErrorCode == raw.INVALID_RECORD
    assert [e.BatchIndex for e in p.RecordErrors] == [1]


def test_s8_max_message_bytes(client, topic):
    import os
    client.create_topic(topic, 1, {"max.message.bytes": 50 * 1024})
    p = client.produce(topic, batch([os.urandom(900_000)]))
    assert p.ErrorCode == raw.MESSAGE_TOO_LARGE
    assert alter(client, topic, [("max.message.bytes", "1000000", 0)]) == 0
    import time
    time.sleep(0.2)
    assert client.produce(topic, batch([os.urandom(900_000)])).ErrorCode == 0


# ---- partitions ----------------------------------------------------------------------------

def create_partitions(client, topic, count, version=3, validate=False, assignments=None):
    r = client.call("CreatePartitions", version, TimeoutMs=10000, ValidateOnly=validate, Topics=[
        {"Name": topic, "Count": count, "Assignments": assignments}])
    assert len(r.Results) == 1 and r.Results[0].Name == topic
    return r.Results[0].ErrorCode


def test_s4_create_partitions(client, topic):
    client.create_topic(topic, 2)
    client.produce(topic, batch([b"before"]), 1)
    for version, count in ((0, 3), (1, 4), (2, 5), (3, 6)):
        assert create_partitions(client, topic, count, version) == 0
        client.wait_topic(topic, count)
    assert client.produce(topic, batch([b"after"]), 5).BaseOffset == 0
    assert client.records(topic, 1)[0].value == b"before"
    for bad in (6, 5, 0, -1):
        assert create_partitions(client, topic, bad) == raw.INVALID_PARTITIONS
    assert create_partitions(client, "no-" + topic, 3) == raw.UNKNOWN_TOPIC
    assert create_partitions(client, topic, 9, validate=True) == 0
    assert len(client.metadata([topic]).Topics[0].Partitions) == 6


def test_many_partitions(client, topic):
    client.create_topic(topic, 200)
    got = client.produce_many(topic, {p: batch([b"%d" % p]) for p in range(200)})
    assert all(p.ErrorCode == 0 for p in got.values())
    assert [r.value for r in client.records(topic, 137)] == [b"137"]


def test_describe_log_dirs(client, topic):
    client.create_topic(topic, 2)
    client.produce(topic, batch([bytes(50_000)]))
    for version in range(client.versions()["DescribeLogDirs"][0],
                         client.newest("DescribeLogDirs") + 1):
        r = client.call("DescribeLogDirs", version, Topics=[
            {"Topic": topic, "Partitions": [0, 1]}])
        found = {(t.Name, p.PartitionIndex): p.PartitionSize for d in r.Results for t in d.Topics
                 for p in t.Partitions}
        assert set(found) == {(topic, 0), (topic, 1)}, version
        assert found[topic, 0] > 50_000 > found[topic, 1] >= 0


@pytest.mark.lakestream
def test_storage_of_many_topics_is_listed_at_once(client, topic):
    names = [f"{topic}-{i:03}" for i in range(100)]
    r = client.call("CreateTopics", 7, timeoutMs=30000, Topics=[
        {"Name": n, "NumPartitions": 1, "ReplicationFactor": 1} for n in names])
    assert all(t.ErrorCode == 0 for t in r.Topics)
    assert set(names) <= {t.Name for t in client.metadata(None).Topics}
    r = client.call("DeleteTopics", 6, TimeoutMs=30000, Topics=[{"Name": n} for n in names])
    assert all(t.ErrorCode == 0 for t in r.Responses)
    assert not set(names) & {t.Name for t in client.metadata(None).Topics}
