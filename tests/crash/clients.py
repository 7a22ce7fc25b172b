"""Plain clients for the tests of faults: one record or one commit at a time, and the error told."""
import json
import logging
import os
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

QUIET = logging.getLogger("quiet")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
WAIT_SECONDS_MAX = 30


def client(server, **more):
    return {"bootstrap.servers": server.bootstrap, "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100, "log_level": 0, **more}


def create(server, topic, partitions=1, **config):
    config = {k.replace("_", "."): str(v) for k, v in config.items()}
    admin = AdminClient(client(server), logger=QUIET)
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(30)


class Writer:
    """Sends records one by one and keeps what was acknowledged: {(topic, partition): {offset:
    value}}. No retries: an error of the server is what `send` gives back."""

    def __init__(self, server, **more):
        self.acked = {}
        self.producer = Producer(client(server, **{
            "acks": "all", "retries": 0, "message.timeout.ms": 20_000, "linger.ms": 0, **more}),
            logger=QUIET)

    def start(self, topic, value, partition=0):
        """Sends without waiting; the outcome comes with `wait`. -> a list that gets the error."""
        outcome = []

        def report(error, message):
            outcome.append(error)
            if error is None:
                self.acked.setdefault((topic, partition), {})[message.offset()] = value
        self.producer.produce(topic, value, partition=partition, on_delivery=report)
        return outcome

    def wait(self):
        assert self.producer.flush(WAIT_SECONDS_MAX) == 0, "no answers"

    def send(self, topic, value, partition=0):
        """-> None, or the code of the error."""
        outcome = self.start(topic, value, partition)
        self.wait()
        return outcome[0] and outcome[0].code()

    def fill(self, topic, count, size, partitions=1, start=0):
        """-> errors"""
        outcomes = []
        for i in range(start, start + count):
            outcomes.append(self.start(topic, b"%08d" % i + os.urandom(size - 8), i % partitions))
            if i % 50 == 0:
                self.wait()
        self.wait()
        return [o[0].code() for o in outcomes if o[0]]


def read(server, topic, partition=0, offset=OFFSET_BEGINNING, seconds=WAIT_SECONDS_MAX):
    """-> ({offset: value} up to the end or the first error, that error's code or None)"""
    consumer = Consumer(client(server, **{
        "group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
        "auto.offset.reset": "error", "check.crcs": True}), logger=QUIET)
    consumer.assign([TopicPartition(topic, partition, offset)])
    found, deadline = {}, time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            for m in consumer.consume(1000, 0.05):
                if m.error() is None:
                    found[m.offset()] = m.value()
                elif m.error().code() == KafkaError._PARTITION_EOF:
                    return found, None
                else:
                    return found, m.error().code()
    finally:
        consumer.close()
    return found, "timeout"


def check_all(server, acked):
    """Every acknowledged record is there, at its offset."""
    for (topic, partition), records in acked.items():
        found, error = read(server, topic, partition)
        assert error is None, (topic, partition, error)
        missing = {o for o, v in records.items() if found.get(o) != v}
        assert not missing, (topic, partition, sorted(missing)[:10])


def get(server, path, seconds=60):
    """-> (status, text)"""
    try:
        with urllib.request.urlopen(f"http://{server.http}{path}", timeout=seconds) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def load_table(server, topic):
    return get(server, f"/iceberg/v1/main/namespaces/default/tables/{topic}")


def verify(server, topic):
    status, text = get(server, f"/api/v1/streams/{topic}/table/verify?deep=true")
    assert status == 200, text
    assert json.loads(text)["equal"], text


def until(what, seconds=WAIT_SECONDS_MAX):
    """Waits for a condition; -> its value."""
    deadline = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.05)


def lakestream(server, *args, seconds=120):
    return subprocess.run([server.binary, *map(str, args)], capture_output=True, text=True,
                          timeout=seconds, env=server.environment())


def doctor(server, *args):
    """-> (exit code, {what it says as JSON}); a failure to run at all is the text of it"""
    r = lakestream(server, "doctor", "--data-dir", server.data_dir, "--output", "json", *args)
    return r.returncode, json.loads(r.stdout) if r.stdout.strip() else r.stderr


def problems(server, *args):
    code, said = doctor(server, *args)
    assert isinstance(said, dict), said
    lines = [f["text"] for f in said["findings"] if f["level"] == "problem"]
    assert (code == 0) == (not lines), (code, lines)
    return lines


@contextmanager
def mounted(folder, *options, kind="tmpfs", what="tmpfs"):
    """A small file system at `folder`; the test is skipped where mounting is not permitted."""
    folder.mkdir(parents=True, exist_ok=True)
    r = subprocess.run(["mount", "-t", kind, "-o", ",".join(options), what, folder],
                       capture_output=True, text=True)
    if r.returncode != 0:
        pytest.skip(f"mounting is not permitted here: {r.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True, capture_output=True)
