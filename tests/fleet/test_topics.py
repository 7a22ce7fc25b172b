"""Topics, and who is shown as their leader: every broker says the same, at once."""
import time
from collections import Counter

import pytest

import raw
from brokers import log_of, until
from raw import Client



POLLS = 2       # seconds; fleet.poll.ms is 50 here


@pytest.fixture
def clients(trio):
    made = [Client(b.address) for b in trio.brokers]
    yield made
    for c in made:
        c.close()


def create(client, topic, partitions=1, **configs):
    """Without waiting for anything after the answer."""
    r = client.call("CreateTopics", 7, timeoutMs=30000, Topics=[{
        "Name": topic, "NumPartitions": partitions, "ReplicationFactor": 1, "Configs": [
            {"Name": k.replace("_", "."), "Value": str(v)} for k, v in configs.items()]}])
    assert r.Topics[0].ErrorCode == 0, r
    return r.Topics[0].TopicId


def described(client, topic):
    r = client.call("DescribeConfigs", 4, Resources=[
        {"ResourceType": 2, "ResourceName": topic, "ConfigurationKeys": None}])
    return {c.Name: c.Value for c in r.Results[0].Configs}


def others(clients, i):
    return [c for n, c in enumerate(clients) if n != i]


# ---- topics ----

def test_a_topic_is_known_to_all_at_once(clients, topic):
    for i in range(30):
        name = f"{topic}-{i}"
        made = create(clients[i % 3], name, 1 + i)
        for c in others(clients, i % 3):
            t = c.metadata([name]).Topics[0]
            assert (t.ErrorCode, t.TopicId, len(t.Partitions)) == (0, made, 1 + i), (i, t)


def test_a_topic_is_known_to_produce_fetch_and_offsets_at_once(clients, topic):
    """No Metadata request in between that would make it known."""
    for i in range(9):
        name, (first, second, third) = f"{topic}-{i}", (clients * 2)[i % 3:i % 3 + 3]
        create(first, name)
        assert second.produce(name, raw.batch([b"x"])).ErrorCode == 0
        assert third.list_offset(name, -1).Offset == 1
        create(second, name + "-empty")
        p = third.fetch(name + "-empty", 0, 0, max_wait=0)
        assert (p.ErrorCode, p.HighWatermark) == (0, 0)


def test_a_topic_is_known_by_its_id_at_once(clients, topic):
    for i in range(6):
        made = create(clients[i % 3], f"{topic}-{i}")
        for c in others(clients, i % 3):
            t = c.call("Metadata", 12, Topics=[{"TopicId": made, "Name": None}]).Topics[0]
            assert (t.ErrorCode, t.Name) == (0, f"{topic}-{i}")


def test_a_list_of_all_topics_has_it(clients, topic):
    create(clients[0], topic)
    for c in clients[1:]:
        assert topic in {t.Name for t in c.metadata(None).Topics}
    clients[1].delete_topic(topic)
    for c in (clients[0], clients[2]):
        assert topic not in {t.Name for t in c.metadata(None).Topics}


def test_deleted_topics_are_gone_within_a_poll(clients, topic):
    """Nothing is acknowledged in between; and whoever is asked for offsets knows at once."""
    for i in range(12):
        name = f"{topic}-{i}"
        create(clients[i % 3], name)
        for c in clients:           # all have met it
            assert c.produce(name, raw.batch([b"x"])).ErrorCode == 0
        clients[(i + 1) % 3].delete_topic(name)
        for c in clients:
            assert c.produce(name, raw.batch([b"x"])).ErrorCode == raw.UNKNOWN_TOPIC
            assert c.list_offset(name, -1).ErrorCode == raw.UNKNOWN_TOPIC
            until(lambda: c.metadata([name]).Topics[0].ErrorCode == raw.UNKNOWN_TOPIC, POLLS)


def test_a_name_that_comes_again_is_another_topic(clients, topic):
    """Who has not seen that yet may say that it is unknown, for a poll; nothing that is
    acknowledged is of the old one."""
    seen = set()
    for i in range(6):
        first, second, third = (clients[(i + n) % 3] for n in range(3))
        made = create(first, topic)
        assert made not in seen
        seen.add(made)
        p = until(lambda: [p for p in [second.produce(topic, raw.batch([b"x"] * (i + 1)))]
                           if p.ErrorCode != raw.UNKNOWN_TOPIC], POLLS)[0]
        assert (p.ErrorCode, p.BaseOffset) == (0, 0)
        p = until(lambda: [p for p in [third.list_offset(topic, -1)]
                           if p.ErrorCode != raw.UNKNOWN_TOPIC], POLLS)[0]
        assert (p.ErrorCode, p.Offset) == (0, i + 1)
        assert [r.value for r in log_of(third, topic)] == [b"x"] * (i + 1)
        for c in clients:
            until(lambda: c.metadata([topic]).Topics[0].TopicId == made, POLLS)
        third.delete_topic(topic)


def test_two_brokers_cannot_both_make_it(clients, topic):
    for i in range(10):
        name = f"{topic}-{i}"
        for c in clients:
            c.send("CreateTopics", 7, {"timeoutMs": 30000, "Topics": [
                {"Name": name, "NumPartitions": 2, "ReplicationFactor": 1}]})
        codes = sorted(c.recv().Topics[0].ErrorCode for c in clients)
        assert codes == [0, raw.TOPIC_EXISTS, raw.TOPIC_EXISTS]
        assert len({c.topic_id(name) for c in clients}) == 1


def test_partitions_that_were_added_are_there(clients, topic):
    """To whom asks for them at once, in Metadata within a poll."""
    create(clients[0], topic)
    for i in range(1, 7):
        r = clients[i % 3].call("CreatePartitions", 3, TimeoutMs=30000, Topics=[
            {"Name": topic, "Count": 1 + 10 * i, "Assignments": None}])
        assert r.Results[0].ErrorCode == 0, r
        for c in others(clients, i % 3):
            assert c.produce(topic, raw.batch([b"x"]), 10 * i).ErrorCode == 0
            until(lambda: len(c.metadata([topic]).Topics[0].Partitions) == 1 + 10 * i, POLLS)
    assert [c.end_offset(topic, 30) for c in clients] == [2, 2, 2]


def test_settings_are_known_within_a_poll(clients, topic):
    create(clients[0], topic, max_message_bytes=100_000)
    for i in range(1, 7):
        limit = 100 + i
        r = clients[i % 3].call("IncrementalAlterConfigs", 1, Resources=[
            {"ResourceType": 2, "ResourceName": topic, "Configs": [
                {"Name": "max.message.bytes", "ConfigOperation": 0, "Value": str(limit)}]}])
        assert r.Responses[0].ErrorCode == 0, r
        for c in others(clients, i % 3):
            until(lambda: described(c, topic)["max.message.bytes"] == str(limit), POLLS)
    for c in clients:
        assert c.produce(topic, raw.batch([b"x" * 500])).ErrorCode == raw.MESSAGE_TOO_LARGE


# ---- leaders ----

def leaders(client, topic):
    t = client.metadata([topic]).Topics[0]
    assert t.ErrorCode == 0, t
    return {p.PartitionIndex: p.LeaderId for p in t.Partitions}


def epochs(client, topic):
    return {p.PartitionIndex: p.LeaderEpoch for p in client.metadata([topic]).Topics[0].Partitions}


def shown(client):
    return {b.NodeId: (f"{b.Host}:{b.Port}", b.Rack) for b in client.metadata([]).Brokers}


def test_all_brokers_are_shown_by_all(trio, clients):
    expected = {b.number: (b.kafka, b.rack) for b in trio.brokers}
    for c in clients:
        assert shown(c) == expected
        r = c.call("DescribeCluster", 1)
        assert {b.BrokerId for b in r.Brokers} == set(expected)
        assert r.ClusterId == clients[0].metadata([]).ClusterId


def test_leaders_are_spread_and_the_same_from_everyone(clients, topic):
    create(clients[0], topic, 90)
    first = leaders(clients[0], topic)
    count = Counter(first.values())
    assert set(count) == {1, 2, 3} and min(count.values()) >= 10, count
    for c in clients[1:]:
        assert leaders(c, topic) == first


@pytest.mark.parametrize("hint", ["zone={}", "zone_id={}", "diskless_az={}", "ws_az={}",
                                  "my-app,zone={}", "zone={},app=x"])
def test_a_client_sees_leaders_of_its_zone(trio, clients, topic, hint):
    create(clients[0], topic, 20)
    for zone, number in (("a", 1), ("b", 2), ("c", 3)):
        for b in trio.brokers:
            with Client(b.address, client_id=hint.format(zone)) as c:
                assert set(leaders(c, topic).values()) == {number}, (zone, b.number)
                assert set(shown(c)) == {1, 2, 3}


def test_a_zone_without_brokers_sees_all(trio, clients, topic):
    create(clients[0], topic, 30)
    with Client(trio[1].address, client_id="zone=elsewhere") as c:
        assert leaders(c, topic) == leaders(clients[0], topic)
        assert set(leaders(c, topic).values()) == {1, 2, 3}


# ---- brokers that come and go ----

def wait_shown(client, expected, seconds):
    began = time.monotonic()
    until(lambda: set(shown(client)) == expected, seconds)
    return time.monotonic() - began


def test_a_killed_broker_is_not_shown_any_more(fleet):
    f = fleet(3)
    with Client(f[1].address) as one, Client(f[3].address) as three:
        one.create_topic("t", 60)
        before, epochs_before = leaders(one, "t"), epochs(one, "t")
        f[2].kill()
        took = wait_shown(one, {1, 3}, f.settings["broker.session.ms"] / 1000 + 3)
        wait_shown(three, {1, 3}, 2)
        assert took > 0.5, "it was only late, not dead"
        after = leaders(one, "t")
        assert 2 not in after.values() and leaders(three, "t") == after
        moved = {p for p in before if before[p] != after[p]}
        assert moved == {p for p in before if before[p] == 2}, "others moved as well"
        assert all(epochs(one, "t")[p] >= e for p, e in epochs_before.items())
        f[2].start()
        wait_shown(one, {1, 2, 3}, 3)
        wait_shown(three, {1, 2, 3}, 3)
        assert leaders(one, "t") == before
        assert all(epochs(one, "t")[p] >= e for p, e in epochs_before.items())


def test_a_stopped_broker_is_not_shown_at_once(fleet):
    f = fleet(3)
    with Client(f[1].address) as one:
        one.create_topic("t", 30)
        f[2].stop()
        assert wait_shown(one, {1, 3}, 1.5) < 1, "as if it had been killed"
        assert set(leaders(one, "t").values()) == {1, 3}


def test_a_broker_that_stands_still_comes_back(fleet):
    """It is not fenced: nobody needed what it had."""
    f = fleet(3)
    with Client(f[1].address) as one, Client(f[2].address) as two:
        one.create_topic("t")
        f[2].pause()
        wait_shown(one, {1, 3}, f.settings["broker.session.ms"] / 1000 + 3)
        assert one.produce("t", raw.batch([b"meanwhile"])).BaseOffset == 0
        f[2].resume()
        wait_shown(one, {1, 2, 3}, 5)
        assert two.produce("t", raw.batch([b"afterwards"])).BaseOffset == 1
        assert [r.value for r in log_of(two, "t")] == [b"meanwhile", b"afterwards"]


def test_a_broker_that_joins_takes_a_share(fleet):
    f = fleet(1)
    with Client(f[1].address) as one:
        one.create_topic("t", 60)
        assert set(leaders(one, "t").values()) == {1}
        one.produce("t", raw.batch([b"before"]))
        new = f.add(rack="z").start()
        wait_shown(one, {1, 2}, 2)
        share = Counter(leaders(one, "t").values())
        assert min(share[1], share[2]) >= 15, share
        with Client(new.address) as two:
            assert [r.value for r in log_of(two, "t")] == [b"before"]
            assert shown(two)[2] == (new.kafka, "z")


def test_brokers_that_start_all_at_once_on_nothing(fleet):
    """Each finds the bucket and the database empty, or half made by another."""
    f = fleet(4, start=False)
    f.at_once(f.brokers)
    with Client(f[1].address) as one, Client(f[4].address) as four:
        wait_shown(one, {1, 2, 3, 4}, 3)
        one.create_topic("t")
        assert four.produce("t", raw.batch([b"x"])).BaseOffset == 0
        assert one.metadata([]).ClusterId == four.metadata([]).ClusterId
