"""Files deleted or with flipped bits: what is intact is served, the client gets an error for what is
not, and `lakestream doctor check` names the damaged range."""
import json
import os
import re
import shutil

import pytest
from confluent_kafka import KafkaError

import tables
from clients import (Writer, check_all, create, doctor, get, load_table, problems, read, until,
                     verify)
from harness.server import ServerError

NO_TABLES = {"table.commit.interval.ms": 3_600_000, "wal.segment.bytes": 1 << 20,
             "cache.tail.bytes": 0}
DAMAGED = KafkaError.INVALID_MSG        # CORRUPT_MESSAGE


@pytest.fixture
def server(started):
    return started(NO_TABLES)


def flip(path, position, bit=1):
    with open(path, "r+b") as f:
        f.seek(position)
        byte = f.read(1)[0]
        f.seek(position)
        f.write(bytes([byte ^ bit]))


def segments(server):
    return sorted((server.data_dir / "wal").glob("*.wal"))


def place_of(path, needle):
    at = path.read_bytes().find(needle)
    assert at > 0
    return at


def one_by_one(w, topic, count, partition=0):
    """Each record in a batch and, mostly, a WAL object of its own: (offset, value) of each."""
    for i in range(count):
        assert w.send(topic, b"record-%d-%d-" % (partition, i) + b"x" * 200, partition) is None
    return sorted(w.acked[topic, partition].items())


def read_around(server, topic, bad, records, partition=0):
    """Everything but the offset `bad` is served; it is an error."""
    found, error = read(server, topic, partition)
    assert error == DAMAGED, error
    assert found == {o: v for o, v in records if o < bad}
    found, error = read(server, topic, partition, offset=bad + 1)
    assert error is None and found == {o: v for o, v in records if o > bad}


def test_bit_flipped_in_a_wal_batch(server):
    create(server, "t", 2)
    w = Writer(server)
    records = one_by_one(w, "t", 20)
    other = one_by_one(w, "t", 20, 1)
    path = segments(server)[0]
    flip(path, place_of(path, b"record-0-7-") + 50)
    read_around(server, "t", 7, records)
    found, error = read(server, "t", 1)
    assert error is None and found == dict(other)
    status, _ = load_table(server, "t")
    assert status in (200, 500, 503)              # never a table that lacks it in silence
    if status == 200:
        status, text = get(server, "/api/v1/streams/t/table/verify?deep=true")
        assert status != 200 or not json.loads(text)["equal"]
    server.restart()
    read_around(server, "t", 7, records)
    assert w.send("t", b"goes on") is None
    server.stop()
    lines = problems(server)
    assert len(lines) == 1 and "topic t partition 0 offsets 7 to 7" in lines[0], lines


def test_wal_segment_deleted(server):
    create(server, "t", 1)
    w = Writer(server)
    one_by_one(w, "t", 10)
    server.restart()                              # the next records go to another segment
    more = Writer(server)
    records = one_by_one(more, "t", 10)
    segments(server)[0].unlink()
    assert w.send("t", b"while it is open") is None
    server.restart()
    found, error = read(server, "t")
    assert error == DAMAGED and not found
    found, error = read(server, "t", offset=10)
    assert error is None and {o: found[o] for o, _ in records} == dict(records)
    assert w.send("t", b"goes on") is None
    server.stop()
    lines = problems(server)
    assert any("topic t partition 0 offsets 0 to 9" in line and "gone" in line for line in lines)


def test_wal_segment_cut(server):
    """The end of the newest segment is gone, and with it records that were acknowledged: served up
    to there, named, and no offset is given twice."""
    create(server, "t", 1)
    w = Writer(server)
    records = one_by_one(w, "t", 20)
    server.kill()
    path = segments(server)[-1]
    os.truncate(path, place_of(path, b"record-0-15-") + 30)
    server.start()
    found, error = read(server, "t")
    assert error == DAMAGED and found == dict(records[:15])
    again = Writer(server)
    assert again.send("t", b"goes on") is None
    assert list(again.acked["t", 0]) == [20]
    server.stop()
    lines = problems(server)
    assert any("topic t partition 0 offsets 15 to 19" in line for line in lines), lines


def data_files(server, topic):
    return [tables.local(f.file.file_path)
            for f in tables.load(server, topic).scan().plan_files()]


@pytest.mark.parametrize("how", ["deleted", "flipped", "cut"])
def test_data_file(server, how):
    """Two tables, one loses a file: consumers of the range get an error, others are served."""
    create(server, "t", 1)
    create(server, "well", 1)
    w = Writer(server)
    first = one_by_one(w, "t", 10)
    one_by_one(w, "well", 10)
    path, = data_files(server, "t")
    assert load_table(server, "well")[0] == 200
    records = one_by_one(w, "t", 20)[10:]         # in the WAL
    if how == "deleted":
        os.unlink(path)
    elif how == "cut":
        os.truncate(path, os.path.getsize(path) // 2)
    else:
        flip(path, 40)                            # the first page
    server.restart()
    found, error = read(server, "t")
    assert error == DAMAGED and not found
    found, error = read(server, "t", offset=10)
    assert error is None and found == dict(records)
    check_all(server, {("well", 0): w.acked["well", 0]})
    assert w.send("t", b"goes on") is None
    status, text = get(server, "/api/v1/streams/t/table/verify?deep=true")
    assert status != 200 or not json.loads(text)["equal"]
    verify(server, "well")
    server.stop()
    lines = problems(server, "--deep")
    assert any("topic t partition 0 offsets 0 to 9" in line for line in lines), lines
    assert not any("topic well" in line for line in lines)


def metadata_files(server, topic):
    where = os.path.dirname(tables.local(tables.load(server, topic).metadata_location))
    return {kind: [os.path.join(where, n) for n in os.listdir(where) if re.search(pattern, n)]
            for kind, pattern in {"metadata": r"\.metadata\.json$", "list": r"-s\d+\.avro$",
                                  "manifest": r"-m\d*\.avro$|-\d+\.avro$"}.items()}


@pytest.mark.parametrize("kind", ["metadata", "list", "manifest"])
@pytest.mark.parametrize("how", ["deleted", "flipped"])
def test_table_metadata(server, kind, how):
    """The log does not need it; the doctor names it."""
    create(server, "t", 1)
    w = Writer(server)
    one_by_one(w, "t", 10)
    files = metadata_files(server, "t")[kind]
    assert files, os.listdir(os.path.dirname(metadata_files(server, "t")["metadata"][0]))
    for path in files:
        if how == "deleted":
            os.unlink(path)
        else:
            flip(path, os.path.getsize(path) // 2, 0xff)
    server.stop()
    lines = problems(server)
    assert any("topic t" in line and "table" in line for line in lines), lines
    server.start()
    check_all(server, w.acked)
    assert w.send("t", b"goes on") is None
    check_all(server, w.acked)
    status, _ = load_table(server, "t")
    assert status in (200, 500)
    assert server.alive()


def test_index_row_damaged(server):
    """One index row of one topic in the database: that topic is in trouble, and named; others are
    served."""
    import sqlite3
    create(server, "t", 1)
    create(server, "well", 1)
    w = Writer(server)
    one_by_one(w, "t", 5)
    one_by_one(w, "well", 5)
    server.stop()
    with sqlite3.connect(server.data_dir / "meta" / "lakestream.db") as db:
        stream, = db.execute("SELECT id FROM stream WHERE kafka_name = 't'").fetchone()
        row, blob = db.execute("SELECT object_id, entries FROM wal_index WHERE stream_id = ? "
                               "ORDER BY object_id LIMIT 1", (stream,)).fetchone()
        blob = bytearray(blob)
        blob[len(blob) // 2] ^= 0x10
        db.execute("UPDATE wal_index SET entries = ? WHERE stream_id = ? AND object_id = ?",
                   (bytes(blob), stream, row))
    code, said = doctor(server)
    text = said if isinstance(said, str) else "\n".join(f["text"] for f in said["findings"])
    assert code != 0 and ("t" in text), text
    try:
        server.start()
    except ServerError as e:
        assert "doctor" in str(e) or "damaged" in str(e)
        return
    check_all(server, {("well", 0): w.acked["well", 0]})


def test_segment_header_flipped(server):
    """The header serves a rebuild only: records behind it are served."""
    create(server, "t", 1)
    w = Writer(server)
    one_by_one(w, "t", 10)
    server.kill()
    flip(segments(server)[0], 20)
    server.start()
    check_all(server, w.acked)
    assert w.send("t", b"goes on") is None


def test_folder_of_a_table_gone(server):
    create(server, "t", 1)
    w = Writer(server)
    one_by_one(w, "t", 10)
    assert load_table(server, "t")[0] == 200
    shutil.rmtree(server.data_dir / "store" / "tables")
    one_by_one(w, "t", 5)
    assert server.alive()
    found, error = read(server, "t", offset=10)
    assert error is None and len(found) == 5
    server.restart()
    assert w.send("t", b"goes on") is None
    server.stop()
    assert any("topic t partition 0 offsets 0 to 9" in line for line in problems(server))
