"""Wire protocol: negotiation, unknown tags, lengths that cannot be true (cases A)."""
import random
import socket
import struct
import threading
import time

import pytest

import raw
from raw import Client, batch

# Kafka closes on what it cannot parse; so do we. What it must not do is hang or die.
JUNK = bytes(range(40))


@pytest.fixture
def client(server):
    with Client(server.address) as c:
        yield c


def test_b001_apiversions_newer_than_ours(client):
    client.waiting[client.correlation + 1] = ("ApiVersions", 99)
    client.send_frame(client.header(18, 99, flexible=True) + JUNK)
    r = client.recv(version=0)
    assert r.ErrorCode == raw.UNSUPPORTED_VERSION
    own = [k for k in r.ApiKeys if k.ApiKey == 18]
    assert own and own[0].MinVersion == 0 and own[0].MaxVersion >= 3
    r = client.call("ApiVersions", 3, ClientSoftwareName="raw", ClientSoftwareVersion="1")
    assert r.ErrorCode == 0 and any(k.ApiKey == 0 for k in r.ApiKeys)
    r = client.call("ApiVersions", 0)
    assert r.ErrorCode == 0 and any(k.ApiKey == 1 for k in r.ApiKeys)


def test_b001_other_api_at_unsupported_version_closes(client):
    client.send_frame(client.header(3, 99, flexible=True) + JUNK)
    with pytest.raises(raw.Closed):
        client.recv_frame()


def test_apiversions_advertises_only_what_works(client, server):
    """Each advertised API at each version takes an all-defaults request: it answers or refuses by
    closing, and the server lives on; nothing is advertised beyond the newest definitions."""
    names = raw.api_names()
    r = client.call("ApiVersions", 0)
    skipped = {"SaslHandshake", "SaslAuthenticate", "ApiVersions"}
    for k in r.ApiKeys:
        name = names[k.ApiKey]
        valid = raw.valid_versions(name)
        assert k.MaxVersion <= valid[-1] and k.MinVersion <= k.MaxVersion, name
        if name in skipped or k.ApiKey in (24, 52, 53, 54, 55, 59, 80, 81, 95) or len(valid) == 0:
            continue
        for version in range(max(k.MinVersion, valid[0]), k.MaxVersion + 1):
            with Client(server.address, timeout=35) as c:
                c.send(name, version, {})
                if name == "Produce":           # acks 0 by default: no answer comes
                    continue
                try:
                    c.recv()
                except raw.Closed:
                    pass
                except TimeoutError:
                    pytest.fail(f"no answer to {name} v{version}")
    assert server.alive()


def tags():
    return [(100, b""), (2001, b"x"), (70000, bytes(300))]


def test_b002_unknown_tags_metadata(client, topic):
    client.create_topic(topic, 2)
    plain = client.metadata([topic])
    client.send("Metadata", 12, {"Topics": [{"Name": topic}]}, extra_tags=tags())
    assert client.recv() == plain


def test_b002_unknown_tags_produce_and_fetch(client, topic):
    client.create_topic(topic)
    client.send("Produce", 9, {"Acks": -1, "TimeoutMs": 1000, "TopicData": [
        {"Name": topic, "PartitionData": [{"Index": 0, "Records": batch([b"one"])}]}]},
        extra_tags=tags())
    assert client.recv().Responses[0].PartitionResponses[0].ErrorCode == 0
    body = client.fetch_body(topic, 0, 0)
    plain = client.call("Fetch", 12, **body)
    client.send("Fetch", 12, body, extra_tags=tags())
    tagged = client.recv()
    assert tagged == plain
    assert raw.parse_batches(tagged.Responses[0].Partitions[0].Records)[0].records[0].value == \
        b"one"


@pytest.mark.lakestream     # Kafka itself closes the connection here, which costs a client dearly
def test_b002_tag_of_a_higher_version(client, topic):
    """Fetch v12 with the ReplicaState tag (1), which only v15 defines: to be skipped."""
    client.create_topic(topic)
    body = client.fetch_body(topic, 0, 0, max_wait=10)
    plain = client.call("Fetch", 12, **body)
    m = raw.Message("Fetch", "request", 12)
    payload = m.encode(body)
    assert payload[-1] == 0
    state = struct.pack(">iq", -1, -1) + b"\0"
    payload = payload[:-1] + raw.encode_tags([(1, state)])
    client.waiting[client.correlation + 1] = ("Fetch", 12)
    client.send_frame(client.header(1, 12, True) + payload)
    assert client.recv() == plain


@pytest.mark.parametrize("size", [0, -1, 2 ** 31 - 1, -2 ** 31])
def test_b003_frame_size(client, size):
    client.socket.sendall(struct.pack(">i", size))
    if size > 0:
        client.socket.sendall(b"\0" * 16)
    with pytest.raises(raw.Closed):
        client.recv_frame()


@pytest.mark.parametrize("count", [2 ** 31 - 1, 100_000_000])
def test_b003_array_count(client, server, count):
    before = server.rss_bytes()
    client.send_frame(client.header(3, 1, False) + struct.pack(">i", count) + b"\0" * 30)
    with pytest.raises(raw.Closed):
        client.recv_frame()
    assert server.rss_bytes() - before < 64 << 20


def test_b003_trailing_or_missing_bytes(client, server):
    whole = client.request("Metadata", 12, {"Topics": [{"Name": "x"}]})
    for cut in range(8, len(whole)):
        with Client(server.address) as c:
            c.send_frame(whole[:cut])
            try:
                c.recv_frame()
            except raw.Closed:
                pass
    assert server.alive()


def test_trailing_bytes_as_librdkafka_sends_them(client):
    """librdkafka leaves four bytes of array count before an all-topics request's end: read to
    the letter, that is a null array, two flags, no tags, and three bytes too many. Kafka takes
    it, so must we."""
    client.waiting[client.correlation + 1] = ("Metadata", 12)
    client.send_frame(client.header(3, 12, True) + bytes.fromhex("00000000010000"))
    assert client.recv().Brokers


@pytest.mark.parametrize("kind", ["count", "headers", "key", "size", "delta"])
def test_b003_counts_inside_a_batch(client, topic, server, kind):
    client.create_topic(topic)
    before = server.rss_bytes()
    data = {
        "count": lambda: batch([b"v"], count=2 ** 31 - 1, last_delta=2 ** 31 - 2),
        "headers": lambda: batch([b"v"], payload=raw.varint(8) + b"\0\0\0\1\1" +
                                 raw.varint(2 ** 30)[:3]),
        "key": lambda: batch([b"v"], payload=raw.varint(9) + b"\0\0\0" + raw.varint(2 ** 31 - 1)
                             + b"\0"),
        "size": lambda: batch([b"v"], payload=raw.varint(2 ** 31 - 1) + b"\0" * 5),
        "delta": lambda: batch([b"v", b"w"], last_delta=7),
    }[kind]()
    try:
        assert client.produce(topic, data).ErrorCode in (raw.CORRUPT_MESSAGE, raw.INVALID_RECORD)
    except raw.Closed:
        pass
    with Client(server.address) as c:
        assert c.end_offset(topic) == 0
        assert server.rss_bytes() - before < 64 << 20


def mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        kind, at = rng.randrange(5), rng.randrange(8, len(data)) if len(data) > 8 else 0
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at:at + 4] = rng.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0"])
        elif kind == 2:
            data[at:at + 2] = rng.choice([b"\x7f\xff", b"\x80\0", b"\xff\xfe"])
        elif kind == 3:
            del data[at:at + rng.randint(1, 9)]
        else:
            data[at:at] = rng.choice([b"\xff\xff\xff\xff\x0f", bytes(rng.randrange(256)
                                      for _ in range(rng.randint(1, 12)))])
    return bytes(data)


def sample_bodies(topic):
    data = batch([b"a", b"b"])
    return {
        "Produce": {"Acks": -1, "TimeoutMs": 100, "TopicData": [
            {"Name": topic, "PartitionData": [{"Index": 0, "Records": data}]}]},
        "Fetch": {"MaxWaitMs": 1, "MinBytes": 0, "Topics": [
            {"Topic": topic, "Partitions": [{"Partition": 0, "PartitionMaxBytes": 100}]}]},
        "ListOffsets": {"ReplicaId": -1, "Topics": [
            {"Name": topic, "Partitions": [{"PartitionIndex": 0, "Timestamp": -1}]}]},
        "Metadata": {"Topics": [{"Name": topic}]},
        "OffsetCommit": {"GroupId": "fuzz", "Topics": [
            {"Name": topic, "Partitions": [{"PartitionIndex": 0, "CommittedMetadata": "m"}]}]},
        "JoinGroup": {"GroupId": "fuzz", "SessionTimeoutMs": 6000, "MemberId": "",
                      "ProtocolType": "consumer",
                      "Protocols": [{"Name": "range", "Metadata": b"\0\0\0\0\0\0\0\0\0\0"}]},
    }


def test_b003_five_hundred_mutated_frames(client, server, topic):
    """Over all advertised APIs, while another connection produces and must see no error."""
    client.create_topic(topic)
    names, seed = raw.api_names(), 20240
    rng = random.Random(seed)
    advertised = [(names[k.ApiKey], k) for k in client.call("ApiVersions", 0).ApiKeys]
    before = server.rss_bytes()
    stop, errors, sent = threading.Event(), [], [0]

    def produce():
        with Client(server.address) as c:
            while not stop.is_set():
                r = c.produce(topic, batch([b"x" * 100]))
                sent[0] += 1
                if r.ErrorCode:
                    errors.append(r)
                time.sleep(0.005)

    t = threading.Thread(target=produce)
    t.start()
    bodies = sample_bodies("no-such-" + topic)
    try:
        for i in range(500):
            name, k = advertised[i % len(advertised)]
            low = max(k.MinVersion, raw.valid_versions(name)[0])
            version = rng.randint(low, k.MaxVersion)
            with Client(server.address, timeout=0.25) as c:
                body = bodies.get(name, {}) if version < 13 else {}
                try:
                    frame = c.request(name, version, body)
                except AssertionError:
                    frame = c.request(name, version, {})
                c.send_frame(mutate(rng, frame))
                try:
                    c.recv_frame()
                except (raw.Closed, socket.timeout):
                    pass
            assert server.alive(), f"seed {seed}, frame {i}: {name} v{version}"
    finally:
        stop.set()
        t.join()
    assert not errors and sent[0] > 0
    assert server.rss_bytes() - before < 64 << 20


def test_requests_are_answered_in_order(client, topic):
    """One connection's requests are pipelined; a slow one does not let a later one overtake."""
    client.create_topic(topic)
    for i in range(40):
        if i % 4 == 3:
            client.send("Fetch", 12, client.fetch_body(topic, 0, 0, max_wait=20, min_bytes=1 << 20))
        elif i % 4 == 2:
            client.send("Metadata", 12, {"Topics": [{"Name": topic}]})
        else:
            client.send("Produce", 9, {"Acks": -1, "TimeoutMs": 1000, "TopicData": [
                {"Name": topic, "PartitionData": [{"Index": 0, "Records": batch([b"%d" % i])}]}]})
    offsets = []
    for i in range(40):
        r = client.recv()
        if i % 4 < 2:
            offsets.append(r.Responses[0].PartitionResponses[0].BaseOffset)
    assert offsets == list(range(20))


def test_slow_sender_and_one_byte_segments(client, topic):
    client.create_topic(topic)
    frame = client.request("Metadata", 12, {"Topics": [{"Name": topic}]})
    client.waiting[client.correlation] = ("Metadata", 12)
    for b in struct.pack(">i", len(frame)) + frame:
        client.socket.sendall(bytes([b]))
    assert client.recv().Topics[0].Name == topic


def test_many_connections_that_say_nothing(server):
    silent = [socket.create_connection(server.address) for _ in range(300)]
    try:
        with Client(server.address) as c:
            assert c.call("ApiVersions", 0).ErrorCode == 0
    finally:
        for s in silent:
            s.close()


def test_produce_acks_zero_has_no_answer(client, topic):
    client.create_topic(topic)
    client.send_frame(client.request("Produce", 9, {"Acks": 0, "TimeoutMs": 1000, "TopicData": [
        {"Name": topic, "PartitionData": [{"Index": 0, "Records": batch([b"q"])}]}]}))
    client.waiting.clear()
    r = client.metadata([topic])
    assert r.Topics[0].Name == topic
    for _ in range(100):
        if client.end_offset(topic) == 1:
            break
        time.sleep(0.02)
    assert client.end_offset(topic) == 1
