"""kill -9 of brokers at random moments under the load of tests/crash/load.py, judged by its model:
what was acknowledged is there, once when its producer is idempotent, in order, in the log and in
the table; group offsets never go back.

LAKESTREAM_CRASH_ROUNDS and LAKESTREAM_CRASH_SEED make another run, or the same kills again.
"""
import os
import random
import time

from confluent_kafka import KafkaError, KafkaException

import reading
from agree import agreed
from load import PARTITIONS, SETTINGS, Load

SEED = int(os.environ.get("LAKESTREAM_CRASH_SEED", time.time_ns() % 1_000_000))
ROUNDS_OF_A_FLEET = 50


def rounds(config):
    return int(os.environ.get("LAKESTREAM_CRASH_ROUNDS", 150 if config.getoption("--all") else 12))


class FleetLoad(Load):
    """Tables lie in the bucket; groups move between brokers."""

    def check_quickly(self, promises):
        """All brokers must show the same ones first: the library gives up on a leader (an end of
        -1001, or no answer) that is in one broker's list and not in the next one's."""
        agreed(self.server)
        deadline = time.monotonic() + 15
        while True:
            found = super().check_quickly(promises)
            if not any("ends at -1001" in f for f in found) or time.monotonic() > deadline:
                return found
            time.sleep(0.2)

    def _group_offsets(self, groups):
        """Brokers learn of each other's end at different times: the library may be sent to one
        that is not yet, or no longer, the coordinator, and tells."""
        deadline = time.monotonic() + 15
        while True:
            try:
                return super()._group_offsets(groups)
            except KafkaException as e:
                if e.args[0].code() != KafkaError.NOT_COORDINATOR or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _pyiceberg(self, topic):
        return reading.rows_pyiceberg(self.server, topic)

    def _duckdb(self, topic):
        return reading.rows_duckdb(self.server, topic, self.server.store.endpoint)


def one_round(f, load, rng):
    """One broker, two, or seldom all; each comes back after a while, sometimes as another."""
    load.stopping.wait(rng.uniform(0.05, 1.2))
    victims = rng.sample(f.brokers, rng.choice([1, 1, 1, 2, 2, len(f.brokers)]))
    for b in victims:
        b.kill()
    promises = load.promises()
    if f.live() and rng.random() < 0.4:
        found = load.check_quickly(promises)        # the others go on without it
        assert not found, "\n".join(found)
    f.at_once(victims)
    found = load.check_quickly(promises)
    assert not found, "\n".join(found)


def run(f, seed, count):
    rng = random.Random(seed)
    load = FleetLoad(f, seed, rate=600).start()
    try:
        for i in range(count):
            one_round(f, load, rng)
            if i % 12 == 11 and i + 1 < count:
                load.rest()
                found = load.check()
                assert not found, "\n".join(found)
                load.wake()
        load.stop()
        found = load.check(duckdb=True)
        assert not found, "\n".join(found)
    finally:
        load.stopping.set()
    ended = [b.number for b in f.brokers if not b.alive()]
    assert not ended, f"ended by themselves: {ended}"
    happened = {e: sum(b.event(e) for b in f.brokers) for e in
                ("damaged_object", "table_damaged", "run_failed", "upkeep_failed")}
    print(f"seed {seed}: {count} kills, {load.counts}, {happened}")
    assert not happened["damaged_object"] and not happened["table_damaged"]
    assert min(load.counts.values()) > 0, load.counts
    assert all(load.told.acked[tp] for tp in PARTITIONS)


def test_kill(fleet, pytestconfig):
    left, part = rounds(pytestconfig), 0
    while left > 0:
        count = min(left, ROUNDS_OF_A_FLEET)
        f = fleet(3, settings={**SETTINGS, "broker.session.ms": 1500, "broker.heartbeat.ms": 200})
        run(f, SEED + part, count)
        f.stop()
        left, part = left - count, part + 1
