"""Ending and starting: a clean shutdown under load loses nothing, two servers never share a
directory, a newer directory is refused."""
import os
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

from clients import Writer, check_all, create, get, lakestream, load_table, problems, until, verify
from harness.server import Lakestream, ServerError
from load import SETTINGS, Load


def test_clean_shutdown_under_load(started):
    """SIGTERM while everything happens: exit 0, nothing acknowledged is lost, nothing is left for
    recovery to cut."""
    server = started(SETTINGS)
    load = Load(server, seed=7).start()
    try:
        for _ in range(4):
            load.stopping.wait(0.5)
            server.stop()                      # asserts exit code 0 and no report of a sanitizer
            promises = load.promises()
            server.start()
            assert load.check_quickly(promises) == []
        load.stop()
        assert load.check() == []
    finally:
        load.stopping.set()
    text = server.log_path.read_text()
    assert "tail_cut" not in text and "event=stopped" in text


def test_a_second_sigterm_ends_a_long_drain(started):
    server = started()
    create(server, "t")
    w = Writer(server)
    assert w.fill("t", 100, 100) == []
    server.process.send_signal(signal.SIGTERM)
    until(lambda: "event=draining" in server.log_path.read_text())
    server.process.send_signal(signal.SIGTERM)
    code = server.process.wait(30)
    assert code in (0, -signal.SIGTERM)        # 0: the drain was done before it came
    server.kill()
    server.start()
    check_all(server, w.acked)


def test_second_server_on_the_same_directory(started):
    server = started()
    create(server, "t")
    w = Writer(server)
    assert w.send("t", b"a") is None
    second = Lakestream(data_dir=server.data_dir)
    with pytest.raises(ServerError, match="in use by another lakestream process"):
        second.start()
    r = lakestream(server, "doctor", "--data-dir", server.data_dir)
    assert r.returncode != 0 and "a server uses" in r.stderr
    assert w.send("t", b"b") is None
    check_all(server, w.acked)


def test_lock_file_deleted(started):
    """Without its lock file a second server can start: it fences the first, which ends by itself
    with words instead of writing what the second does not know."""
    server = started()
    create(server, "t")
    w = Writer(server)
    assert w.send("t", b"a") is None
    (server.data_dir / "LOCK").unlink()
    second = Lakestream(data_dir=server.data_dir)
    try:
        second.start()
    except ServerError as e:                   # noticing it at once is as good
        assert "in use" in str(e)
        assert w.send("t", b"b") is None
        return
    try:
        assert w.send("t", b"b") is not None   # refused, or the connection is cut
        assert until(lambda: server.process.poll() is not None)
        assert server.process.returncode != 0
        assert "fenced" in server.log_path.read_text().lower()
        server.kill()
        for (topic, partition), records in w.acked.items():
            check_all(second, {(topic, partition): records})
        ours = Writer(second)
        assert ours.send("t", b"c") is None
        check_all(second, ours.acked)
    finally:
        server.kill()
        second.stop()
        second.log_path.unlink()


def test_newer_format_is_refused(started):
    server = started()
    create(server, "t")
    w = Writer(server)
    assert w.send("t", b"a") is None
    server.stop()
    with sqlite3.connect(server.data_dir / "meta" / "lakestream.db") as db:
        level, = db.execute("SELECT format_level FROM install").fetchone()
        db.execute("UPDATE install SET format_level = ?", (level + 1,))
    with pytest.raises(ServerError, match="newer"):
        server.start()
    r = lakestream(server, "doctor", "--data-dir", server.data_dir)
    assert r.returncode != 0 and "newer" in r.stderr
    with sqlite3.connect(server.data_dir / "meta" / "lakestream.db") as db:
        db.execute("UPDATE install SET format_level = ?", (level,))
    server.start()
    check_all(server, w.acked)


def test_newer_segment_is_refused(started):
    server = started()
    create(server, "t")
    w = Writer(server)
    assert w.send("t", b"a") is None
    server.stop()
    segment = min((server.data_dir / "wal").glob("*.wal"))
    good = segment.read_bytes()
    head = bytearray(good)
    head[8] = 2                                # the version, with its checksum right
    import crc32c
    head[72:76] = crc32c.crc32c(bytes(head[:72])).to_bytes(4, "little")
    segment.write_bytes(head)
    with pytest.raises(ServerError, match="newer"):
        server.start()
    segment.write_bytes(good)
    server.start()
    check_all(server, w.acked)


def test_database_from_before(started):
    """An old copy of the database under a newer WAL would give offsets twice: refused."""
    server = started()
    create(server, "t")
    w = Writer(server)
    assert w.fill("t", 60, 100) == []
    server.stop()
    meta = server.data_dir / "meta"
    shutil.copytree(meta, server.data_dir / "old")
    server.start()
    assert w.fill("t", 60, 100) == []
    server.kill()
    new = server.data_dir / "new"
    os.rename(meta, new)
    shutil.copytree(server.data_dir / "old", meta)
    with pytest.raises(ServerError, match="went back in time"):
        server.start()
    shutil.rmtree(meta)
    os.rename(new, meta)
    server.start()
    check_all(server, w.acked)


def test_starting_with_ten_thousand_partitions(started):
    """How long it takes is printed; what must hold is that all of them are there and served."""
    server = started()
    for i in range(10):
        create(server, f"wide-{i}", 1000)
    w = Writer(server)
    for i in range(10):
        for p in (0, 999):
            w.start(f"wide-{i}", b"x", p)
    w.wait()
    assert sum(len(records) for records in w.acked.values()) == 20
    server.stop()
    server.start()
    print(f"10,000 partitions: ready after {server.start_seconds:.2f} s (stopped)")
    server.restart(kill=True)
    print(f"10,000 partitions: ready after {server.start_seconds:.2f} s (killed)")
    check_all(server, w.acked)
    assert w.send("wide-7", b"y", 998) is None
