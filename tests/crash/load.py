"""Clients that load a server, live through its crashes, and write down what they were told.

Producers (idempotent and plain), a consumer group, a group of commits alone, table loads, topics
that come and go: each a thread of its own. `Load.check` reads everything back, from the log with a
Kafka consumer and from the table with PyIceberg and DuckDB, and asks model.py.
"""
import json
import logging
import random
import threading
import time
import urllib.error
import urllib.request

from confluent_kafka import (OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer,
                             TopicPartition)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

import model
import tables

READ_SECONDS_MAX = 120
# Everything that happens seldom happens all the time.
SETTINGS = {
    "log.retention.check.interval.ms": 200, "wal.segment.bytes": 1 << 20,
    "wal.delete.delay.ms": 100, "meta.backup.interval.ms": 700, "table.commit.interval.ms": 150,
    "table.upkeep.interval.ms": 300, "table.orphan.age.ms": 1000, "cache.tail.bytes": 200_000,
    "group.initial.rebalance.delay.ms": 0, "producer.id.expiration.ms": 3_600_000,
}
TABLE = {"table.snapshot.retention.count": "5", "table.file.grace.ms": "8000",
         "table.target.file.bytes": str(1 << 20)}
TOPICS = {
    "kept": (4, {**TABLE, "retention.ms": "-1"}),
    "short": (2, {**TABLE, "retention.bytes": "150000"}),
    "shaped": (2, {**TABLE, "retention.ms": "-1",
                   "table.partition.by": "bucket[3](__key), day(__timestamp)"}),
}
PARTITIONS = [(t, p) for t, (count, _) in TOPICS.items() for p in range(count)]
QUIET = logging.getLogger("quiet")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
CLIENT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0,
          "socket.timeout.ms": 10_000}


class Load:
    def __init__(self, server, seed, rate=1500):
        self.server, self.rate = server, rate
        self.rng = random.Random(seed)
        self.told = model.Told()
        self.stopping, self.resting = threading.Event(), threading.Event()
        self.threads = []
        self.counts = {"records": 0, "commits": 0, "loads": 0, "topics": 0}

    def client(self, **more):
        return {"bootstrap.servers": self.server.bootstrap, **CLIENT, **more}

    # ---- life ----

    def start(self, table_loads=True):
        admin = AdminClient(self.client())
        made = admin.create_topics([NewTopic(t, count, 1, config=config)
                                    for t, (count, config) in TOPICS.items()])
        for f in made.values():
            f.result(60)
        for i in range(5):
            self.told.idempotent[i] = i < 3
            self._thread(self._produce, i, ["kept", "short", "shaped", "kept", "shaped"][i])
        for _ in range(2):
            self._thread(self._consume)
        self._thread(self._commit)
        if table_loads:
            self._thread(self._load_tables)
        self._thread(self._make_topics)
        return self

    def _thread(self, fn, *args):
        def run():
            try:
                fn(*args)
            except Exception as e:          # noqa: BLE001: a client that dies tests nothing
                self.told.find(f"{fn.__name__}{args} ended: {type(e).__name__} {e}")
        t = threading.Thread(target=run, daemon=True)
        self.threads.append(t)
        t.start()

    def _pause(self, seconds):
        return self.stopping.wait(seconds)

    def rest(self):
        """Waits until every record is acknowledged; producers wait for `wake`."""
        self.resting.set()
        deadline = time.monotonic() + READ_SECONDS_MAX
        while self._unanswered():
            assert time.monotonic() < deadline, "producers get no answers"
            time.sleep(0.02)

    def _unanswered(self):
        with self.told.lock:
            sent = sum(self.told.sent.values())
        return sent != self.counts["records"]

    def wake(self):
        self.resting.clear()

    def stop(self):
        self.rest()
        self.stopping.set()
        for t in self.threads:
            t.join(60)
            assert not t.is_alive(), "a client does not end"

    # ---- clients ----

    def _produce(self, number, topic):
        told, rng = self.told, random.Random(self.rng.random())
        config = {"acks": "all", "linger.ms": rng.choice([0, 2, 10]), "delivery.timeout.ms": 0,
                  "retry.backoff.ms": 20, "retry.backoff.max.ms": 100,
                  "compression.type": rng.choice(["none", "lz4", "zstd", "snappy", "gzip"])}
        if told.idempotent[number]:
            config["enable.idempotence"] = True
        else:
            config["max.in.flight.requests.per.connection"] = 1
        producer = Producer(self.client(**config), logger=QUIET)

        def answered(tp, record):
            def report(error, message):
                if error is not None:
                    told.find(f"{tp} producer {number} record {record}: {error.str()}")
                else:
                    told.ack(tp, message.offset(), number, record)
                with told.lock:
                    self.counts["records"] += 1
            return report

        waiting = 0
        while not self.stopping.is_set():
            producer.poll(0.005)
            waiting = len(producer)
            if self.resting.is_set() or waiting > self.rate // 2:
                self._pause(0.01)
                continue
            for _ in range(rng.randint(1, max(1, self.rate // 50))):
                tp = (topic, rng.randrange(TOPICS[topic][0]))
                with told.lock:
                    record = told.sent[number, tp]
                    told.sent[number, tp] += 1
                producer.produce(topic, model.make(tp, number, record), partition=tp[1],
                                 key=b"k%d" % (record % 7), headers={"n": b"%d" % record},
                                 on_delivery=answered(tp, record))
            self._pause(0.02)
        assert producer.flush(60) == 0

    def _consume(self):
        """A member of a group; its offsets are checked, and what it sees must stay."""
        told = self.told
        consumer = Consumer(self.client(**{
            "group.id": "workers", "auto.offset.reset": "earliest", "enable.auto.commit": False,
            "session.timeout.ms": 6000, "heartbeat.interval.ms": 300,
            "partition.assignment.strategy": "cooperative-sticky"}), logger=QUIET)
        consumer.subscribe(["kept", "shaped"])
        while not self.stopping.is_set():
            positions = {}
            for m in consumer.consume(200, 0.2):
                if m.error() is None:
                    tp = (m.topic(), m.partition())
                    told.see(tp, m.offset(), m.value())
                    positions[tp] = m.offset() + 1
            for tp, offset in positions.items():
                told.attempt("workers", tp, offset)
            try:
                done = consumer.commit(offsets=[TopicPartition(*tp, offset) for tp, offset in
                                                positions.items()],
                                       asynchronous=False) if positions else []
            except KafkaException:
                continue
            for t in done:
                if t.error is None:
                    told.committed("workers", (t.topic, t.partition), t.offset)
                    self.counts["commits"] += 1
        consumer.close()

    def _commit(self):
        """Commits ever larger offsets, without being a member of anything."""
        consumer = Consumer(self.client(**{"group.id": "counter"}), logger=QUIET)
        n = 0
        while not self._pause(0.005):
            n += 1
            tp = ("kept", n % 4)
            self.told.attempt("counter", tp, n)
            try:
                done = consumer.commit(offsets=[TopicPartition(*tp, n)], asynchronous=False)
            except KafkaException:
                continue
            if done[0].error is None:
                self.told.committed("counter", tp, n)
                self.counts["commits"] += 1
        consumer.close()

    def _load_tables(self):
        """A load has what was acknowledged before it was asked for."""
        while not self._pause(0.05):
            topic = random.choice(list(TOPICS))
            with self.told.lock:
                known = sum(len(self.told.acked[tp]) for tp in PARTITIONS if tp[0] == topic)
            try:
                status, headers, body = tables.get(
                    self.server, f"main/namespaces/default/tables/{topic}")
            except (OSError, urllib.error.URLError, ValueError, EOFError):
                self._pause(0.05)
                continue
            except Exception as e:          # noqa: BLE001: http.client's, when it is cut
                if type(e).__module__ != "http.client":
                    raise
                continue
            if status != 200:
                if status < 500:
                    self.told.find(f"loading {topic}: {status} {body}")
                continue
            self.counts["loads"] += 1
            if headers["x-lakestream-fresh"] == "true":
                rows = _rows(body["metadata"])
                if rows < known:
                    self.told.find(f"a fresh load of {topic} has {rows} rows, {known} were "
                                   "acknowledged before")

    def _make_topics(self):
        admin = AdminClient(self.client(), logger=QUIET)
        n = 0
        while not self._pause(0.1):
            name, n = f"come-and-go-{n}", n + 1
            if self._ask(admin.create_topics([NewTopic(name, 3, 1)], request_timeout=5)[name]):
                with self.told.lock:
                    self.told.topics.add(name)
                self.counts["topics"] += 1
            if n % 3 or not self.told.topics:
                continue
            with self.told.lock:
                name = self.told.topics.pop()
            if self._ask(admin.delete_topics([name], request_timeout=5)[name]):
                with self.told.lock:
                    self.told.deleted.add(name)

    @staticmethod
    def _ask(future):
        """True: acknowledged. False: who knows."""
        try:
            future.result(10)
            return True
        except KafkaException as e:
            return e.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
        except Exception:                   # noqa: BLE001: a timeout of the future
            return False

    # ---- checks ----

    def promises(self):
        with self.told.lock:
            topics, deleted = set(self.told.topics), set(self.told.deleted)
        return self.told.ends(), self.told.offsets(), topics, deleted

    def check_quickly(self, promises):
        """After a start: ends, group offsets and topics are not behind what was promised."""
        ends, groups, topics, deleted = promises
        admin = AdminClient(self.client(), logger=QUIET)
        found = admin.list_offsets({TopicPartition(*tp): OffsetSpec.latest()
                                    for tp in PARTITIONS}, request_timeout=30)
        found = {(t.topic, t.partition): f.result(30).offset for t, f in found.items()}
        out = model.check_ends(ends, found)
        offsets = self._group_offsets(groups)
        out += model.check_groups(self._attempted(groups), offsets)
        names = set(admin.list_topics(timeout=30).topics)
        out += [f"topic {n} is gone" for n in topics - names - self._asked_to_delete(topics)]
        out += [f"topic {n} is back" for n in deleted & names]
        return out

    def _asked_to_delete(self, topics):
        with self.told.lock:
            return topics - self.told.topics

    def _attempted(self, groups):
        """The same acknowledgements with what was attempted by now: clients go on meanwhile."""
        now = self.told.offsets()
        return {k: (acked, now[k][1]) for k, (acked, _) in groups.items()}

    def _group_offsets(self, groups):
        found = {}
        for group in {g for g, _ in groups}:
            consumer = Consumer(self.client(**{"group.id": group}), logger=QUIET)
            asked = [TopicPartition(*tp) for g, tp in groups if g == group]
            for t in consumer.committed(asked, timeout=30):
                found[group, (t.topic, t.partition)] = t.offset
            consumer.close()
        return found

    def check(self, duckdb=False):
        """Everything, while producers rest."""
        out = []
        ends = self.told.ends()
        for tp in PARTITIONS:
            start, end, records = self.read_log(tp)
            ends[tp] = end
            out += model.check_log(self.told, tp, start, end, records)
        for topic in TOPICS:
            out += self._check_table(topic, ends, self._pyiceberg(topic), "PyIceberg")
            if duckdb:
                out += self._check_table(topic, ends, self._duckdb(topic), "DuckDB")
            out += self._verify(topic)
        with self.told.lock:
            return out + self.told.findings

    def _check_table(self, topic, ends, rows, reader):
        out = []
        for tp in PARTITIONS:
            if tp[0] == topic:
                mine = [(o, v) for p, o, v in rows if p == tp[1]]
                out += [f"{reader}: {f}"
                        for f in model.check_table(self.told, tp, mine, ends[tp])]
        return out

    def read_log(self, tp):
        """-> (log start, end, [(offset, value)]); the start may move while it is read."""
        consumer = Consumer(self.client(**{
            "group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "auto.offset.reset": "earliest"}), logger=QUIET)
        consumer.assign([TopicPartition(*tp, OFFSET_BEGINNING)])
        records, deadline = [], time.monotonic() + READ_SECONDS_MAX
        end = None
        while end is None:
            assert time.monotonic() < deadline, f"{tp} cannot be read beyond {len(records)} records"
            for m in consumer.consume(2000, 0.05):
                if m.error() is None:
                    records.append((m.offset(), m.value()))
                elif m.error().code() == KafkaError._PARTITION_EOF:
                    end = m.offset()
        consumer.close()
        start = records[0][0] if records else end
        if TOPICS[tp[0]][1].get("retention.bytes") is None and start != 0:
            self.told.find(f"{tp} log: begins at {start}, nothing was to be removed")
        return start, end, records

    def _pyiceberg(self, topic):
        table = tables.load(self.server, topic).scan(
            selected_fields=("__partition", "__offset", "value")).to_arrow()
        return list(zip(*(table.column(c).to_pylist() for c in
                          ("__partition", "__offset", "value"))))

    def _duckdb(self, topic):
        con = tables.duck(self.server)
        rows = con.execute('SELECT __partition, __offset, value '
                           f'FROM lake."default"."{topic}"').fetchall()
        con.close()
        return rows

    def _verify(self, topic):
        url = f"http://{self.server.http}/api/v1/streams/{topic}/table/verify?deep=true"
        with urllib.request.urlopen(url, timeout=READ_SECONDS_MAX) as r:
            answer = json.load(r)
        return [] if answer["equal"] else [f"{topic}: table verify says {answer}"]


def _rows(metadata):
    snapshot = next((s for s in metadata.get("snapshots", ())
                     if s["snapshot-id"] == metadata.get("current-snapshot-id")), None)
    return int(snapshot["summary"]["total-records"]) if snapshot else 0
