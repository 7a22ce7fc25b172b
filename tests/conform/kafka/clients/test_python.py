"""kafka-python and aiokafka: two clients in pure Python with codecs of their own."""
import asyncio
import os
import sys
import threading
import time

import aiokafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from harness import paths
from harness.run import run
from raw import Client

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


def create(server, topic, partitions=4):
    with Client(server.address) as c:
        c.create_topic(topic, partitions)


def poll(consumer, count, seconds=30):
    out, deadline = [], time.monotonic() + seconds
    while len(out) < count:
        assert time.monotonic() < deadline, f"{len(out)} of {count}"
        for records in consumer.poll(500).values():
            out += records
    return out


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python_round_trip(server, topic, codec):
    create(server, topic)
    p = KafkaProducer(bootstrap_servers=server.bootstrap, compression_type=codec, linger_ms=5)
    values = [os.urandom(i % 300) for i in range(1500)]
    for i, v in enumerate(values):
        p.send(topic, v, key=b"%d" % i, headers=[("h", b"1"), ("e", b"")], timestamp_ms=i + 1)
    p.flush(30)
    p.close()
    c = KafkaConsumer(topic, bootstrap_servers=server.bootstrap, auto_offset_reset="earliest",
                      group_id="g-" + topic, check_crcs=True)
    got = sorted(poll(c, 1500), key=lambda r: int(r.key))
    c.close()
    assert [r.value for r in got] == values
    assert got[7].timestamp == 8 and list(got[7].headers) == [("h", b"1"), ("e", b"")]


def test_b004_kafka_python_snappy_is_framed(server, topic):
    """The Java-style stream from this client, a bare block by hand: kcat reads all of both."""
    import raw
    from harness.run import kcat
    create(server, topic, 1)
    p = KafkaProducer(bootstrap_servers=server.bootstrap, compression_type="snappy",
                      batch_size=400_000, linger_ms=50)
    for i in range(300):
        p.send(topic, b"%04d" % i * 256)
    p.flush(30)
    p.close()
    with Client(server.address) as c:
        c.produce(topic, raw.batch([b"%04d" % i * 256 for i in range(300, 600)], "snappy"))
    got = kcat(server, "-C", "-t", topic, "-e", "-q", "-o", "beginning").stdout.splitlines()
    assert got == ["%04d" % i * 256 for i in range(600)]


def test_kafka_python_group_offsets_and_times(server, topic):
    create(server, topic, 2)
    p = KafkaProducer(bootstrap_servers=server.bootstrap)
    for t in (2, 4, 6, 8):
        p.send(topic, b"x", partition=0, timestamp_ms=1_700_000_000_000 + t).get(10)
    p.close()
    tp = TopicPartition(topic, 0)
    c = KafkaConsumer(bootstrap_servers=server.bootstrap, group_id="g-" + topic,
                      enable_auto_commit=False, auto_offset_reset="earliest")
    assert c.committed(tp) is None
    assert c.end_offsets([tp]) == {tp: 4} and c.beginning_offsets([tp]) == {tp: 0}
    found = c.offsets_for_times({tp: 1_700_000_000_003})[tp]
    assert (found.offset, found.timestamp) == (1, 1_700_000_000_004)
    assert c.offsets_for_times({tp: 1_700_000_000_009})[tp] is None
    c.subscribe([topic])
    poll(c, 4)
    c.commit()
    assert c.committed(tp) == 4
    c.close()


def test_kafka_python_group_of_two(server, topic):
    create(server, topic, 4)
    seen, stop = [[], []], threading.Event()

    def member(i):
        c = KafkaConsumer(topic, bootstrap_servers=server.bootstrap, group_id="g-" + topic,
                          auto_offset_reset="earliest", session_timeout_ms=10000,
                          heartbeat_interval_ms=300)
        while not stop.is_set():
            for records in c.poll(200).values():
                seen[i] += [r.value for r in records]
        c.close()

    threads = [threading.Thread(target=member, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    try:
        p = KafkaProducer(bootstrap_servers=server.bootstrap)
        deadline = time.monotonic() + 40
        sent = 0
        while not (seen[0] and seen[1]):
            assert time.monotonic() < deadline
            p.send(topic, b"%d" % sent)
            sent += 1
            time.sleep(0.01)
        p.flush(10)
        p.close()
        while len(set(seen[0]) | set(seen[1])) < sent:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        stop.set()
        for t in threads:
            t.join(30)


def test_kafka_python_admin(server, topic):
    create(server, topic, 3)
    a = KafkaAdminClient(bootstrap_servers=server.bootstrap)
    assert topic in a.list_topics()
    described = a.describe_topics([topic])
    assert len(described[0]["partitions"]) == 3
    assert a.describe_cluster()["brokers"]
    a.close()


def test_kafka_python_old_protocol_choice(server, topic):
    """A client pinned to what Kafka 0.11 spoke: the oldest versions still served."""
    create(server, topic, 1)
    p = KafkaProducer(bootstrap_servers=server.bootstrap, api_version=(2, 1))
    p.send(topic, b"old").get(15)
    p.close()
    c = KafkaConsumer(topic, bootstrap_servers=server.bootstrap, auto_offset_reset="earliest",
                      api_version=(2, 1))
    assert poll(c, 1)[0].value == b"old"
    c.close()


def run_async(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_round_trip(server, topic, codec):
    create(server, topic, 2)
    values = [os.urandom(i % 500) for i in range(1500)]

    async def body():
        async with AIOKafkaProducer(bootstrap_servers=server.bootstrap, compression_type=codec,
                                    enable_idempotence=True, linger_ms=5) as p:
            await asyncio.gather(*[
                await p.send(topic, v, key=b"%d" % i, headers=[("h", b"1"), ("e", b"")])
                for i, v in enumerate(values)])
        got = []
        async with AIOKafkaConsumer(topic, bootstrap_servers=server.bootstrap,
                                    group_id="g-" + topic, auto_offset_reset="earliest") as c:
            while len(got) < len(values):
                for records in (await c.getmany(timeout_ms=500)).values():
                    got += records
        return got

    got = sorted(run_async(body()), key=lambda r: int(r.key))
    assert [r.value for r in got] == values
    assert got[0].headers == (("h", b"1"), ("e", b""))


def test_aiokafka_commit_and_resume(server, topic):
    create(server, topic, 1)

    async def read(count):
        out = []
        async with AIOKafkaConsumer(topic, bootstrap_servers=server.bootstrap,
                                    group_id="g-" + topic, auto_offset_reset="earliest",
                                    enable_auto_commit=False) as c:
            while len(out) < count:
                r = await c.getone()
                out.append(r.value)
                await c.commit()
        return out

    async def body():
        async with AIOKafkaProducer(bootstrap_servers=server.bootstrap) as p:
            for i in range(10):
                await p.send_and_wait(topic, b"%d" % i)
        return await read(4) + await read(6)

    assert run_async(body()) == [b"%d" % i for i in range(10)]


OLD = """
import sys
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, __version__
from kafka.admin import NewTopic
assert __version__ == "2.0.2"
server, topic = sys.argv[1:]
a = KafkaAdminClient(bootstrap_servers=server)
a.create_topics([NewTopic(topic, 3, 1)])
for codec in (None, "gzip", "snappy", "lz4"):
    p = KafkaProducer(bootstrap_servers=server, compression_type=codec, acks="all", linger_ms=5)
    for i in range(100):
        p.send(topic, b"%d" % i, key=b"k", headers=[("h", b"1")])
    p.flush(30)
    p.close()
got = []
c = KafkaConsumer(topic, bootstrap_servers=server, auto_offset_reset="earliest",
                  group_id="g-" + topic, consumer_timeout_ms=60000, enable_auto_commit=False)
for m in c:
    assert m.key == b"k" and m.headers == [("h", b"1")]
    got.append(int(m.value))
    if len(got) == 400:
        break
c.commit()
assert sorted(got) == sorted(4 * list(range(100)))
parts = [TopicPartition(topic, p) for p in range(3)]
assert sum(c.committed(p) or 0 for p in parts) == 400 == sum(c.end_offsets(parts).values())
c.close()
assert a.describe_consumer_groups(["g-" + topic])[0].error_code == 0
a.delete_topics([topic])
"""


def test_kafka_python_2_0_2(server, topic):
    """The version that most deployments of that client still have."""
    run(sys.executable, "-c", OLD, server.bootstrap, topic,
        env={"PYTHONPATH": str(paths.OLD_KAFKA_PYTHON)})


def test_versions_of_the_clients():
    assert kafka.__version__.startswith("3.") and aiokafka.__version__ == "0.14.0"
