"""What peers can make the server hold: many connections, slow ones, half of everything."""
import resource
import socket
import struct
import threading
import time
import urllib.request

import pytest

import raw
from raw import Client, batch

pytestmark = pytest.mark.lakestream


def metric(server, name):
    text = urllib.request.urlopen(f"http://{server.http}/metrics", timeout=10).read().decode()
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


def connections(server):
    return metric(server, "lakestream_kafka_connections")


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def is_closed(s, seconds=20):
    s.settimeout(seconds)
    try:
        return s.recv(1) == b""
    except ConnectionError:
        return True


@pytest.fixture
def many_files():
    """As many open files as this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_thousands_of_connections_cost_little(fresh, topic, many_files):
    count = min(3000, many_files // 2 - 200)
    s = fresh({"max.connections": 10_000})
    before = s.rss_bytes()
    # Nothing, half a size, a size and a key, half a request: a frame of a MiB is announced.
    starts = [b"", b"\0\0", struct.pack(">ihh", 1 << 20, 3, 12), struct.pack(">ihhi", 300, 3, 9, 7)]
    open_ones = [socket.create_connection(s.address) for _ in range(count)]
    try:
        for i, c in enumerate(open_ones):
            c.sendall(starts[i % 4])
        wait_for(lambda: connections(s) == count)
        with Client(s.address) as c:
            c.create_topic(topic)
            assert c.produce(topic, batch([b"x"])).ErrorCode == 0
        grown = s.rss_bytes() - before
        assert grown < 40_000 * count, f"{grown / count:.0f} bytes a connection"
    finally:
        for c in open_ones:
            c.close()
    wait_for(lambda: connections(s) == 0)


def test_max_connections(fresh):
    s = fresh({"max.connections": 5})
    kept = [Client(s.address) for _ in range(5)]
    for c in kept:
        assert c.call("ApiVersions", 0).ErrorCode == 0
    assert is_closed(socket.create_connection(s.address))
    kept.pop().close()
    wait_for(lambda: connections(s) == 4)
    with Client(s.address) as c:
        assert c.call("ApiVersions", 0).ErrorCode == 0
    for c in kept:
        assert c.call("ApiVersions", 0).ErrorCode == 0
        c.close()


def test_idle_connections_are_closed_and_long_polls_are_not(fresh, topic):
    s = fresh({"connections.max.idle.ms": 1000})
    idle, half = (socket.create_connection(s.address) for _ in range(2))
    half.sendall(b"\0\0\0")
    with Client(s.address) as waits:
        waits.create_topic(topic)
        waits.send("Fetch", 12, waits.fetch_body(topic, 0, 0, max_wait=4000))
        assert is_closed(idle) and is_closed(half)
        assert waits.recv().ErrorCode == 0


def test_half_open_sockets_leave_nothing(server, topic):
    with Client(server.address) as c:
        c.create_topic(topic)
        frame = c.request("Fetch", 12, c.fetch_body(topic, 0, 0, max_wait=2 ** 31 - 1,
                                                    min_bytes=1 << 20))
    before = connections(server)
    frame = struct.pack(">i", len(frame)) + frame
    for part in (frame[:3], frame[:20], frame, frame + frame[:9]):
        s = socket.create_connection(server.address)
        s.sendall(part)
        s.shutdown(socket.SHUT_WR)
        assert is_closed(s)
        s.close()
    # And reset instead of closed, while a long poll waits.
    s = socket.create_connection(server.address)
    s.sendall(frame)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
    wait_for(lambda: connections(server) <= before)


def trickle(address, stop, frame_bytes):
    """Announces a Produce frame and sends it byte by byte."""
    s = socket.create_connection(address)
    s.sendall(struct.pack(">ihhi", frame_bytes, 0, 9, 1))
    try:
        while not stop.wait(0.3):
            s.sendall(b"\0")
    except ConnectionError:
        pass
    s.close()


def test_slow_senders_do_not_keep_memory_from_others(fresh, topic):
    s = fresh({"produce.inflight.bytes": 1 << 20})
    with Client(s.address, timeout=60) as c:
        c.create_topic(topic)
        stop = threading.Event()
        slow = [threading.Thread(target=trickle, args=(s.address, stop, n << 10))
                for n in (600, 400, 300)]
        for t in slow:
            t.start()
        try:
            wait_for(lambda: connections(s) == 4)
            got = c.produce(topic, batch([bytes(900_000)]))
            assert got.ErrorCode == 0
            assert c.call("ApiVersions", 0).ErrorCode == 0
        finally:
            stop.set()
            for t in slow:
                t.join()
    wait_for(lambda: connections(s) == 0)


def test_readers_that_take_nothing_are_bounded(fresh, topic, monkeypatch):
    """Each asks for half a MB again and again and reads nothing; the others are still served."""
    monkeypatch.setenv("ASAN_OPTIONS", "quarantine_size_mb=4")
    s = fresh({"fetch.inflight.bytes": 1 << 20})
    with Client(s.address, timeout=60) as c:
        c.call("CreateTopics", 7, timeoutMs=30000, Topics=[
            {"Name": topic, "NumPartitions": 10_000, "ReplicationFactor": 1}])
        frame = c.request("Metadata", 12, {"Topics": None})
        frame = struct.pack(">i", len(frame)) + frame
        c.metadata(None)
        before = s.rss_bytes()
        lazy = []
        try:
            for _ in range(6):
                one = socket.socket()
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                one.connect(s.address)
                one.sendall(frame * 40)
                lazy.append(one)
            for _ in range(3):
                assert len(c.metadata([topic]).Topics[0].Partitions) == 10_000
            assert s.rss_bytes() - before < 50 << 20, (s.rss_bytes() - before) >> 20
        finally:
            for one in lazy:
                one.close()
    wait_for(lambda: connections(s) == 0)


@pytest.mark.parametrize("api, before, after", [
    ("FindCoordinator", b"\0", b"\0"), ("DescribeGroups", b"", b"\0\0")])
def test_requests_of_millions_of_nothings(server, api, before, after):
    """A frame of 8 MB that decodes to as many empty names as it has bytes: answered or closed."""
    rss, count = server.rss_bytes(), 8 << 20
    n, size = count + 1, bytearray()
    while n >= 0x80:
        size.append(n & 0x7F | 0x80)
        n >>= 7
    size.append(n)
    with Client(server.address, timeout=120) as c:
        c.send_frame(c.header(raw.api_key(api), 5, True) + before + bytes(size) +
                     b"\1" * count + after)
        try:
            c.recv_frame()
        except raw.Closed:
            pass
    with Client(server.address) as c:
        assert c.call("ApiVersions", 0).ErrorCode == 0
    assert server.rss_bytes() - rss < 1 << 30
