"""Idempotent producers (cases C without transactions)."""
import pytest

import raw
from raw import Client, batch


@pytest.fixture
def client(server):
    with Client(server.address) as c:
        yield c


@pytest.fixture
def made(client, topic):
    client.create_topic(topic)
    return topic


def numbered(pid, epoch, sequence, count, tag=b"r"):
    return batch([tag + b"%d" % (sequence + i) for i in range(count)], producer_id=pid,
                 epoch=epoch, sequence=sequence)


def five_batches(pid, epoch):
    out, sequence = [], 0
    for count in (1, 7, 3, 2, 5):
        out.append(numbered(pid, epoch, sequence, count))
        sequence += count
    return out, sequence


def send_all(client, topic, batches):
    for b in batches:
        client.send("Produce", 9, {"Acks": -1, "TimeoutMs": 30000, "TopicData": [
            {"Name": topic, "PartitionData": [{"Index": 0, "Records": b}]}]})


def test_b012_the_last_five_batches(client, made, server):
    pid, epoch = client.producer_id()
    batches, total = five_batches(pid, epoch)
    first = [client.produce(made, b) for b in batches]
    assert [p.BaseOffset for p in first] == [0, 1, 8, 11, 13]
    with Client(server.address) as other:
        again = [other.produce(made, b) for b in batches]
    assert [p.ErrorCode for p in again] == [0] * 5
    assert [p.BaseOffset for p in again] == [p.BaseOffset for p in first]
    assert client.end_offset(made) == total
    gap = client.produce(made, numbered(pid, epoch, total + 10, 1))
    assert gap.ErrorCode == raw.OUT_OF_ORDER_SEQUENCE
    assert client.produce(made, numbered(pid, epoch, total, 1)).BaseOffset == total


def test_b012_replies_lost(client, made, server):
    """Five in flight, the socket dropped before any reply, the five sent again."""
    pid, epoch = client.producer_id()
    batches, total = five_batches(pid, epoch)
    lost = Client(server.address)
    send_all(lost, made, batches)
    lost.close()
    with Client(server.address) as again:
        send_all(again, made, batches)
        answers = [again.recv().Responses[0].PartitionResponses[0] for _ in batches]
    assert [p.ErrorCode for p in answers] == [0] * 5
    assert [p.BaseOffset for p in answers] == [0, 1, 8, 11, 13]
    assert client.end_offset(made) == total


@pytest.mark.lakestream     # Kafka's snapshot keeps only the last batch of a producer
@pytest.mark.parametrize("crash", [False, True])
def test_b012_memory_survives_a_restart(fresh, topic, crash):
    s = fresh()
    with Client(s.address) as c:
        c.create_topic(topic)
        pid, epoch = c.producer_id()
        batches, total = five_batches(pid, epoch)
        first = [c.produce(topic, b).BaseOffset for b in batches]
    s.restart(kill=crash)
    with Client(s.address) as c:
        c.wait_topic(topic, 1)
        again = [c.produce(topic, b) for b in batches]
        assert [(p.ErrorCode, p.BaseOffset) for p in again] == [(0, o) for o in first]
        assert c.end_offset(topic) == total
        assert c.produce(topic, numbered(pid, epoch, total + 3, 1)).ErrorCode == \
            raw.OUT_OF_ORDER_SEQUENCE
        assert c.produce(topic, numbered(pid, epoch, total, 2)).BaseOffset == total
        assert c.producer_id()[0] != pid


@pytest.mark.lakestream
def test_b011_a_crash_at_any_moment_keeps_one_copy(fresh, topic):
    """A batch is sent, the server killed at once, the batch sent again: stored exactly once."""
    import random
    import time
    rng = random.Random(11)
    s = fresh()
    with Client(s.address) as c:
        c.create_topic(topic)
        pid, epoch = c.producer_id()
    sequence = 0
    for _ in range(12):
        b = numbered(pid, epoch, sequence, 3)
        c = Client(s.address)
        send_all(c, topic, [b])
        time.sleep(rng.random() * 0.02)
        s.kill()
        c.close()
        s.start()
        with Client(s.address) as c:
            p = c.produce(topic, b)
            assert p.ErrorCode == 0, p
            assert p.BaseOffset == sequence
            sequence += 3
            assert c.end_offset(topic) == sequence
    with Client(s.address) as c:
        assert [r.value for r in c.records(topic)] == [b"r%d" % i for i in range(sequence)]


def test_old_epoch_is_fenced(client, made):
    pid, epoch = client.producer_id()
    assert client.produce(made, numbered(pid, epoch + 1, 0, 1)).ErrorCode == 0
    assert client.produce(made, numbered(pid, epoch, 1, 1)).ErrorCode == \
        raw.INVALID_PRODUCER_EPOCH


def test_new_epoch_starts_at_sequence_zero(client, made):
    pid, epoch = client.producer_id()
    assert client.produce(made, numbered(pid, epoch, 0, 2)).ErrorCode == 0
    assert client.produce(made, numbered(pid, epoch + 1, 5, 1)).ErrorCode == \
        raw.OUT_OF_ORDER_SEQUENCE
    assert client.produce(made, numbered(pid, epoch + 1, 0, 1)).ErrorCode == 0


def test_s16_sequence_wraps_around(client, made):
    """2147483647 is followed by 0; a batch may span the wrap."""
    pid, epoch = client.producer_id()
    top = 2 ** 31 - 1
    # An unknown producer may start anywhere: its state may have been expired.
    first = client.produce(made, numbered(pid, epoch, top - 4, 3))
    assert first.ErrorCode == 0
    span = batch([b"a", b"b", b"c", b"d"], producer_id=pid, epoch=epoch, sequence=top - 1)
    assert client.produce(made, span).ErrorCode == 0          # top-1, top, 0, 1
    assert client.produce(made, numbered(pid, epoch, 2, 1)).ErrorCode == 0
    assert client.produce(made, numbered(pid, epoch, 4, 1)).ErrorCode == raw.OUT_OF_ORDER_SEQUENCE
    assert client.end_offset(made) == 8


def test_duplicate_older_than_five(client, made):
    pid, epoch = client.producer_id()
    for i in range(9):
        assert client.produce(made, numbered(pid, epoch, i, 1)).ErrorCode == 0
    p = client.produce(made, numbered(pid, epoch, 0, 1))
    assert p.ErrorCode in (raw.DUPLICATE_SEQUENCE, raw.OUT_OF_ORDER_SEQUENCE)
    assert client.end_offset(made) == 9


def test_producers_do_not_disturb_each_other(client, made):
    one, two = client.producer_id(), client.producer_id()
    assert one[0] != two[0]
    for i in range(5):
        for pid, epoch in (one, two):
            assert client.produce(made, numbered(pid, epoch, i, 1)).ErrorCode == 0
    assert client.end_offset(made) == 10


def test_one_bad_partition_does_not_fail_the_others(client, topic):
    client.create_topic(topic, 3)
    pid, epoch = client.producer_id()
    r = client.produce_many(topic, {0: numbered(pid, epoch, 0, 1), 1: batch([b"x"], crc=1),
                                    2: numbered(pid, epoch, 0, 1)})
    assert [r[i].ErrorCode for i in range(3)] == [0, raw.CORRUPT_MESSAGE, 0]


def test_describe_producers(client, made):
    pid, epoch = client.producer_id()
    client.produce(made, numbered(pid, epoch, 0, 4))
    r = client.call("DescribeProducers", 0, Topics=[{"Name": made, "PartitionIndexes": [0]}])
    active = r.Topics[0].Partitions[0].ActiveProducers
    assert [(a.ProducerId, a.ProducerEpoch, a.LastSequence) for a in active] == [(pid, epoch, 3)]
