"""One copy: after compaction the WAL is deleted, and consumers get from Parquet what was produced,
byte for byte; times are found exactly; merging under readers and damaged files hurt nobody else.
"""
import json
import os
import random
import sqlite3
import subprocess
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import paths
from raw import CORRUPT_MESSAGE, Client, Record, batch, parse_batches
from tables import T, get, load, local, read_duckdb

pytestmark = pytest.mark.lakestream

# Nothing cached, small segments, upkeep all the time: what is compacted is soon nowhere but in
# Parquet.
SETTINGS = {"cache.tail.bytes": 0, "wal.segment.bytes": 1 << 20, "wal.delete.delay.ms": 0,
            "table.upkeep.interval.ms": 100, "message.max.bytes": 1 << 26,
            "log.retention.ms": -1}
CODECS = ["none", "gzip", "snappy", "xerial", "lz4", "zstd"]
TIME_MAX = (2**63 - 1) // 1000
STORAGE_ERROR = 56


def wait_for(condition, what, seconds=180):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited in vain until {what}"
        time.sleep(0.05)


def commit(server, topic):
    """Compacts the tail and waits until the WAL holds only what it must: the open segment."""
    load(server, topic)
    wal = server.data_dir / "wal"
    wait_for(lambda: len(list(wal.glob("*.wal"))) <= 1, "the WAL is collected")


def metric(server, name):
    import urllib.request
    with urllib.request.urlopen(f"http://{server.http}/metrics", timeout=30) as r:
        for line in r.read().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
    return 0.0


class Log:
    """What was produced: partition -> records with their offsets."""

    def __init__(self, client, topic, partitions=1, configs=None):
        client.create_topic(topic, partitions, configs)
        self.topic, self.parts = topic, [[] for _ in range(partitions)]

    def produce(self, client, partition, records, codec="none", **kw):
        r = client.produce(self.topic, batch(records, codec, **kw), partition)
        assert r.ErrorCode == 0, r
        assert r.BaseOffset == len(self.parts[partition])
        times = [r.LogAppendTimeMs] * len(records) if r.LogAppendTimeMs != -1 else \
            [x.timestamp for x in records]
        self.parts[partition] += [x._replace(offset=r.BaseOffset + i, timestamp=t)
                                  for i, (x, t) in enumerate(zip(records, times))]

    def check(self, client, partition, offset=0, end=None, codec=None, **limits):
        """Fetches on from `offset`: dense whole batches, good checksums, the records produced."""
        want = self.parts[partition]
        end = len(want) if end is None else end
        while offset < end:
            p = client.fetch(self.topic, partition, offset, **limits)
            assert p.ErrorCode == 0, (p.ErrorCode, partition, offset)
            batches = parse_batches(p.Records)
            assert batches and batches[0].base_offset <= offset <= batches[0].last_offset
            for b in batches:
                assert b.crc_good and (b.producer_id, b.base_sequence) == (-1, -1)
                assert codec in (None, b.codec)
                got = [r for r in b.records if r.offset >= offset]
                assert got == want[offset:b.last_offset + 1]
                offset = b.last_offset + 1


def shapes(rng, count):
    """Records of every shape, in no order of time."""
    def maybe(data):
        return rng.choice([None, b"", data, data])
    out = []
    for i in range(count):
        headers = [(rng.choice(["h", "h", "", "ünï", "\ufffdhex:00"]), maybe(rng.randbytes(5)))
                   for _ in range(rng.choice([0, 0, 1, 3, 7]))]
        stamp = rng.choice([T + i, T - rng.randint(0, 10**6), T - rng.randint(0, 10**9), -1, 0,
                            -rng.randint(2, 10**12), -TIME_MAX])
        value = rng.choice([rng.randbytes(rng.randint(1, 400)), b'{"id":%d}' % i, b"x" * 2000])
        out.append(Record(maybe(value), maybe(b"key-%d" % (i % 50)), tuple(headers), stamp))
    return out


def replay_of(log, client, server, rng, codec=None):
    """All from the start, then from anywhere, whatever the limits."""
    before = metric(server, "lakestream_history_reads_total")
    for p, records in enumerate(log.parts):
        log.check(client, p, 0, codec=codec)
        for _ in range(12):
            offset = rng.randrange(len(records))
            limit = rng.choice([1, 100, 3000, 20_000, 1 << 20])
            log.check(client, p, offset, min(len(records), offset + 60), codec=codec,
                      partition_max_bytes=limit)
    assert metric(server, "lakestream_history_reads_total") > before


def check_times(log, client, partition, rng):
    records = log.parts[partition]
    times = sorted({r.timestamp for r in records if r.timestamp >= 0})
    asked = rng.sample(times, min(25, len(times))) + [0, times[-1], times[-1] + 1, 2**62]
    for t in asked + [t + 1 for t in asked[:8]]:
        first = next((r for r in records if r.timestamp >= t), None)
        p = client.list_offset(log.topic, t, partition)
        want = (first.offset, first.timestamp) if first else (-1, -1)
        assert (p.ErrorCode, p.Offset, p.Timestamp) == (0, *want), t
    greatest = max(r.timestamp for r in records)
    p = client.list_offset(log.topic, -3, partition)
    assert (p.Offset, p.Timestamp) == \
        (next(r.offset for r in records if r.timestamp == greatest), greatest)


def verify(server, topic, deep=True, code=0):
    r = subprocess.run([str(paths.SERVER), "table", "verify", topic, "--http", server.http,
                        "--output", "json", f"--deep={str(deep).lower()}"],
                       capture_output=True, text=True, timeout=120)
    assert r.returncode == code, (r.stdout, r.stderr)
    return json.loads(r.stdout)


def data_paths(server, topic):
    return [local(f.file.file_path) for f in load(server, topic).scan().plan_files()]


@pytest.mark.parametrize("codec", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_replay_is_what_was_produced(fresh, topic, codec):
    s, rng = fresh(SETTINGS), random.Random(codec)
    served = {"producer": "none", "uncompressed": "none"}.get(codec, codec)
    with Client(s.address) as c:
        log = Log(c, topic, 6, {"compression.type": codec, "table.target.file.bytes": 1 << 20})
        for _ in range(3):
            for i in range(24):
                log.produce(c, i % 6, shapes(rng, rng.randint(1, 120)), CODECS[i // 2 % 6],
                            base_timestamp=0)
            load(s, topic)
        commit(s, topic)
        replay_of(log, c, s, rng, served)
        for p in range(6):
            check_times(log, c, p, rng)
    assert verify(s, topic)["equal"]
    s.restart(kill=True)
    with Client(s.address) as c:
        replay_of(log, c, s, rng, served)


def test_log_append_time_and_a_change_of_it(fresh, topic):
    s, rng = fresh(SETTINGS), random.Random(3)
    with Client(s.address) as c:
        log = Log(c, topic, 2, {"message.timestamp.type": "LogAppendTime"})
        for kind in ("LogAppendTime", "CreateTime", "LogAppendTime"):
            r = c.call("IncrementalAlterConfigs", 1, ValidateOnly=False, Resources=[
                {"ResourceType": 2, "ResourceName": topic, "Configs": [
                    {"Name": "message.timestamp.type", "ConfigOperation": 0, "Value": kind}]}])
            assert r.Responses[0].ErrorCode == 0
            for i in range(8):
                log.produce(c, i % 2, shapes(rng, 50), CODECS[i % 6], base_timestamp=0)
        commit(s, topic)
        replay_of(log, c, s, rng)
        for p in range(2):
            kinds = {b.attributes & 8 for b in parse_batches(c.fetch(topic, p, 0).Records)}
            assert kinds == {0, 8}
            check_times(log, c, p, rng)
    assert verify(s, topic)["equal"]


def test_large_records_and_borders_of_row_groups_and_files(fresh, topic):
    """A row group holds 16 MiB of record bytes; a file, with this setting, about 20 MiB."""
    s, rng = fresh(SETTINGS), random.Random(4)
    block = rng.randbytes(1 << 20)

    def noise(size):
        at = rng.randrange(len(block))
        return (block[at:] + block * (size // len(block) + 1))[:size]

    with Client(s.address) as c:
        log = Log(c, topic, 2, {"max.message.bytes": 1 << 26,
                                "table.target.file.bytes": 20 << 20})
        log.produce(c, 0, [Record(noise(30 << 20), b"large", (("h", noise(5 << 20)),), T)], "lz4")
        for i in range(36):
            rs = [Record(rng.randbytes(30_000), b"k", (), T + j) for j in range(50)]
            log.produce(c, i % 2, rs, CODECS[i % 6])
        log.produce(c, 1, [Record(noise(9 << 20), noise(9 << 20), (), T + 9)])
        log.produce(c, 1, shapes(rng, 500), "gzip", base_timestamp=0)
        commit(s, topic)
        footers = [pq.ParquetFile(f).metadata for f in data_paths(s, topic)]
        assert len(footers) > 1 and max(f.num_row_groups for f in footers) > 1
        replay_of(log, c, s, rng)
        for p in range(2):
            check_times(log, c, p, rng)
    assert verify(s, topic)["equal"]


def test_many_partitions(fresh, topic):
    s, rng = fresh(SETTINGS), random.Random(5)
    with Client(s.address) as c:
        log = Log(c, topic, 130)
        for p in range(130):
            log.produce(c, p, shapes(rng, 1 + p % 7), CODECS[p % 6], base_timestamp=0)
        commit(s, topic)
        for limit in (1, 1 << 20):
            for p in range(130):
                log.check(c, p, partition_max_bytes=limit)
        # One request for all of them: the answer keeps to its limit, and still moves on.
        at = {p: 0 for p in range(130)}
        for _ in range(400):
            r = c.call("Fetch", 12, **c.fetch_body(topic, at, None, max_bytes=20_000))
            got = 0
            for p in r.Responses[0].Partitions:
                assert p.ErrorCode == 0
                got += len(p.Records or b"")
                for b in parse_batches(p.Records):
                    records = [x for x in b.records if x.offset >= at[p.PartitionIndex]]
                    assert records == log.parts[p.PartitionIndex][at[p.PartitionIndex]:
                                                                  b.last_offset + 1]
                    at[p.PartitionIndex] = b.last_offset + 1
            assert got < 60_000
            at = {p: o for p, o in at.items() if o < len(log.parts[p])}
            if not at:
                break
        assert not at
    assert verify(s, topic)["equal"]


def test_a_retry_after_the_wal_is_gone_gets_the_first_answer(fresh, topic):
    s = fresh(SETTINGS)
    with Client(s.address) as c:
        log = Log(c, topic)
        pid, epoch = c.producer_id()
        for n in range(5):
            log.produce(c, 0, [Record(b"%d-%d" % (n, i), timestamp=T) for i in range(10)], "zstd",
                        producer_id=pid, epoch=epoch, sequence=10 * n)
        commit(s, topic)
        for n in range(5):
            again = [Record(b"%d-%d" % (n, i), timestamp=T) for i in range(10)]
            r = c.produce(topic, batch(again, "zstd", producer_id=pid, epoch=epoch,
                                       sequence=10 * n))
            assert (r.ErrorCode, r.BaseOffset) == (0, 10 * n)
        log.check(c, 0)
        assert c.end_offset(topic) == 50


def test_partitioned_tables_give_back_the_order(fresh, topic):
    """Rows of one offset range lie in several files: they are merged by offset."""
    s, rng = fresh(SETTINGS), random.Random(6)
    with Client(s.address) as c:
        log = Log(c, topic, 2, {"table.partition.by": "bucket(4, __key)"})
        for i in range(12):
            rs = [r._replace(timestamp=T + rng.randint(0, 10**6)) for r in shapes(rng, 150)]
            log.produce(c, i % 2, rs, CODECS[i % 6])
        commit(s, topic)
        assert len(data_paths(s, topic)) >= 4
        replay_of(log, c, s, rng)
        for p in range(2):
            check_times(log, c, p, rng)
    assert verify(s, topic)["equal"]


def test_files_are_merged_and_deleted_under_readers(fresh, topic):
    """No grace at all: a file may vanish at any moment of a read, which then plans again."""
    s, rng = fresh(SETTINGS), random.Random(7)
    errors, stop = [], threading.Event()
    with Client(s.address) as c:
        log = Log(c, topic, 2, {"table.file.grace.ms": 0, "table.snapshot.retention.ms": 0,
                                "table.snapshot.retention.count": 1})
        for i in range(10):
            log.produce(c, i % 2, shapes(rng, 100), CODECS[i % 6], base_timestamp=0)
        load(s, topic)

        def read(seed):
            mine = random.Random(seed)
            try:
                with Client(s.address) as r:
                    while not stop.is_set():
                        p = mine.randrange(2)
                        offset = mine.randrange(len(log.parts[p]))
                        log.check(r, p, offset, min(len(log.parts[p]), offset + 150),
                                  partition_max_bytes=mine.choice([1, 5000, 1 << 20]))
                        if seed == 1:
                            check_times_of(log, r, p, mine)
            except BaseException as e:      # pytest sees only its own thread's
                errors.append(e)

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
        for t in threads:
            t.start()
        try:
            for i in range(120):
                log.produce(c, i % 2, shapes(rng, rng.randint(1, 60)), CODECS[i % 6],
                            base_timestamp=0)
                load(s, topic)
                if errors:
                    break
        finally:
            stop.set()
            for t in threads:
                t.join()
        assert not errors, errors
        wait_for(lambda: metric(s, "lakestream_objects_deleted_total") > 0, "files are deleted")
        assert metric(s, "lakestream_table_merges_total") > 0
        for p in range(2):
            log.check(c, p)
    assert verify(s, topic)["equal"]


def check_times_of(log, client, partition, rng):
    """While records are still appended: one that is there for sure."""
    records = list(log.parts[partition])
    t = rng.choice(records).timestamp
    if t < 0:
        return
    first = next(r for r in records if r.timestamp >= t)
    p = client.list_offset(log.topic, t, partition)
    assert (p.ErrorCode, p.Offset, p.Timestamp) == (0, first.offset, first.timestamp), t


# ---- damage ---------------------------------------------------------------------------------

def two_files(server, client, topic, rng):
    """A log of two partitions, whose offsets 0 to 3,999 are in one file (a row group), the rest in
    another. -> log, files"""
    log = Log(client, topic, 2)
    paths_before = set()
    files = []
    for _ in range(2):
        for i in range(40):
            rs = [Record(rng.randbytes(1000), b"key", (), T + i) for _ in range(200)]
            log.produce(client, i % 2, rs)
        load(server, topic)
        now = set(data_paths(server, topic))
        files += sorted(now - paths_before)
        paths_before = now
    assert len(files) == 2
    return log, files


def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 0x10]))


def test_a_flipped_bit_costs_its_page_only(fresh, topic):
    s, rng = fresh(SETTINGS), random.Random(8)
    with Client(s.address) as c:
        log, files = two_files(s, c, topic, rng)
        good = open(files[0], "rb").read()
        column = pq.ParquetFile(files[0]).metadata.row_group(0).column(0)
        flip(files[0], column.data_page_offset + column.total_compressed_size // 4)
        served, refused, at = set(), None, 0
        while at < 4000:                     # as far as it goes from the front
            p = c.fetch(topic, 0, at)
            if p.ErrorCode:
                assert p.ErrorCode == CORRUPT_MESSAGE
                refused = at
                break
            log.check(c, 0, at, at + 1)
            batches = parse_batches(p.Records)
            served |= {r.offset for b in batches for r in b.records}
            at = batches[-1].last_offset + 1
        assert refused is not None and refused > 500, "a page in the middle was hit"
        after = next(o for o in range(refused, 4000) if not c.fetch(topic, 0, o).ErrorCode)
        assert after - refused < 1200, "a page, no more"
        log.check(c, 0, after)               # and all behind it
        log.check(c, 1)                      # and the other partition
        assert files[0].rsplit("/", 1)[1] in s.tail()
        assert f"topic={topic} partition=0" in s.tail()
        found = verify(s, topic, code=1)
        assert not found["equal"] and files[0].rsplit("/", 1)[1] in found["first_difference"]
        open(files[0], "wb").write(good)     # mended: nothing bad was remembered
        log.check(c, 0)
        assert verify(s, topic)["equal"]


@pytest.mark.parametrize("hurt", ["cut", "footer", "empty", "gone"])
def test_a_lost_file_costs_its_range_only(fresh, topic, hurt):
    s, rng = fresh(SETTINGS), random.Random(9)
    with Client(s.address) as c:
        log, files = two_files(s, c, topic, rng)
        good = open(files[0], "rb").read()
        if hurt == "gone":
            os.unlink(files[0])
        elif hurt == "footer":
            flip(files[0], len(good) - 200)
        else:
            open(files[0], "wb").write(good[:len(good) * 2 // 3] if hurt == "cut" else b"")
        for offset in (0, 1234, 3999):
            assert c.fetch(topic, 0, offset).ErrorCode == CORRUPT_MESSAGE
        log.check(c, 0, 4000)
        log.check(c, 1, 4000)
        assert c.list_offset(topic, T, 0).ErrorCode == STORAGE_ERROR
        assert files[0].rsplit("/", 1)[1] in s.tail()
        assert not verify(s, topic, code=1)["equal"]
        # The rest of the server does not care.
        r = c.produce(topic, batch([Record(b"more", timestamp=T)]))
        assert (r.ErrorCode, r.BaseOffset) == (0, 8000)


def test_offsets_that_nothing_covers_are_not_passed_over(fresh, topic):
    s, rng = fresh(SETTINGS), random.Random(12)
    with Client(s.address) as c:
        log, _ = two_files(s, c, topic, rng)
    s.stop()
    with sqlite3.connect(s.data_dir / "meta" / "lakestream.db") as db:
        gone = db.execute("DELETE FROM extent WHERE partition = 0 AND base_offset = 0").rowcount
    db.close()
    assert gone == 1
    s.start()
    with Client(s.address) as c:
        assert c.fetch(topic, 0, 0).ErrorCode == CORRUPT_MESSAGE
        assert f"event=history_missing topic={topic} partition=0 offset=0" in s.tail()
        log.check(c, 0, 4000)
        log.check(c, 1)
        assert "no extent covers" in verify(s, topic, code=1)["first_difference"]


def test_verify_finds_a_changed_record(fresh, topic):
    """A file that is sound as Parquet, with one byte of one record changed by another writer."""
    s, rng = fresh(SETTINGS), random.Random(10)
    with Client(s.address) as c:
        log, files = two_files(s, c, topic, rng)
    assert verify(s, topic)["equal"] and verify(s, topic, deep=False)["equal"]
    table = pq.read_table(files[0])
    footer = pq.ParquetFile(files[0]).schema_arrow.metadata or {}
    raw = pq.read_metadata(files[0]).metadata
    values = table.column("value").to_pylist()
    values[777] = values[777][:-1] + bytes([values[777][-1] ^ 1])
    table = table.set_column(0, table.schema.field("value"),
                             pa.array(values, type=table.schema.field("value").type))
    table = table.replace_schema_metadata({**footer, **raw})
    pq.write_table(table, files[0], compression="zstd")
    found = verify(s, topic, code=1)
    assert not found["equal"] and files[0].rsplit("/", 1)[1] in found["first_difference"]


def test_damage_of_one_topic_is_not_another_ones(fresh, topic):
    s, rng = fresh(SETTINGS), random.Random(11)
    with Client(s.address) as c:
        log, files = two_files(s, c, topic, rng)
        other = Log(c, topic + "-b")
        other.produce(c, 0, shapes(rng, 100), base_timestamp=0)
        commit(s, topic + "-b")
        for f in files:
            open(f, "wb").write(b"PAR1")
        assert c.fetch(topic, 0, 0).ErrorCode == CORRUPT_MESSAGE
        other.check(c, 0)
        status, _, _ = get(s, f"main/namespaces/default/tables/{topic}-b")
        assert status == 200 or get(s, f"namespaces/default/tables/{topic}-b")[0] == 200
        assert len(read_duckdb(s, topic + "-b")) == 100
