"""Fetch, offsets and the long poll (cases D), and the fetch and offset items of storage cases."""
import os
import threading
import time

import pytest

import raw
from raw import Client, Record, batch

T = 1_700_000_000_000
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


@pytest.fixture
def client(server):
    with Client(server.address) as c:
        yield c


@pytest.fixture
def made(client, topic):
    client.create_topic(topic)
    return topic


def values(partition):
    return [r.value for b in raw.parse_batches(partition.Records) for r in b.records]


# ---- limits --------------------------------------------------------------------------------

def test_b018_first_batch_larger_than_the_limits(client, topic):
    client.create_topic(topic, 2)
    big = os.urandom(126_000)
    client.produce_many(topic, {0: batch([big]), 1: batch([big])})
    for version in range(4, 13):
        r = client.fetch_raw(topic, {0: 0, 1: 0}, None, version=version, max_bytes=1,
                             partition_max_bytes=1)
        by = {p.PartitionIndex: p for p in r.Responses[0].Partitions}
        assert values(by[0]) == [big], version
        assert not by[1].Records, version


def test_b018_limit_walks_through(client, made):
    for i in range(20):
        client.produce(made, batch([b"%02d" % i * 5000]))
    offset = 0
    while offset < 20:
        p = client.fetch(made, 0, offset, max_bytes=1, partition_max_bytes=1)
        got = raw.parse_batches(p.Records)
        assert len(got) == 1 and got[0].base_offset == offset
        offset = got[0].last_offset + 1


def test_partition_max_bytes_bounds_each_partition(client, topic):
    client.create_topic(topic, 4)
    for _ in range(10):
        client.produce_many(topic, {p: batch([bytes(10_000)]) for p in range(4)})
    r = client.fetch_raw(topic, {p: 0 for p in range(4)}, None, partition_max_bytes=25_000)
    for p in r.Responses[0].Partitions:
        assert 10_000 < len(p.Records) <= 25_000


def test_max_bytes_bounds_the_answer(client, topic):
    client.create_topic(topic, 4)
    for _ in range(10):
        client.produce_many(topic, {p: batch([bytes(10_000)]) for p in range(4)})
    r = client.fetch_raw(topic, {p: 0 for p in range(4)}, None, max_bytes=35_000)
    total = sum(len(p.Records or b"") for p in r.Responses[0].Partitions)
    assert 10_000 < total <= 35_000 + 10_200


def test_s1_fetch_in_the_middle_of_a_batch(client, made):
    client.produce(made, batch([b"a0", b"a1"]))
    client.produce(made, batch([b"b2", b"b3"]))
    for offset in range(4):
        p = client.fetch(made, 0, offset)
        got = [r for b in raw.parse_batches(p.Records) for r in b.records if r.offset >= offset]
        assert [r.offset for r in got] == list(range(offset, 4))
        assert raw.parse_batches(p.Records)[0].last_offset >= offset


def test_s17_fairness_over_many_partitions(client, topic):
    """100 partitions and a small limit: rotating the order, as clients do, all progress."""
    client.create_topic(topic, 100)
    for p in range(0, 100, 20):
        client.produce_many(topic, {q: batch([bytes(2000)]) for q in range(p, p + 20)})
    left = dict.fromkeys(range(100), 0)
    for _ in range(150):
        if not left:
            break
        r = client.fetch_raw(topic, left, None, max_bytes=10_000, partition_max_bytes=4000)
        done = [p.PartitionIndex for t in r.Responses for p in t.Partitions if p.Records]
        assert done
        for p in done:
            del left[p]
    assert not left


# ---- sessions ------------------------------------------------------------------------------

def test_b019_fetch_session(client, topic):
    client.create_topic(topic, 3)
    r = client.fetch_raw(topic, {0: 0, 1: 0, 2: 0}, None, session=0, epoch=0, max_wait=10)
    session = r.SessionId
    if session == 0:                # no sessions: each fetch is full, which clients accept
        return
    assert len(r.Responses[0].Partitions) == 3
    client.produce_many(topic, {0: batch([b"zero"]), 2: batch([b"two"])})
    # Only changed partitions are answered.
    r = client.fetch_raw(topic, {}, None, session=session, epoch=1)
    assert sorted(p.PartitionIndex for p in r.Responses[0].Partitions) == [0, 2]
    # A forgotten partition leaves, although it has data.
    r = client.call("Fetch", 12, **{**client.fetch_body(topic, {0: 1}, None, session=session,
                                                        epoch=2, max_wait=10),
                                    "ForgottenTopicsData": [{"Topic": topic, "Partitions": [2]}]})
    answered = [p.PartitionIndex for t in r.Responses for p in t.Partitions]
    assert 2 not in answered
    # One that changed nothing and has nothing is not answered.
    client.produce(topic, batch([b"one"]), 1)
    r = client.fetch_raw(topic, {}, None, session=session, epoch=3)
    assert [p.PartitionIndex for t in r.Responses for p in t.Partitions] == [1]
    # Wrong epoch, unknown session, close.
    r = client.fetch_raw(topic, {}, None, session=session, epoch=77)
    assert r.ErrorCode == raw.INVALID_FETCH_SESSION_EPOCH
    r = client.fetch_raw(topic, {}, None, session=session + 12345, epoch=1)
    assert r.ErrorCode == raw.FETCH_SESSION_ID_NOT_FOUND
    r = client.fetch_raw(topic, {0: 0}, None, session=session, epoch=-1, max_wait=10)
    assert r.ErrorCode == 0 and r.SessionId == 0
    r = client.fetch_raw(topic, {}, None, session=session, epoch=4)
    assert r.ErrorCode == raw.FETCH_SESSION_ID_NOT_FOUND


def test_b019_session_by_topic_id(client, topic):
    client.create_topic(topic, 2)
    version = min(client.newest("Fetch"), 17)
    r = client.fetch_raw(topic, {0: 0, 1: 0}, None, version=version, session=0, epoch=0,
                         max_wait=10)
    if r.SessionId == 0:
        return
    client.produce(topic, batch([b"x"]), 1)
    r = client.fetch_raw(topic, {}, None, version=version, session=r.SessionId, epoch=1)
    assert [p.PartitionIndex for t in r.Responses for p in t.Partitions] == [1]
    assert r.Responses[0].TopicId == client.topic_id(topic)


def test_b019_sessions_do_not_grow_without_end(client, topic, server):
    client.create_topic(topic, 10)
    before = server.rss_bytes()
    for _ in range(3000):
        client.fetch_raw(topic, dict.fromkeys(range(10), 0), None, session=0, epoch=0, max_wait=0,
                         min_bytes=0)
    assert server.rss_bytes() - before < 64 << 20


# ---- the long poll -------------------------------------------------------------------------

def timed(function):
    began = time.monotonic()
    return function(), time.monotonic() - began


def test_b020_waits_for_max_wait(client, made):
    p, seconds = timed(lambda: client.fetch(made, 0, 0, max_wait=700))
    assert p.ErrorCode == 0 and not p.Records
    assert 0.65 < seconds < 2


def test_b020_min_bytes_zero_answers_at_once(client, made):
    _, seconds = timed(lambda: client.fetch(made, 0, 0, max_wait=5000, min_bytes=0))
    assert seconds < 1


def test_b020_wakes_on_new_data(client, made, server):
    def produce():
        time.sleep(1)
        with Client(server.address) as other:
            other.produce(made, batch([b"now"]))

    t = threading.Thread(target=produce)
    t.start()
    p, seconds = timed(lambda: client.fetch(made, 0, 0, max_wait=8000))
    t.join()
    assert values(p) == [b"now"]
    assert 0.9 < seconds < 2.5


def test_b020_min_bytes_are_waited_for(client, made, server):
    def produce():
        with Client(server.address) as other:
            for _ in range(6):
                time.sleep(0.15)
                other.produce(made, batch([bytes(1000)]))

    t = threading.Thread(target=produce)
    t.start()
    p, seconds = timed(lambda: client.fetch(made, 0, 0, max_wait=8000, min_bytes=3500))
    t.join()
    assert len(p.Records) >= 3500
    assert 0.5 < seconds < 3


def test_b020_many_waiters_all_wake(server, made):
    clients = [Client(server.address) for _ in range(40)]
    for c in clients:
        c.send("Fetch", 12, c.fetch_body(made, 0, 0, max_wait=15000))
    time.sleep(0.3)
    with Client(server.address) as producer:
        producer.produce(made, batch([b"all"]))
    began = time.monotonic()
    for c in clients:
        assert values(c.recv().Responses[0].Partitions[0]) == [b"all"]
        c.close()
    assert time.monotonic() - began < 5


def test_b020_idle_server_does_not_spin(server, made):
    clients = [Client(server.address) for _ in range(10)]
    for c in clients:
        c.send("Fetch", 12, c.fetch_body(made, 0, 0, max_wait=3000))
    time.sleep(0.2)
    before = server.cpu_seconds()
    for c in clients:
        c.recv()
        c.close()
    assert server.cpu_seconds() - before < 1.5


def test_a_waiter_that_leaves(server, made):
    for _ in range(30):
        c = Client(server.address)
        c.send("Fetch", 12, c.fetch_body(made, 0, 0, max_wait=20000))
        c.close()
    with Client(server.address) as c:
        assert c.produce(made, batch([b"x"])).ErrorCode == 0
        assert values(c.fetch(made, 0, 0)) == [b"x"]
    assert server.alive()


def test_an_error_ends_the_wait(client, topic):
    client.create_topic(topic, 2)
    r, seconds = timed(lambda: client.fetch_raw(topic, {0: 0, 1: 99}, None, max_wait=6000))
    by = {p.PartitionIndex: p.ErrorCode for p in r.Responses[0].Partitions}
    assert by == {0: 0, 1: raw.OFFSET_OUT_OF_RANGE} and seconds < 2


# ---- offsets and times ---------------------------------------------------------------------

def test_b021_offset_for_a_time(client, topic):
    client.create_topic(topic, 2)
    client.produce(topic, batch([Record(b"%d" % t, timestamp=T + t) for t in (2, 4, 6, 8)]))
    for asked, offset, timestamp in ((3, 1, 4), (8, 3, 8), (2, 0, 2), (0, 0, 2)):
        for version in range(1, 8):
            p = client.list_offset(topic, T + asked, version=version)
            assert (p.ErrorCode, p.Offset, p.Timestamp) == (0, offset, T + timestamp), version
    for partition in (0, 1):
        p = client.list_offset(topic, T + 9, partition)
        assert (p.ErrorCode, p.Offset, p.Timestamp) == (0, -1, -1)


@pytest.mark.parametrize("split", [False, True])
def test_b021_times_out_of_order(client, made, split):
    records = [Record(b"%d" % t, timestamp=T + t) for t in (5, 3, 9)]
    for part in [[r] for r in records] if split else [records]:
        client.produce(made, batch(part))
    assert client.list_offset(made, T + 4).Offset == 0
    assert client.list_offset(made, T + 6).Offset == 2
    assert client.list_offset(made, T + 10).Offset == -1


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd", "snappy"])
def test_s2_exact_time_inside_batches(client, made, codec):
    times = [100, 300, 200, 700, 50, 650, 900, 800, 10, 1000]
    for i in range(0, 10, 5):
        client.produce(made, batch([Record(b"x", timestamp=T + t) for t in times[i:i + 5]],
                                   codec))
    for asked in range(0, 1100, 25):
        expected = next((i for i, t in enumerate(times) if t >= asked), -1)
        assert client.list_offset(made, T + asked).Offset == expected, asked


@pytest.mark.parametrize("split", [False, True])
def test_s3_max_timestamp(client, made, split):
    records = [Record(b"x", timestamp=T + t) for t in (100, 300, 200)]
    for part in [[r] for r in records] if split else [records]:
        client.produce(made, batch(part))
    p = client.list_offset(made, MAX_TIMESTAMP)
    assert (p.ErrorCode, p.Offset, p.Timestamp) == (0, 1, T + 300)


def test_s3_max_timestamp_of_an_empty_partition(client, made):
    p = client.list_offset(made, MAX_TIMESTAMP)
    assert (p.ErrorCode, p.Offset, p.Timestamp) == (0, -1, -1)


def test_special_timestamps_of_every_version(client, made):
    client.produce(made, batch([Record(b"x", timestamp=T)] * 3))
    _, high = client.versions()["ListOffsets"]
    for version in range(1, min(high, 11) + 1):
        assert client.list_offset(made, LATEST, version=version).Offset == 3, version
        assert client.list_offset(made, EARLIEST, version=version).Offset == 0, version
        if version >= 8:            # -4: what only local storage has (KIP-405)
            assert client.list_offset(made, -4, version=version).Offset == 0, version
        if version >= 9:            # -5: the latest in remote storage: we have none
            assert client.list_offset(made, -5, version=version).ErrorCode == 0, version


def test_unknown_special_timestamp(client, made):
    p = client.list_offset(made, -77)
    assert p.ErrorCode != 0 or p.Offset == -1 or p.Offset == 0


def test_b022_a_new_topic_begins_and_ends_at_zero(client, made):
    assert client.list_offset(made, EARLIEST).Offset == 0
    assert client.list_offset(made, LATEST).Offset == 0
    p = client.fetch(made, 0, 0, max_wait=10)
    assert (p.ErrorCode, p.HighWatermark, p.LogStartOffset) == (0, 0, 0)
    assert client.fetch(made, 0, 1, max_wait=10).ErrorCode == raw.OFFSET_OUT_OF_RANGE


def four_points(client, topic, start, end):
    if start > 0:
        assert client.fetch(topic, 0, start - 1).ErrorCode == raw.OFFSET_OUT_OF_RANGE
    p = client.fetch(topic, 0, start)
    assert p.ErrorCode == 0 and p.LogStartOffset == start
    p = client.fetch(topic, 0, end, max_wait=10)
    assert p.ErrorCode == 0 and not p.Records and p.HighWatermark == end
    p = client.fetch(topic, 0, end + 1, max_wait=10)
    assert p.ErrorCode == raw.OFFSET_OUT_OF_RANGE
    assert client.list_offset(topic, EARLIEST).Offset == start
    assert client.list_offset(topic, LATEST).Offset == end
    assert client.fetch(topic, 0, -1, max_wait=10).ErrorCode == raw.OFFSET_OUT_OF_RANGE


def delete_records(client, topic, offset, partition=0):
    r = client.call("DeleteRecords", 2, TimeoutMs=10000, Topics=[
        {"Name": topic, "Partitions": [{"PartitionIndex": partition, "Offset": offset}]}])
    return r.Topics[0].Partitions[0]


def test_b022_points_before_and_after_deletion_and_restart(fresh, topic):
    s = fresh()
    with Client(s.address) as c:
        c.create_topic(topic)
        for i in range(4):
            c.produce(topic, batch([b"%d" % (3 * i + j) for j in range(3)]))
        four_points(c, topic, 0, 12)
        assert delete_records(c, topic, 7).LowWatermark == 7
        four_points(c, topic, 7, 12)
        got = [r for r in c.records(topic, 0, 7)]
        assert [r.value for r in got] == [b"%d" % i for i in range(7, 12)]
    s.restart()
    with Client(s.address) as c:
        c.wait_topic(topic, 1)
        four_points(c, topic, 7, 12)
        assert delete_records(c, topic, -1).LowWatermark == 12      # -1: all there is
        four_points_empty(c, topic, 12)
        assert c.produce(topic, batch([b"next"])).BaseOffset == 12


def four_points_empty(client, topic, end):
    assert client.list_offset(topic, EARLIEST).Offset == end
    assert client.list_offset(topic, LATEST).Offset == end
    assert client.fetch(topic, 0, end - 1).ErrorCode == raw.OFFSET_OUT_OF_RANGE
    p = client.fetch(topic, 0, end, max_wait=10)
    assert p.ErrorCode == 0 and not p.Records


def test_s14_delete_records_refuses_what_is_not_there(client, made):
    client.produce(made, batch([b"a", b"b"]))
    assert delete_records(client, made, 3).ErrorCode == raw.OFFSET_OUT_OF_RANGE
    assert delete_records(client, made, 1).LowWatermark == 1
    assert delete_records(client, made, 0).ErrorCode in (0, raw.OFFSET_OUT_OF_RANGE)
    assert client.list_offset(made, EARLIEST).Offset == 1
    assert delete_records(client, made, 0, partition=9).ErrorCode == raw.UNKNOWN_TOPIC
    assert delete_records(client, "no-" + made, 0).ErrorCode == raw.UNKNOWN_TOPIC


def test_b022_retention_by_time_keeps_offsets(fresh, topic, peer):
    """Old timestamps and a short retention: all goes, the end stays, and positions stay true."""
    s = fresh({"log.retention.check.interval.ms": 500,
               **({"log.segment.delete.delay.ms": 100} if peer == "kafka" else {})})
    with Client(s.address) as c:
        c.create_topic(topic, 1, {"retention.ms": 3_600_000})
        for _ in range(3):
            c.produce(topic, batch([Record(b"old", timestamp=T)] * 5))
        for _ in range(300):
            if c.list_offset(topic, EARLIEST).Offset == 15:
                break
            time.sleep(0.1)
        assert c.list_offset(topic, EARLIEST).Offset == 15
        four_points_empty(c, topic, 15)
        now = int(time.time() * 1000)
        assert c.produce(topic, batch([Record(b"new", timestamp=now)])).BaseOffset == 15
    s.restart()
    with Client(s.address) as c:
        c.wait_topic(topic, 1)
        assert [(r.offset, r.value) for r in c.records(topic, 0, 15)] == [(15, b"new")]


def test_b023_offset_fetch_of_what_does_not_exist(client, made):
    _, high = client.versions()["OffsetFetch"]
    client.until_ready("FindCoordinator", 3, Key="none", KeyType=0)
    wait_coordinator(client, made)
    for version in range(1, min(high, 9) + 1):
        for name in (made, "no-such-topic"):
            if version < 8:
                r = client.call("OffsetFetch", version, GroupId="never-" + made, Topics=[
                    {"Name": name, "PartitionIndexes": [0, 999]}])
                assert r.get("ErrorCode", 0) == 0
                got = r.Topics[0].Partitions
            else:
                r = client.call("OffsetFetch", version, Groups=[
                    {"GroupId": "never-" + made, "Topics": [
                        {"Name": name, "PartitionIndexes": [0, 999]}]}])
                assert r.Groups[0].ErrorCode == 0
                got = r.Groups[0].Topics[0].Partitions
            assert [(p.CommittedOffset, p.ErrorCode) for p in got] == [(-1, 0), (-1, 0)], version


def wait_coordinator(client, name, key_type=0):
    for _ in range(400):
        r = client.call("FindCoordinator", 3, Key=name, KeyType=key_type)
        if r.ErrorCode == 0:
            r = client.call("OffsetFetch", 7, GroupId=name, Topics=None)
            if r.ErrorCode == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"no coordinator for {name}: {r}")


def commit(client, group, topic, offset, generation=-1, member="", metadata="", partition=0,
           version=8):
    r = client.call("OffsetCommit", version, GroupId=group, MemberId=member,
                    GenerationIdOrMemberEpoch=generation, Topics=[{"Name": topic, "Partitions": [
                        {"PartitionIndex": partition, "CommittedOffset": offset,
                         "CommittedMetadata": metadata}]}])
    return r.Topics[0].Partitions[0].ErrorCode


def committed(client, group, topics=None):
    r = client.call("OffsetFetch", 7, GroupId=group, Topics=topics)
    assert r.ErrorCode == 0
    return {(t.Name, p.PartitionIndex): (p.CommittedOffset, p.Metadata)
            for t in r.Topics for p in t.Partitions}


def test_b023_null_topics_means_what_is_committed(client, topic):
    client.create_topic(topic, 3)
    group = "g-" + topic
    wait_coordinator(client, group)
    assert commit(client, group, topic, 7, partition=2) == 0
    assert committed(client, group) == {(topic, 2): (7, "")}
    r = client.call("OffsetFetch", 8, Groups=[{"GroupId": group, "Topics": None},
                                              {"GroupId": "never", "Topics": None}])
    assert len(r.Groups) == 2
    assert len(r.Groups[0].Topics[0].Partitions) == 1
    assert r.Groups[1].Topics == []


def test_s5_commit_metadata_is_kept(client, made):
    group = "g-" + made
    wait_coordinator(client, group)
    for text in ("abc", "", "ü" * 100):
        assert commit(client, group, made, 1, metadata=text) == 0
        assert committed(client, group)[made, 0] == (1, text)
    assert commit(client, group, made, 2, metadata="x" * 5000) == 12    # offset.metadata.max.bytes
    assert committed(client, group)[made, 0][0] == 1


def test_b024_commits_without_membership(client, made):
    import groups
    new, busy = "new-" + made, "busy-" + made
    wait_coordinator(client, new)
    wait_coordinator(client, busy)
    assert commit(client, new, made, 1) == 0            # to a group that does not exist yet
    assert commit(client, new, made, 2) == 0            # to an empty one
    assert committed(client, new)[made, 0][0] == 2
    assert commit(client, "unknown-" + made, made, 1, generation=5) == raw.ILLEGAL_GENERATION
    with Client(client.address) as other:
        member = groups.Member(other, busy).join_alone()
        assert commit(client, busy, made, 9) == raw.UNKNOWN_MEMBER_ID
        assert commit(client, busy, made, 9, member.generation, member.id) == 0
        assert commit(client, busy, made, 9, member.generation + 1, member.id) == \
            raw.ILLEGAL_GENERATION
        assert commit(client, busy, made, 9, member.generation, "stranger") == \
            raw.UNKNOWN_MEMBER_ID
        member.leave()
    assert commit(client, busy, made, 10) == 0
    assert committed(client, busy)[made, 0][0] == 10


def test_b025_a_topic_deleted_and_made_again(client, topic):
    first = client.create_topic(topic)
    group = "g-" + topic
    wait_coordinator(client, group)
    client.produce(topic, batch([b"old%d" % i for i in range(10)]))
    assert commit(client, group, topic, 10) == 0
    client.delete_topic(topic)
    for _ in range(400):
        if client.metadata([topic]).Topics[0].ErrorCode == raw.UNKNOWN_TOPIC and \
                not committed(client, group):
            break
        time.sleep(0.05)
    assert committed(client, group) == {}
    second = client.create_topic(topic)
    assert first != second
    assert client.list_offset(topic, LATEST).Offset == 0
    assert client.produce(topic, batch([b"new%d" % i for i in range(5)])).BaseOffset == 0
    assert client.fetch(topic, 0, 10).ErrorCode == raw.OFFSET_OUT_OF_RANGE
    assert [r.value for r in client.records(topic)] == [b"new%d" % i for i in range(5)]
    # The old id is unknown, in a fetch and in metadata.
    r = client.fetch_raw(topic, 0, 0, version=13, topic_id=first)
    assert r.Responses[0].Partitions[0].ErrorCode == raw.UNKNOWN_TOPIC_ID
    r = client.call("Metadata", 12, Topics=[{"Name": None, "TopicId": first}])
    assert r.Topics[0].ErrorCode == raw.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("crash", [False, True])
def test_offsets_and_records_survive_a_restart(fresh, topic, crash, peer):
    if crash and peer == "kafka":
        return
    s = fresh()
    with Client(s.address) as c:
        topic_id = c.create_topic(topic, 3)
        for p in range(3):
            c.produce(topic, batch([b"%d-%d" % (p, i) for i in range(10)], "lz4"), p)
        wait_coordinator(c, "g")
        assert commit(c, "g", topic, 4, metadata="m", partition=1) == 0
    s.restart(kill=crash)
    with Client(s.address) as c:
        c.wait_topic(topic, 3)
        wait_coordinator(c, "g")
        assert c.topic_id(topic) == topic_id
        for p in range(3):
            assert [r.value for r in c.records(topic, p)] == \
                [b"%d-%d" % (p, i) for i in range(10)]
        assert committed(c, "g") == {(topic, 1): (4, "m")}


def test_read_committed_of_plain_records(client, made):
    client.produce(made, batch([b"a", b"b"]))
    p = client.fetch(made, 0, 0, isolation=1)
    assert values(p) == [b"a", b"b"] and p.LastStableOffset == 2
    assert not p.AbortedTransactions
    assert client.list_offset(made, LATEST, IsolationLevel=1).Offset == 2


def test_fetch_of_unknown_topics(client, made):
    import uuid
    r = client.fetch_raw("never-" + made, 0, 0, max_wait=10)
    assert r.Responses[0].Partitions[0].ErrorCode == raw.UNKNOWN_TOPIC
    r = client.fetch_raw(made, 9, 0, max_wait=10)
    assert r.Responses[0].Partitions[0].ErrorCode == raw.UNKNOWN_TOPIC
    r = client.fetch_raw(made, 0, 0, version=13, topic_id=uuid.uuid4(), max_wait=10)
    assert r.Responses[0].Partitions[0].ErrorCode == raw.UNKNOWN_TOPIC_ID
