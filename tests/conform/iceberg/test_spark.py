"""Spark with the Iceberg runtime, as its users configure it: rows, filters, freshness, time travel,
metadata tables, and what it may not do. Only with --all: Spark is some 500 MB.
"""
import base64
import json
import os
import subprocess
from pathlib import Path

import pytest

from harness import engines, paths
from raw import Client, Record, batch
from tables import T, fill, load, read_pyiceberg

pytestmark = [pytest.mark.lakestream, pytest.mark.long]
SCRIPT = Path(__file__).with_name("spark_sql.py")


class Spark:
    def __init__(self, server, log):
        jar = next((paths.CACHE / "spark" / "jars").glob("iceberg-spark-runtime-*.jar"))
        settings = [f"{k}={v}" for k, v in engines.spark_settings(server.catalog_uri).items()]
        self.process = subprocess.Popen(
            [paths.CACHE / "spark" / "bin" / "python", SCRIPT, jar, *settings],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            env={**os.environ, "PYSPARK_PYTHON": str(paths.CACHE / "spark" / "bin" / "python")})
        assert self.process.stdout.readline() == "ready\n"

    def sql(self, text):
        self.process.stdin.write(" ".join(text.split()) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def rows(self, table, where="true"):
        found = self.sql(f"""
            SELECT __partition, __offset, unix_millis(__timestamp), base64(__key), base64(value),
                   transform(__headers, h -> struct(h.key, base64(h.value)))
            FROM lake.`default`.`{table}` WHERE {where}""")
        assert isinstance(found, list), found
        def data(text):
            return None if text is None else base64.b64decode(text)
        return sorted((p, o, t, data(k), data(v), tuple((n, data(b)) for n, b in hs or ()))
                      for p, o, t, k, v, hs in found)

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


@pytest.fixture(scope="module")
def spark(server, tmp_path_factory):
    with open(tmp_path_factory.mktemp("spark") / "log", "w") as log:
        s = Spark(server, log)
        yield s
        s.close()


def test_rows_equal_records(server, topic, spark):
    rows = fill(server, topic)
    assert spark.rows(topic) == rows


def test_the_very_next_query(server, topic, spark):
    with Client(server.address) as c:
        c.create_topic(topic)
        for i in range(1, 6):
            c.produce(topic, batch([Record(b"%d" % i, timestamp=T)]))
            assert spark.sql(f"SELECT count(*) FROM lake.`default`.`{topic}`") == [[i]]


def test_filters_do_not_hide_rows(server, topic, spark):
    rows = fill(server, topic, batches=20, size=200, seed=5)
    middle = rows[len(rows) // 2]
    for where, keep in {
            f"__offset >= {middle[1]}": lambda r: r[1] >= middle[1],
            f"__partition = {middle[0]} AND __offset = {middle[1]}": lambda r: r[:2] == middle[:2],
            f"__timestamp < timestamp_millis({middle[2]})": lambda r: r[2] < middle[2],
            "__key IS NULL": lambda r: r[3] is None,
            "__partition = 77": lambda r: False}.items():
        assert spark.rows(topic, where) == [r for r in rows if keep(r)], where


@pytest.mark.parametrize("setting", ["hour(__timestamp)", "bucket(16, __key)",
                                     "truncate(4, __key)", "__partition"])
def test_partitioned(server, topic, spark, setting):
    times = [T, T + 3_600_000, -1000, -3_600_000, -3_600_001, 0]
    with Client(server.address) as c:
        c.create_topic(topic, 2, {"table.partition.by": setting})
        for p in range(2):
            rs = [Record(b"v%d" % i, None if i == 3 else b"key-%d" % i, (), t)
                  for i, t in enumerate(times)]
            assert c.produce(topic, batch(rs, base_timestamp=0), p).ErrorCode == 0
    rows = read_pyiceberg(server, topic)
    assert len(rows) == 12 and spark.rows(topic) == rows
    for t in times:
        assert spark.rows(topic, f"__timestamp = timestamp_millis({t})") == \
            [r for r in rows if r[2] == t]


def test_time_travel_and_metadata_tables(server, topic, spark):
    sizes = {}
    rows = []
    for seed in range(3):
        rows += fill(server, topic, seed=seed, batches=2)
        sizes[load(server, topic).metadata.current_snapshot_id] = len(rows)
    for snapshot, size in sizes.items():
        assert spark.sql(f"SELECT count(*) FROM lake.`default`.`{topic}` VERSION AS OF {snapshot}") \
            == [[size]]
    seen = spark.sql(f"SELECT snapshot_id, operation FROM lake.`default`.`{topic}`.snapshots")
    assert {s for s, _ in seen} >= set(sizes)
    files = spark.sql(f"SELECT sum(record_count) FROM lake.`default`.`{topic}`.files")
    assert files == [[len(rows)]]
    history = spark.sql(f"SELECT snapshot_id FROM lake.`default`.`{topic}`.history")
    assert {s for s, in history} >= set(sizes)


def test_names(server, topic, spark):
    fill(server, topic, batches=1)
    assert [["default", topic, False]] == [
        r for r in spark.sql("SHOW TABLES IN lake.`default`") if r[1] == topic]
    described = spark.sql(f"DESCRIBE TABLE lake.`default`.`{topic}`")
    assert [r[:2] for r in described[:6]] == [
        ["value", "binary"], ["__partition", "int"], ["__offset", "bigint"],
        ["__timestamp", "timestamp"], ["__key", "binary"],
        ["__headers", "array<struct<key:string,value:binary>>"]]


def test_writes_are_refused_in_words(server, topic, spark):
    rows = fill(server, topic, batches=2)
    for text in (f"INSERT INTO lake.`default`.`{topic}` SELECT * FROM lake.`default`.`{topic}`",
                 f"DELETE FROM lake.`default`.`{topic}` WHERE __offset = 0",
                 f"DROP TABLE lake.`default`.`{topic}`",
                 f"ALTER TABLE lake.`default`.`{topic}` ADD COLUMN x int",
                 "CREATE TABLE lake.`default`.made_by_spark (a int) USING iceberg"):
        answer = spark.sql(text)
        assert "error" in answer, text
        # Either our words, or Spark's own for an endpoint that the catalog does not list.
        assert any(w in answer["error"] for w in ("topic", "does not support")), answer
    assert spark.rows(topic) == rows
