"""kill -9 at random moments under load: each record that was acknowledged is there, once when its
producer is idempotent, in order, in the log and in the table; group offsets never go back.

LAKESTREAM_CRASH_ROUNDS and LAKESTREAM_CRASH_SEED make another run, or the same kills again (what
the machine does in between differs).
"""
import os
import random
import re
import sqlite3
import subprocess
import time

import pytest

import model
from clients import read, until
from load import PARTITIONS, SETTINGS, Load

SEED = int(os.environ.get("LAKESTREAM_CRASH_SEED", time.time_ns() % 1_000_000))
ROUNDS_OF_A_DIR = 25        # then a fresh one: reading all back stays quick


def rounds(config):
    return int(os.environ.get("LAKESTREAM_CRASH_ROUNDS", 150 if config.getoption("--all") else 10))


def kill_while_starting(server, rng):
    process = subprocess.Popen(server.command(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=server.environment())
    try:
        process.wait(rng.uniform(0, 0.4))
    except subprocess.TimeoutExpired:
        pass
    assert process.poll() is None, f"it ended by itself: {process.returncode}\n{server.tail()}"
    process.kill()
    process.wait()


def one_round(server, load, rng):
    load.stopping.wait(rng.uniform(0.05, 1.2))
    server.kill()
    promises = load.promises()
    while rng.random() < 0.25:
        kill_while_starting(server, rng)
    server.start()
    found = load.check_quickly(promises)
    assert not found, "\n".join(found)


def what_happened(server):
    """Log lines that show that the run met what it is about."""
    text = server.log_path.read_text(errors="replace")
    return {e: len(re.findall(rf"event={e}\b", text)) for e in
            ("wal_deleted", "tail_cut", "recovered", "damaged_object", "table_damaged",
             "run_failed", "upkeep_failed")}


def run(server, seed, count):
    rng = random.Random(seed)
    load = Load(server, seed).start()
    starts = []
    try:
        for i in range(count):
            one_round(server, load, rng)
            starts.append(server.start_seconds)
            if i % 8 == 7 and i + 1 < count:
                load.rest()
                found = load.check()
                assert not found, "\n".join(found)
                load.wake()
        load.stop()
        found = load.check(duckdb=True)
        assert not found, "\n".join(found)
    finally:
        load.stopping.set()
    happened = what_happened(server)
    print(f"seed {seed}: {count} kills, {load.counts}, start at most {max(starts):.2f} s, "
          f"{happened}")
    assert not happened["damaged_object"] and not happened["table_damaged"]
    assert min(load.counts.values()) > 0, load.counts
    return happened


@pytest.mark.parametrize("sync", ["always", "off"])
def test_kill(started, pytestconfig, sync):
    left, part, deleted = rounds(pytestconfig), 0, 0
    while left > 0:
        count = min(left, ROUNDS_OF_A_DIR)
        server = started({**SETTINGS, "wal.sync": sync})
        deleted += run(server, SEED + part, count)["wal_deleted"]
        server.stop()
        doctor = subprocess.run([server.binary, "doctor", "--data-dir", server.data_dir, "--deep"],
                                capture_output=True, text=True, timeout=120,
                                env=server.environment())
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr
        server.remove()
        left, part = left - count, part + 1
    assert deleted > 0, "no WAL segment was deleted: the run did not meet what it is about"


def test_a_seeded_loss_is_found(started):
    """The checker itself, end to end: what a server that forgets would leave behind is noticed."""
    server = started({**SETTINGS, "table.commit.interval.ms": 3_600_000,
                      "table.upkeep.interval.ms": 3_600_000})
    load = Load(server, seed=3).start(table_loads=False)    # all stays in the WAL
    try:
        until(lambda: any(group == "counter" for group, _ in load.told.offsets()))
        load.stopping.wait(1.5)
        load.stop()         # a client that went on would commit anew what is taken away here
        server.kill()
        promises = load.promises()
        ends = {p: len(p.read_bytes().rstrip(b"\0"))       # behind it are zeros, written ahead
                for p in (server.data_dir / "wal").glob("*.wal")}
        newest = max((p for p, end in ends.items() if end > 40_000), key=lambda p: p.name)
        os.truncate(newest, ends[newest] - 20_000)
        with sqlite3.connect(server.data_dir / "meta" / "lakestream.db") as db:
            db.execute("UPDATE group_offset SET committed = 0 WHERE group_id = 'counter'")
        server.start()
        found = load.check_quickly(promises)
        assert any("'counter'" in f for f in found), found
        lost = [tp for tp in PARTITIONS if not reads_well(load, tp)]
        assert lost, "records were cut off, and nobody noticed"
    finally:
        load.stopping.set()


def reads_well(load, tp):
    """Whether all that was acknowledged is read; a partition with damage never comes to its end."""
    found, error = read(load.server, *tp)
    return error is None and not model.check_log(
        load.told, tp, min(found, default=0), max(found, default=-1) + 1, sorted(found.items()))
