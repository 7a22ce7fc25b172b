"""A disk that is full, read-only, closed to us, or out of descriptors: the client gets a clear
error, what was acknowledged is still served, and when the fault is over the server goes on by
itself.
"""
import os
import resource
import socket
import stat
import subprocess

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from clients import (Writer, check_all, client, create, get, load_table, mounted, problems, read,
                     until, verify)
from harness.server import Lakestream, ServerError

SETTINGS = {"wal.segment.bytes": 1 << 20, "table.commit.interval.ms": 3_600_000}
STORAGE_ERROR = KafkaError.KAFKA_STORAGE_ERROR


@pytest.fixture
def small_disk(tmp_path):
    with mounted(tmp_path / "disk", "size=24m") as folder:
        yield folder


@pytest.fixture
def on_disk():
    """A factory of servers on a given folder, ended before the folder goes."""
    made = []

    def make(folder, settings=None, **kw):
        server = Lakestream({**SETTINGS, **(settings or {})}, data_dir=folder)
        made.append(server)
        return server.start(**kw)

    yield make
    for server in made:
        try:
            server.stop()
        finally:
            server.kill()
        server.log_path.unlink(missing_ok=True)


def fill_disk(folder):
    """Takes all space that is left; -> the file to delete again."""
    filler = folder / "filler"
    with open(filler, "ab", buffering=0) as f:
        for size in (1 << 16, 1 << 12, 512):
            try:
                while True:
                    f.write(bytes(size))
            except OSError:
                pass
    return filler


def commit_offset(server, topic, offset):
    """-> None, or the code of the error"""
    consumer = Consumer(client(server, **{"group.id": "g"}))
    try:
        done = consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        return done[0].error and done[0].error.code()
    except KafkaException as e:
        return e.args[0].code()
    finally:
        consumer.close()


def test_disk_full(small_disk, on_disk):
    server = on_disk(small_disk)
    create(server, "t")
    w = Writer(server)
    assert w.fill("t", 200, 1000) == []
    filler = fill_disk(small_disk)

    # What is left of the segment, and what a given up segment frees again, still take a little.
    def all_refused():
        errors = w.fill("t", 50, 100_000)
        assert set(errors) <= {STORAGE_ERROR}
        return len(errors) == 50

    until(all_refused)
    fill_disk(small_disk)       # less than such a record, but enough for small ones, may be left
    status, text = get(server, "/readyz")
    assert status == 503 and "no space left" in text
    check_all(server, w.acked)
    status, text = load_table(server, "t")
    assert status in (500, 503, 507) and "no space left" in text, (status, text)
    assert server.alive()

    filler.unlink()
    until(lambda: w.send("t", b"again") is None)
    assert get(server, "/readyz")[0] == 200
    assert commit_offset(server, "t", 5) is None
    until(lambda: load_table(server, "t")[0] == 200)
    verify(server, "t")
    check_all(server, w.acked)
    server.restart()
    check_all(server, w.acked)
    server.stop()
    assert problems(server, "--deep") == []


def test_disk_full_while_metadata_is_written(small_disk, on_disk):
    """Offset commits and topics need the database only: with no space at all they are refused, and
    are taken again afterwards."""
    server = on_disk(small_disk)
    create(server, "t")
    w = Writer(server)
    assert w.send("t", b"first") is None
    filler = fill_disk(small_disk)
    good = next(n for n in range(400) if commit_offset(server, "t", n + 1) is not None)
    assert server.alive(), server.tail()
    consumer = Consumer(client(server, **{"group.id": "g"}))
    if good:
        assert consumer.committed([TopicPartition("t", 0)], timeout=20)[0].offset >= good
    check_all(server, w.acked)
    filler.unlink()
    until(lambda: commit_offset(server, "t", 1000) is None)
    assert consumer.committed([TopicPartition("t", 0)], timeout=20)[0].offset == 1000
    consumer.close()
    assert w.send("t", b"last") is None
    check_all(server, w.acked)


def test_starting_on_a_full_disk(small_disk, on_disk):
    server = on_disk(small_disk)
    create(server, "t")
    w = Writer(server)
    assert w.fill("t", 100, 1000) == []
    server.kill()
    filler = fill_disk(small_disk)
    try:
        server.start()
        check_all(server, w.acked)
    except ServerError as e:
        assert "no space left" in str(e)
    filler.unlink()
    server.kill()
    server.start()
    check_all(server, w.acked)
    assert w.send("t", b"x") is None


def test_files_may_not_grow(tmp_path, on_disk):
    """RLIMIT_FSIZE: the signal that comes with it does not end the server."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, resource.RLIM_INFINITY))

    server = on_disk(tmp_path / "data", preexec=limit)
    create(server, "t")
    w = Writer(server)
    errors = w.fill("t", 60, 100_000)
    assert errors and set(errors) == {STORAGE_ERROR}
    assert server.alive()
    assert w.send("t", b"small") is None      # a new segment has room again
    check_all(server, w.acked)


def test_no_data_folder_can_be_made(tmp_path):
    taken = tmp_path / "file"
    taken.write_text("")
    with pytest.raises(ServerError, match="data"):
        Lakestream(SETTINGS, data_dir=taken / "data").start()


# ---- read-only -----------------------------------------------------------------------------

@pytest.fixture
def ext4(tmp_path):
    image = tmp_path / "image"
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    if subprocess.run(["mkfs.ext4", "-q", "-F", image], capture_output=True).returncode != 0:
        pytest.skip("there is no mkfs.ext4 here")
    with mounted(tmp_path / "disk", "loop", kind="ext4", what=image) as folder:
        yield folder


def test_the_disk_becomes_read_only(ext4, on_disk):
    """What ext4 does after an error of the disk (errors=remount-ro), while the server runs."""
    server = on_disk(ext4)
    create(server, "t")
    w = Writer(server)
    assert w.fill("t", 100, 1000) == []
    r = subprocess.run(["mount", "-o", "remount,abort", ext4], capture_output=True, text=True)
    if r.returncode != 0:
        pytest.skip(f"a file system cannot be aborted here: {r.stderr.strip()}")
    error = until(lambda: w.send("t", b"x" * 10_000))
    assert error == STORAGE_ERROR
    status, text = get(server, "/readyz")
    assert status == 503 and ("read-only" in text or "input/output" in text)
    check_all(server, w.acked)
    server.kill()
    with pytest.raises(ServerError, match="read-only|input/output|cannot"):
        server.start()


# ---- permissions ---------------------------------------------------------------------------

NOBODY = 65534


@pytest.fixture
def as_nobody(tmp_path, on_disk):
    """A server that is not root, so that permissions hold for it."""
    if os.geteuid() != 0:
        yield lambda: on_disk(tmp_path / "data")
        return
    folder = tmp_path / "data"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    for parent in folder.parents:
        if parent.owner() == "root" and parent != parent.parent and str(parent) != "/tmp":
            parent.chmod(parent.stat().st_mode | stat.S_IXOTH | stat.S_IXGRP)

    def drop():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    yield lambda: on_disk(folder, preexec=drop)


def test_permission_lost(as_nobody):
    server = as_nobody()
    create(server, "t")
    w = Writer(server)
    assert w.fill("t", 100, 1000) == []
    for folder in ("wal", "store"):
        (server.data_dir / folder).chmod(0o500)
    # the open segment is still ours; the next one cannot be made
    error = until(lambda: w.send("t", os.urandom(200_000)))
    assert error in (STORAGE_ERROR, KafkaError.UNKNOWN), error
    status, text = get(server, "/readyz")
    assert status == 503 and "denied" in text, text
    check_all(server, w.acked)
    for folder in ("wal", "store"):
        (server.data_dir / folder).chmod(0o750)
    until(lambda: w.send("t", b"again") is None)
    assert get(server, "/readyz")[0] == 200
    check_all(server, w.acked)


# ---- descriptors ---------------------------------------------------------------------------

def test_out_of_descriptors(tmp_path, on_disk):
    """Connections beyond what can be had wait or are closed; those that are there are served, and
    new ones when there is room again."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (70, 70))

    server = on_disk(tmp_path / "data", preexec=limit)
    create(server, "t")
    w = Writer(server)
    assert w.fill("t", 100, 1000) == []
    crowd = []
    for _ in range(100):
        s = socket.create_connection(server.address, timeout=10)
        crowd.append(s)
    assert w.send("t", b"in the crowd") in (None, STORAGE_ERROR)
    assert server.alive()
    for s in crowd:
        s.close()
    until(lambda: w.send("t", b"after") is None)
    found, error = read(server, "t")
    assert error is None and found == w.acked["t", 0]
    until(lambda: load_table(server, "t")[0] == 200)
    verify(server, "t")
