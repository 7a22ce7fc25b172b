"""kcat (librdkafka 2.0): what an operator types."""
import json
import random
import subprocess
import threading
import time

import pytest

from harness.run import kcat
from raw import Client

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def create(server, topic, partitions=4):
    with Client(server.address) as c:
        c.create_topic(topic, partitions)


def consume(server, topic, *args, **kw):
    r = kcat(server, "-C", "-t", topic, "-e", "-q", "-o", "beginning", *args, **kw)
    return r.stdout.splitlines()


def test_list_metadata(server, topic):
    create(server, topic, 3)
    meta = json.loads(kcat(server, "-L", "-J", "-t", topic).stdout)
    assert [b["name"] for b in meta["brokers"]] == [server.bootstrap]
    assert [(t["topic"], len(t["partitions"])) for t in meta["topics"]] == [(topic, 3)]
    assert topic in kcat(server, "-L").stdout


def test_auto_created_topic(server, topic):
    kcat(server, "-P", "-t", topic, stdin="hello\n")
    assert consume(server, topic) == ["hello"]
    meta = json.loads(kcat(server, "-L", "-J", "-t", topic).stdout)
    assert len(meta["topics"][0]["partitions"]) == 4


@pytest.mark.parametrize("codec", CODECS)
def test_produce_consume(server, topic, codec):
    create(server, topic)
    lines = [f"{i} {random.Random(i).random()}" * (1 + i % 9) for i in range(3000)]
    kcat(server, "-P", "-t", topic, "-z", codec, stdin="\n".join(lines) + "\n")
    got = consume(server, topic, "-X", "check.crcs=true")
    assert sorted(got) == sorted(lines)


def test_order_within_a_partition(server, topic):
    create(server, topic, 2)
    lines = [str(i) for i in range(5000)]
    kcat(server, "-P", "-t", topic, "-p", "1", stdin="\n".join(lines) + "\n")
    assert consume(server, topic, "-p", "1") == lines
    assert consume(server, topic, "-p", "0") == []


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(server, topic, acks):
    create(server, topic, 1)
    kcat(server, "-P", "-t", topic, "-X", f"acks={acks}", stdin="a\nb\n")
    for _ in range(50):
        if consume(server, topic) == ["a", "b"]:
            return
        time.sleep(0.05)
    assert consume(server, topic) == ["a", "b"]


def test_keys_headers_null_and_empty(server, topic):
    create(server, topic, 1)
    kcat(server, "-P", "-t", topic, "-K:", "-H", "one=1", "-H", "empty=", "-H", "one=2", "-H",
         "null", stdin="k1:v1\nk2:\n:v3\n")
    kcat(server, "-P", "-t", topic, "-K:", "-Z", stdin="k4:\n:v5\n")
    rows = [json.loads(line) for line in consume(server, topic, "-J")]
    assert [(r["key"], r["payload"]) for r in rows] == [
        ("k1", "v1"), ("k2", ""), ("", "v3"), ("k4", None), (None, "v5")]
    assert rows[0]["headers"] == ["one", "1", "empty", "", "one", "2", "null", None]
    assert "headers" not in rows[3] or rows[3]["headers"] in ([], None)


def test_query_offsets(server, topic):
    from raw import Record, batch
    with Client(server.address) as c:
        c.create_topic(topic, 1)
        c.produce(topic, batch([Record(b"x", timestamp=1_700_000_000_000 + t)
                                for t in (2, 4, 6, 8)]))
    def query(timestamp):
        line = kcat(server, "-Q", "-t", f"{topic}:0:{timestamp}").stdout.split()
        return int(line[-1])
    assert query(-1) == 4 and query(-2) == 0
    assert query(1_700_000_000_003) == 1
    assert query(1_700_000_000_009) in (-1, 4)      # librdkafka turns "none" into the end


def test_b022_exit_at_end_of_an_empty_topic(server, topic):
    create(server, topic)
    began = time.monotonic()
    assert consume(server, topic) == []
    assert time.monotonic() - began < 10


def test_offsets_from_the_command_line(server, topic):
    create(server, topic, 1)
    kcat(server, "-P", "-t", topic, stdin="".join(f"{i}\n" for i in range(100)))
    assert consume(server, topic, "-o", "97")[-3:] == ["97", "98", "99"]
    tail = kcat(server, "-C", "-t", topic, "-e", "-q", "-o", "-2").stdout.splitlines()
    assert tail == ["98", "99"]
    few = kcat(server, "-C", "-t", topic, "-q", "-o", "10", "-c", "3").stdout.splitlines()
    assert few == ["10", "11", "12"]


def test_b018_small_fetch_limit(server, topic):
    create(server, topic, 1)
    lines = [str(i % 10) * 126_000 for i in range(20)]
    kcat(server, "-P", "-t", topic, "-X", "batch.num.messages=1", stdin="\n".join(lines) + "\n")
    got = consume(server, topic, "-X", "fetch.message.max.bytes=1", "-X",
                  "receive.message.max.bytes=200000000")
    assert got == lines


def test_group_consumer_commits_and_resumes(server, topic):
    create(server, topic, 4)
    group = "g-" + topic

    def read(count):
        # kcat's balanced consumer ends after -c records; its offsets are committed on close.
        return kcat(server, "-G", group, "-q", "-c", str(count), "-X",
                    "auto.offset.reset=earliest", topic, stdin="").stdout.splitlines()

    kcat(server, "-P", "-t", topic, stdin="".join(f"a{i}\n" for i in range(40)))
    assert sorted(read(40)) == sorted(f"a{i}" for i in range(40))
    kcat(server, "-P", "-t", topic, stdin="".join(f"b{i}\n" for i in range(20)))
    assert sorted(read(20)) == sorted(f"b{i}" for i in range(20))


def test_group_of_two_shares_the_partitions(server, topic):
    create(server, topic, 6)
    group = "g-" + topic
    procs = [subprocess.Popen(
        ["kcat", "-b", server.bootstrap, "-G", group, "-q", "-u", "-X",
         "auto.offset.reset=earliest", "-f", "%p %s\n", topic],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for _ in range(2)]
    seen = [[], []]
    threads = [threading.Thread(target=lambda i=i: seen[i].extend(procs[i].stdout))
               for i in range(2)]
    for t in threads:
        t.start()
    try:
        with Client(server.address) as c:
            for _ in range(300):
                g = c.call("DescribeGroups", 5, Groups=[group]).Groups[0]
                if g.GroupState == "Stable" and len(g.Members) == 2:
                    break
                time.sleep(0.1)
            assert len(g.Members) == 2
        for p in range(6):
            kcat(server, "-P", "-t", topic, "-p", str(p),
                 stdin="".join(f"{p}-{i}\n" for i in range(50)))
        for _ in range(200):
            if sum(map(len, seen)) >= 300:
                break
            time.sleep(0.1)
    finally:
        for p in procs:
            p.terminate()
        for p in procs:
            p.wait(20)
        for t in threads:
            t.join()
    rows = [line.split()[1] for part in seen for line in part]
    assert sorted(rows) == sorted(f"{p}-{i}" for p in range(6) for i in range(50))
    owned = [{line.split()[0] for line in part} for part in seen]
    assert owned[0] and owned[1] and not owned[0] & owned[1]


def test_b025_deleted_and_made_again(server, topic):
    group = "g-" + topic
    create(server, topic, 1)
    kcat(server, "-P", "-t", topic, stdin="".join(f"old{i}\n" for i in range(10)))
    assert len(kcat(server, "-G", group, "-q", "-c", "10", "-X", "auto.offset.reset=earliest",
                    topic, stdin="").stdout.splitlines()) == 10
    with Client(server.address) as c:
        c.delete_topic(topic)
        for _ in range(200):
            if c.metadata([topic]).Topics[0].ErrorCode == 3:
                break
            time.sleep(0.05)
        c.create_topic(topic, 1)
    kcat(server, "-P", "-t", topic, stdin="".join(f"new{i}\n" for i in range(5)))
    got = kcat(server, "-G", group, "-q", "-c", "5", "-X", "auto.offset.reset=earliest", topic,
               stdin="", seconds=40).stdout.splitlines()
    assert got == [f"new{i}" for i in range(5)]


def test_idempotent_producer(server, topic):
    create(server, topic, 3)
    lines = [str(i) for i in range(10_000)]
    kcat(server, "-P", "-t", topic, "-X", "enable.idempotence=true", "-X", "linger.ms=1", "-X",
         "batch.num.messages=50", stdin="\n".join(lines) + "\n")
    assert sorted(map(int, consume(server, topic))) == list(range(10_000))
