"""`lakestream doctor rebuild`: a data directory whose metadata database is lost or damaged gets a new
one, from the newest backup, the WAL and the tables' files. What docs/rebuild.md promises, tried."""
import shutil

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from clients import (QUIET, Writer, check_all, client, create, doctor, lakestream, load_table,
                     problems, read, until, verify)
from harness.server import ServerError
from load import SETTINGS, Load

SLOW = {"table.commit.interval.ms": 3_600_000, "wal.segment.bytes": 1 << 20}


def database(server):
    return server.data_dir / "meta" / "lakestream.db"


def lose_database(server):
    for suffix in ("", "-wal", "-shm"):
        (server.data_dir / "meta" / f"lakestream.db{suffix}").unlink(missing_ok=True)


def backups(server):
    return sorted((server.data_dir / "store" / "meta").glob("backup-*.db"))


def rebuild(server, problems_expected=(), force=()):
    r = lakestream(server, "doctor", "rebuild", server.data_dir, *force)
    found = [line for line in r.stdout.splitlines() if line.startswith("problem")]
    assert len(found) == len(problems_expected), r.stdout + r.stderr
    for line, words in zip(found, problems_expected):
        assert words in line
    assert r.returncode == (1 if problems_expected else 0), r.stdout + r.stderr
    return r.stdout


def refused(server):
    """Neither server nor doctor begins a new life on top of the records."""
    with pytest.raises(ServerError, match="doctor rebuild"):
        server.start()
    code, said = doctor(server)
    assert code != 0 and "doctor rebuild" in said
    assert not database(server).exists()


def commit_offset(server, group, tp, offset):
    consumer = Consumer(client(server, **{"group.id": group}), logger=QUIET)
    consumer.commit(offsets=[TopicPartition(*tp, offset)], asynchronous=False)
    consumer.close()


def committed(server, group, tp):
    consumer = Consumer(client(server, **{"group.id": group}), logger=QUIET)
    offset = consumer.committed([TopicPartition(*tp)], timeout=20)[0].offset
    consumer.close()
    return offset


def wait_for_backup(server):
    """One that holds all that is there now."""
    seen = set(backups(server))
    until(lambda: set(backups(server)) - seen, 60)


def test_all_comes_back(started):
    server = started({**SLOW, "meta.backup.interval.ms": 500})
    create(server, "a.b.orders", 3, retention_ms=-1, compression_type="zstd")
    create(server, "plain", 1)
    w, idempotent = Writer(server), Writer(server, **{"enable.idempotence": True, "retries": 9})
    w.fill("a.b.orders", 300, 200, partitions=3)
    assert load_table(server, "a.b.orders")[0] in (200, 404)     # another namespace
    verify(server, "a.b.orders")
    commit_offset(server, "g", ("a.b.orders", 1), 77)
    wait_for_backup(server)
    server.restart()                                   # the same backup, and then more
    w2 = Writer(server)
    w2.acked = w.acked
    w2.fill("a.b.orders", 300, 200, partitions=3)
    w2.fill("plain", 200, 300)
    status, before = load_table(server, "plain")       # compacted after the backup, perhaps
    assert status == 200
    for n in range(20):
        idempotent.send("plain", b"once %d" % n)
    idempotent.acked.setdefault(("plain", 0), {}).update(w2.acked["plain", 0])
    w2.acked.update(idempotent.acked)
    server.kill()
    lose_database(server)
    refused(server)
    rebuild(server)
    assert problems(server, "--deep") == []
    server.start()
    check_all(server, w2.acked)
    for tp, records in w2.acked.items():
        found, error = read(server, *tp)
        assert error is None and found == records, tp
    assert committed(server, "g", ("a.b.orders", 1)) == 77
    admin = AdminClient(client(server), logger=QUIET)
    config = admin.describe_configs([ConfigResource("topic", "a.b.orders")])
    config = next(iter(config.values())).result(20)
    assert config["compression.type"].value == "zstd" and config["retention.ms"].value == "-1"
    for topic in ("a.b.orders", "plain"):
        verify(server, topic)
    status, after = load_table(server, "plain")
    assert status == 200
    assert writer_goes_on(server, w2)


def writer_goes_on(server, w):
    last = max(w.acked["plain", 0])
    w3 = Writer(server)
    assert w3.send("plain", b"next") is None
    assert list(w3.acked["plain", 0]) == [last + 1]
    server.restart()
    verify(server, "plain")
    found, error = read(server, "plain", offset=last)
    return error is None and found[last + 1] == b"next"


def test_without_any_backup(started):
    """Topics come back from their tables, or, when they have none, under a name made up."""
    server = started({**SLOW, "meta.backup.interval.ms": 0})
    create(server, "tabled", 2)
    create(server, "nameless", 1)
    w = Writer(server)
    w.fill("tabled", 100, 200, partitions=2)
    assert load_table(server, "tabled")[0] == 200
    w.fill("tabled", 100, 200, partitions=2)
    w.fill("nameless", 50, 100)
    server.kill()
    shutil.rmtree(server.data_dir / "store" / "meta", ignore_errors=True)
    lose_database(server)
    refused(server)
    said = rebuild(server, ["no backup", "made again from its table", "is lost"])
    assert "recovered-2" in said
    assert problems(server, "--deep") == []
    server.start()
    w.acked["recovered-2", 0] = w.acked.pop(("nameless", 0))
    check_all(server, w.acked)
    verify(server, "tabled")
    verify(server, "recovered-2")


def test_damaged_database(started):
    """Garbage where the database is: refused with words; the damaged file is kept."""
    server = started({**SLOW, "meta.backup.interval.ms": 500})
    create(server, "t", 1)
    w = Writer(server)
    w.fill("t", 200, 200)
    wait_for_backup(server)
    server.stop()                       # nothing is left in SQLite's own log
    with open(database(server), "r+b") as f:
        f.write(b"\xff" * 4096)
    with pytest.raises(ServerError, match="doctor rebuild"):
        server.start()
    code, said = doctor(server)
    assert code != 0 and "doctor rebuild" in said
    rebuild(server)
    assert list((server.data_dir / "meta").glob("lakestream.db.damaged-*"))
    server.start()
    check_all(server, w.acked)


def test_damaged_backup_falls_back_to_the_one_before(started):
    server = started({**SLOW, "meta.backup.interval.ms": 300})
    create(server, "t", 1)
    w = Writer(server)
    for _ in range(3):
        w.fill("t", 100, 200)
        wait_for_backup(server)
    server.kill()
    with open(backups(server)[-1], "r+b") as f:
        f.write(b"\xff" * 8192)
    lose_database(server)
    rebuild(server, ["cannot be used"])
    server.start()
    check_all(server, w.acked)
    verify(server, "t")


@pytest.mark.parametrize("seed", range(12))
def test_after_kills_under_load(started, pytestconfig, seed):
    """Everything happens (merging, expiry, deletion of WAL files, kills) between the backup and the
    loss: every acknowledged record is at its offset, in the log and in the table."""
    if seed > 0 and not pytestconfig.getoption("--all"):
        pytest.skip("only with --all")
    server = started(SETTINGS)
    load = Load(server, seed).start()
    try:
        for _ in range(4):
            load.stopping.wait(1.0)
            server.kill()
            server.start()
            load.stopping.wait(0.5)
        load.rest()
        server.kill()
        ends, groups, _, _ = load.promises()
        lose_database(server)
        r = lakestream(server, "doctor", "rebuild", server.data_dir)
        print(r.stdout)
        assert "stopped" not in r.stderr, r.stderr
        server.start()
        found = load.check()
        assert not found, "\n".join(found)
        load.wake()
        load.stopping.wait(0.5)
        load.stop()
        found = load.check()
        assert not found, "\n".join(found)
    finally:
        load.stopping.set()


def test_rebuild_while_a_server_runs(started):
    server = started()
    r = lakestream(server, "doctor", "rebuild", server.data_dir)
    assert r.returncode != 0 and "a server uses" in r.stderr


def test_rebuild_of_what_is_well(started):
    """Refused; forced, nothing changes but what docs/rebuild.md says."""
    server = started({**SLOW, "meta.backup.interval.ms": 300})
    create(server, "t", 2)
    w = Writer(server)
    w.fill("t", 100, 200, partitions=2)
    assert load_table(server, "t")[0] == 200
    w.fill("t", 100, 200, partitions=2)
    wait_for_backup(server)
    w.fill("t", 100, 200, partitions=2)
    server.stop()
    r = lakestream(server, "doctor", "rebuild", server.data_dir)
    assert r.returncode != 0 and "whole" in r.stderr
    for _ in range(2):
        rebuild(server, force=["--force"])
        assert problems(server, "--deep") == []
    server.start()
    check_all(server, w.acked)
    verify(server, "t")
