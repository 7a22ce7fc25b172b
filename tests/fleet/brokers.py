"""A fleet for a test: brokers on one bucket's prefix and one schema of a database.

A broker is a server of the harness with a number and a zone; it can also be paused (a machine that
stands still) and end by itself (code 70), which a supervisor answers by starting it again.
"""
import random
import signal
import subprocess
import threading
import time
import uuid
from contextlib import contextmanager

from harness.server import START_SECONDS_MAX, Lakestream, ServerError

EXIT_LOST = 70          # fenced, or a commit of unknown outcome
# Quick to notice a dead broker. Records of tests have times of years ago, and stay.
SETTINGS = {"broker.heartbeat.ms": 300, "broker.session.ms": 2500, "fleet.poll.ms": 50,
            "wal.flush.ms": 20, "group.initial.rebalance.delay.ms": 0, "log.retention.ms": -1,
            "num.partitions": 4}


class Broker(Lakestream):
    name = "broker"

    def __init__(self, number, rack, meta_url, settings, **kw):
        settings = dict(settings)
        args = ["--broker-id", str(number), "--meta", meta_url,
                "--store", settings.pop("store.url")]
        if rack:
            args += ["--rack", rack]
        super().__init__(settings, args=args, **kw)
        self.number, self.rack = number, rack
        self.paused = False

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)
        self.paused = True

    def resume(self):
        self.process.send_signal(signal.SIGCONT)
        self.paused = False

    def kill(self):
        super().kill()          # also of one that is paused
        self.paused = False

    def stop(self):
        if self.paused:
            self.resume()
        super().stop()

    def wait_end(self, seconds):
        """The exit code of one that is to end by itself; it can be started again then."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ServerError(f"broker {self.number} still runs after {seconds} s\n{self.tail()}")
        self._forget()
        self.check_log()
        return code

    def event(self, name):
        return self.log_path.read_text(errors="replace").count(f"event={name}")


class Fleet:
    """Behaves as one server towards clients of tests: `bootstrap`, `catalog_uri`, `http`."""

    def __init__(self, store, database, settings=None, kw=None):
        self.name = f"f{uuid.uuid4().hex[:10]}"
        self.store, self.database = store, database
        self.prefix = f"{self.name}/x"
        self.schema = self.name
        self.settings = {**SETTINGS, **store.settings(self.prefix), **(settings or {})}
        self.kw = kw or {}
        self.brokers = []
        self.supervising = None
        self.restarts = 0
        self.problems = []          # of supervision

    # ---- life ----

    def add(self, number=None, rack="", settings=None, **kw):
        """A broker that is not started yet."""
        number = number or max((b.number for b in self.brokers), default=0) + 1
        b = Broker(number, rack, self.database.url(self.schema),
                   {**self.settings, **(settings or {})}, **{**self.kw, **kw})
        self.brokers.append(b)
        return b

    def start(self):
        """The first one makes the schema, the others come all at once."""
        idle = [b for b in self.brokers if b.process is None]
        if idle:
            idle[0].start()
            self.at_once(idle[1:])
        return self

    @staticmethod
    def at_once(brokers):
        errors = []

        def start(b):
            try:
                b.start()
            except BaseException as e:      # noqa: BLE001: told to who waits
                errors.append(e)
        threads = [threading.Thread(target=start, args=(b,)) for b in brokers]
        for t in threads:
            t.start()
        for t in threads:
            t.join(START_SECONDS_MAX + 5)
        if errors:
            raise errors[0]

    def stop(self):
        """All; the first fault is raised when all have ended."""
        errors = []
        for b in self.brokers:
            try:
                b.stop()
                b.check_log()
            except ServerError as e:
                errors.append(f"broker {b.number}: {e}")
            finally:
                b.kill()
        if errors:
            raise ServerError("\n".join(errors + self.problems))

    def remove(self):
        for b in self.brokers:
            b.remove()

    @contextmanager
    def supervised(self):
        """As systemd would: who ended with code 70 is started again."""
        done = threading.Event()

        def watch():
            while not done.wait(0.05):
                for b in self.brokers:
                    process = b.process
                    if process is None or process.poll() is None:
                        continue
                    code = b.wait_end(1)
                    if code != EXIT_LOST:
                        self.problems.append(f"broker {b.number} ended with {code}\n{b.tail()}")
                        return
                    while not done.is_set():
                        try:
                            b.start()
                            self.restarts += 1
                            break
                        except ServerError:         # the database is not back yet
                            done.wait(0.2)
        t = threading.Thread(target=watch)
        t.start()
        try:
            yield
        finally:
            done.set()
            t.join(START_SECONDS_MAX + 5)
        assert not self.problems, "\n".join(self.problems)
        for b in self.brokers:
            if b.process is None and b.listen:
                b.start()

    # ---- as a server ----

    def __getitem__(self, number):
        return next(b for b in self.brokers if b.number == number)

    def live(self):
        return [b for b in self.brokers if b.alive() and not b.paused]

    def one(self):
        found = self.live()
        return random.choice(found) if found else random.choice(self.brokers)

    @property
    def bootstrap(self):
        return ",".join(b.kafka for b in self.brokers if b.kafka)

    kafka = bootstrap

    @property
    def address(self):
        return self.one().address

    @property
    def http(self):
        return self.one().http

    @property
    def catalog_uri(self):
        return self.one().catalog_uri

    # ---- what lies below ----

    def sql(self, statement):
        return self.database.sql(statement, self.schema)

    def objects(self, folder=""):
        """Keys below the prefix."""
        found = self.store.objects(f"{self.prefix}/{folder}".rstrip("/"))
        return {k.removeprefix(f"{self.prefix}/"): size for k, size in found.items()}


def until(what, seconds=30, every=0.02):
    """Waits for a condition; -> its value."""
    deadline = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(every)


def log_of(client, topic, partition=0):
    """All records of a partition as they stand: a Fetch alone may lag what another broker has
    acknowledged by a poll; ListOffsets may not, and takes it up."""
    end = client.end_offset(topic, partition)
    assert end >= 0, f"{topic} {partition}: no end"
    records = client.records(topic, partition) if end else []
    assert not end or records[-1].offset >= end - 1, (records[-1:], end)
    return records
