"""The table's rows are the records that were produced, byte for byte, for every reader."""
import subprocess

import pytest

from harness import paths
from raw import Client, Record, batch
from tables import (READERS, T, as_read, data_files, fill, load, log_rows, metadata, read_duckdb,
                    read_pyiceberg)

pytestmark = pytest.mark.lakestream


@pytest.mark.parametrize("reader", READERS)
def test_rows_equal_records(server, topic, reader):
    rows = fill(server, topic)
    assert READERS[reader](server, topic) == as_read(reader, rows)


@pytest.mark.parametrize("reader", READERS)
def test_b007_null_and_empty(server, topic, reader):
    states = [None, b"", b"x"]
    rs = [Record(v, k, (("h", h),), T + i) for i, (k, v, h) in enumerate(
        (k, v, h) for k in states for v in states for h in states)]
    rs.append(Record(b"v", b"k", (("a", b"1"), ("b", b""), ("a", None), ("", b"2")), T))
    rs.append(Record(b"v", b"k", (), T))
    with Client(server.address) as c:
        c.create_topic(topic)
        c.produce(topic, batch(rs))
    expected = sorted((0, i, r.timestamp, r.key, r.value, r.headers) for i, r in enumerate(rs))
    assert READERS[reader](server, topic) == expected


def test_several_commits_add_up(server, topic):
    rows = []
    for seed in range(8):
        rows += fill(server, topic, seed=seed, batches=4, size=30)
        assert read_pyiceberg(server, topic) == sorted(rows)
    assert read_duckdb(server, topic) == sorted(rows)
    assert log_rows(server, topic) == sorted(rows)


def test_only_null_values_and_no_headers(server, topic):
    with Client(server.address) as c:
        c.create_topic(topic)
        c.produce(topic, batch([Record(None, None, (), T)] * 50))
    expected = [(0, i, T, None, None, ()) for i in range(50)]
    for reader in READERS.values():
        assert reader(server, topic) == expected


def test_large_values(server, topic):
    import os
    values = [os.urandom(700_000), b"a" * 900_000, b"", os.urandom(1)]
    with Client(server.address) as c:
        c.create_topic(topic)
        for v in values:
            c.produce(topic, batch([Record(v, v[:10], (("big", v[:50_000]),), T)]))
    expected = [(0, i, T, v[:10], v, (("big", v[:50_000]),)) for i, v in enumerate(values)]
    for reader in (READERS["pyiceberg"], READERS["duckdb"]):
        assert reader(server, topic) == expected


def test_a_million_small_rows(server, topic):
    with Client(server.address) as c:
        c.create_topic(topic, 4)
        for i in range(40):
            rs = [Record(b"%d" % j, b"%d" % (j % 100), (), T + j) for j in range(10_000)]
            assert c.produce(topic, batch(rs, "lz4"), i % 4).ErrorCode == 0
    table = load(server, topic).scan(selected_fields=("__partition", "__offset", "value")) \
        .to_arrow()
    assert table.num_rows == 400_000
    seen = set(zip(table.column(0).to_pylist() if False else
                   table.column("__partition").to_pylist(),
                   table.column("__offset").to_pylist()))
    assert seen == {(p, o) for p in range(4) for o in range(100_000)}


def test_filters_do_not_hide_rows(server, topic):
    """Bounds in manifests and Parquet: each predicate keeps exactly the rows that fit."""
    rows = fill(server, topic, batches=20, size=200, seed=5)
    middle = rows[len(rows) // 2]
    picks = {
        f"__offset >= {middle[1]}": lambda r: r[1] >= middle[1],
        f"__partition = {middle[0]} and __offset = {middle[1]}":
            lambda r: r[:2] == middle[:2],
        f"__timestamp < '{iso(middle[2])}'": lambda r: r[2] < middle[2],
        "__key is null": lambda r: r[3] is None,
        "__partition = 77": lambda r: False,
    }
    for text, keep in picks.items():
        expected = [r for r in rows if keep(r)]
        assert read_pyiceberg(server, topic, row_filter=text) == expected, text
        assert read_duckdb(server, topic, text.replace("Z", "+00")) == expected, text


def iso(ms):
    import datetime
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc).isoformat()


def test_log_append_time_in_the_table(server, topic):
    with Client(server.address) as c:
        c.create_topic(topic, 1, {"message.timestamp.type": "LogAppendTime"})
        p = c.produce(topic, batch([Record(b"a", timestamp=5), Record(b"b", timestamp=9)]))
    assert [(r[2], r[4]) for r in read_pyiceberg(server, topic)] == \
        [(p.LogAppendTimeMs, b"a"), (p.LogAppendTimeMs, b"b")]


def test_b006_unset_max_timestamp(server, topic):
    with Client(server.address) as c:
        c.create_topic(topic)
        for codec in ("none", "gzip"):
            c.produce(topic, batch([Record(b"x", timestamp=T + t) for t in (0, 5, 10)], codec,
                                   max_timestamp=-1))
    assert [r[2] for r in read_pyiceberg(server, topic)] == [T, T + 5, T + 10] * 2
    f = data_files(metadata(server, topic))
    highest = max(int.from_bytes(b["value"], "little") for d in f for b in d["upper_bounds"]
                  if len(b["value"]) == 8 and b["key"] == field_id(server, topic, "__timestamp"))
    assert highest == (T + 10) * 1000


def field_id(server, topic, name):
    return load(server, topic).schema().find_field(name).field_id


def test_history_from_parquet_is_what_was_sent(fresh, topic):
    """After compaction and a restart nothing is cached: the log is read back from columns."""
    s = fresh()
    rows = fill(s, topic)
    assert read_pyiceberg(s, topic) == rows         # the load compacts the tail
    s.restart()
    assert log_rows(s, topic) == rows
    more = fill(s, topic, seed=2)
    assert log_rows(s, topic) == sorted(rows + more)
    assert read_duckdb(s, topic) == sorted(rows + more)
    s.restart(kill=True)
    assert log_rows(s, topic) == sorted(rows + more)
    verify(s, topic)


def verify(server, topic):
    r = subprocess.run([str(paths.SERVER), "table", "verify", topic, "--http", server.http,
                        "--output", "json"], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, (r.stdout, r.stderr)


def test_history_offsets_times_and_fetch_points(fresh, topic):
    """Offsets for times and fetches in the middle are as exact in history as in the tail."""
    s = fresh()
    times = [100, 300, 200, 700, 50, 650, 900, 800, 10, 1000]
    with Client(s.address) as c:
        c.create_topic(topic)
        for i in range(0, 10, 5):
            c.produce(topic, batch([Record(b"%d" % t, timestamp=T + t) for t in times[i:i + 5]],
                                   "zstd"))
    load(s, topic)
    s.restart()
    with Client(s.address) as c:
        for asked in range(0, 1100, 25):
            expected = next((i for i, t in enumerate(times) if t >= asked), -1)
            assert c.list_offset(topic, T + asked).Offset == expected, asked
        p = c.list_offset(topic, -3)
        assert (p.Offset, p.Timestamp) == (9, T + 1000)
        for offset in range(10):
            assert [r.offset for r in c.records(topic, 0, offset)] == list(range(offset, 10))
        assert c.fetch(topic, 0, 10, max_wait=10).ErrorCode == 0
        assert c.fetch(topic, 0, 11, max_wait=10).ErrorCode == 1


def test_delete_records_moves_the_log_not_the_table(fresh, topic):
    s = fresh()
    rows = fill(s, topic, partitions=1, batches=6)
    load(s, topic)
    cut = rows[len(rows) // 2][1]
    with Client(s.address) as c:
        c.call("DeleteRecords", 2, TimeoutMs=10000, Topics=[
            {"Name": topic, "Partitions": [{"PartitionIndex": 0, "Offset": cut}]}])
    for _ in range(2):
        assert log_rows(s, topic, 1) == [r for r in rows if r[1] >= cut]
        assert read_pyiceberg(s, topic) == rows
        s.restart()


def test_delete_records_before_the_table_saw_them(fresh, topic):
    """Rows that the log dropped before compaction: the table never has more than was produced,
    and everything from the log's start on."""
    s = fresh()
    rows = fill(s, topic, partitions=1, batches=6)
    cut = rows[len(rows) // 2][1]
    with Client(s.address) as c:
        c.call("DeleteRecords", 2, TimeoutMs=10000, Topics=[
            {"Name": topic, "Partitions": [{"PartitionIndex": 0, "Offset": cut}]}])
    got = read_pyiceberg(s, topic)
    assert set(got) <= set(rows) and set(r for r in rows if r[1] >= cut) <= set(got)


def test_b025_a_topic_deleted_and_made_again(server, topic):
    fill(server, topic, seed=1)
    first = load(server, topic).metadata.table_uuid
    with Client(server.address) as c:
        c.delete_topic(topic)
    with pytest.raises(Exception, match="(?i)not exist|NoSuchTable|not found"):
        load(server, topic)
    rows = fill(server, topic, seed=2)
    assert load(server, topic).metadata.table_uuid != first
    assert read_pyiceberg(server, topic) == rows
    assert log_rows(server, topic) == rows


def test_partitions_added_later(server, topic):
    rows = fill(server, topic, partitions=2)
    with Client(server.address) as c:
        c.call("CreatePartitions", 3, TimeoutMs=10000, Topics=[
            {"Name": topic, "Count": 70, "Assignments": None}])
        c.wait_topic(topic, 70)
        c.produce(topic, batch([Record(b"late", timestamp=T)]), 69)
    assert read_pyiceberg(server, topic) == sorted(rows + [(69, 0, T, None, b"late", ())])
