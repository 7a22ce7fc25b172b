"""Reads a stream's table with readers that share nothing: PyIceberg with Arrow, DuckDB's own
Iceberg reader, pyarrow file by file, and icebird in JavaScript; and the metadata as it lies there.

A row is always (partition, offset, timestamp in ms, key, value, headers).
"""
import base64
import json
import random
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urlparse

import duckdb
import duckdb_extension_avro
import duckdb_extension_httpfs
import duckdb_extension_iceberg
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.rest import RestCatalog

from harness.run import node
from raw import Client, Record, batch

T = 1_700_000_000_000
SYSTEM = ["__partition", "__offset", "__timestamp", "__key", "value", "__headers"]
ICEBIRD = Path(__file__).with_name("icebird.mjs")


def catalog(server):
    return RestCatalog("lakestream", uri=server.catalog_uri, warehouse="main")


def load(server, topic, namespace="default"):
    return catalog(server).load_table(f"{namespace}.{topic}")


def get(server, path, headers=None, method="GET", body=None):
    """-> (status, headers, parsed body or None) of a request to the Iceberg REST catalog."""
    request = urllib.request.Request(
        f"{server.catalog_uri}/v1/{path}", method=method, headers=headers or {},
        data=None if body is None else json.dumps(body).encode())
    if body is not None:
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=60) as r:
            status, reply, data = r.status, r.headers, r.read()
    except urllib.error.HTTPError as e:
        status, reply, data = e.code, e.headers, e.read()
    return status, reply, json.loads(data) if data else None


def local(location):
    """A file's path: locations are file: URLs or plain paths."""
    u = urlparse(location)
    return unquote(u.path) if u.scheme == "file" else location


# ---- readers -------------------------------------------------------------------------------

def from_arrow(table):
    table = table.select(SYSTEM)
    times = table.column("__timestamp").cast(pa.int64()).to_pylist()
    out = []
    for row, micros in zip(table.drop_columns(["__timestamp"]).to_pylist(), times):
        assert micros % 1000 == 0
        headers = tuple((h["key"], h["value"]) for h in row["__headers"] or ())
        out.append((row["__partition"], row["__offset"], micros // 1000, row["__key"],
                    row["value"], headers))
    return sorted(out)


def read_pyiceberg(server, topic, **scan):
    return from_arrow(load(server, topic).scan(**scan).to_arrow())


def duck(server):
    con = duckdb.connect()
    for module in (duckdb_extension_avro, duckdb_extension_httpfs, duckdb_extension_iceberg):
        found = next(Path(module.__file__).parent.glob("extensions/*/*.duckdb_extension"))
        con.execute(f"INSTALL '{found}'")
        con.execute(f"LOAD {found.name.split('.')[0]}")
    con.execute(f"ATTACH 'main' AS lake (TYPE iceberg, ENDPOINT '{server.catalog_uri}',"
                " AUTHORIZATION_TYPE 'none')")
    con.execute("SET TimeZone = 'UTC'")
    return con


def read_duckdb(server, topic, where="true"):
    con = duck(server)
    rows = con.execute(
        f'SELECT __partition, __offset, epoch_ms(__timestamp), __key, value, __headers '
        f'FROM lake."default"."{topic}" WHERE {where}').fetchall()
    con.close()
    return sorted((p, o, t, k, v, tuple((h["key"], h["value"]) for h in hs or ()))
                  for p, o, t, k, v, hs in rows)


def read_files(server, topic):
    """Each data file by itself, without an Iceberg reader in between."""
    tables = [pq.ParquetFile(local(f.file.file_path)).read()
              for f in load(server, topic).scan().plan_files()]
    return sorted(row for t in tables for row in from_arrow(t))


def read_icebird(server, topic):
    location = local(load(server, topic).metadata_location)
    rows = json.loads(node(ICEBIRD, "rows", location).stdout)
    def data(text):
        return None if text is None else base64.b64decode(text)
    return sorted((r["__partition"], int(r["__offset"]), r["__timestamp"], data(r["__key"]),
                   data(r["value"]), tuple((h["key"], data(h["value"])) for h in r["__headers"]))
                  for r in rows)


def as_read(reader, rows):
    """The rows as this reader can give them: icebird takes every byte array for text."""
    def text(data):
        return data and data.decode(errors="replace").encode()
    if reader != "icebird":
        return rows
    return [(p, o, t, text(k), text(v), tuple((n, text(h)) for n, h in hs))
            for p, o, t, k, v, hs in rows]


READERS = {"pyiceberg": read_pyiceberg, "duckdb": read_duckdb, "pyarrow": read_files,
           "icebird": read_icebird}


# ---- metadata as it lies there -------------------------------------------------------------

def avro(location):
    """-> (schema as written, the file's metadata, records)"""
    with open(local(location), "rb") as f:
        reader = fastavro.reader(f)
        meta = {k: v if isinstance(v, str) else v.decode() for k, v in reader.metadata.items()}
        return json.loads(meta["avro.schema"]), meta, list(reader)


def metadata(server, topic):
    with open(local(load(server, topic).metadata_location)) as f:
        return json.load(f)


def current_snapshot(meta):
    return next(s for s in meta["snapshots"]
                if s["snapshot-id"] == meta["current-snapshot-id"])


def manifests(meta):
    """[(manifest list record, manifest schema, manifest metadata, entries)]"""
    _, _, listed = avro(current_snapshot(meta)["manifest-list"])
    return [(m, *avro(m["manifest_path"])) for m in listed]


def data_files(meta):
    return [e["data_file"] for _, _, _, entries in manifests(meta) for e in entries
            if e["status"] != 2]


# ---- what was produced ---------------------------------------------------------------------

def records(rng, count, timestamp=T):
    """Records of every shape: null, empty, binary, text, repeated headers."""
    def maybe(data):
        return rng.choice([None, b"", data, data])
    out = []
    for i in range(count):
        headers = [(rng.choice(["h", "h", "", "ünï", "trace-id"]), maybe(rng.randbytes(3)))
                   for _ in range(rng.choice([0, 0, 1, 2, 5]))]
        value = rng.choice([rng.randbytes(rng.randint(1, 60)), b'{"id":%d}' % i, b"text %d" % i])
        out.append(Record(maybe(value), maybe(b"key-%d" % (i % 50)), tuple(headers),
                          timestamp + rng.randint(0, 10_000)))
    return out


def fill(server, topic, partitions=3, batches=12, size=100, seed=1, codecs=None):
    """Produces and -> the rows that the table must have."""
    rng, rows = random.Random(seed), []
    codecs = codecs or ["none", "gzip", "snappy", "xerial", "lz4", "zstd"]
    with Client(server.address) as c:
        if c.metadata([topic]).Topics[0].ErrorCode:
            c.create_topic(topic, partitions)
        for i in range(batches):
            rs = records(rng, rng.randint(1, size))
            p = c.produce(topic, batch(rs, codecs[i % len(codecs)]), i % partitions)
            assert p.ErrorCode == 0, p
            rows += [(i % partitions, p.BaseOffset + j, r.timestamp, r.key, r.value, r.headers)
                     for j, r in enumerate(rs)]
    return sorted(rows)


def log_rows(server, topic, partitions=3):
    """The same rows as a Kafka consumer gets them."""
    with Client(server.address) as c:
        return sorted((p, r.offset, r.timestamp, r.key, r.value, r.headers)
                      for p in range(partitions) for r in c.records(topic, p, c.list_offset(
                          topic, -2, p).Offset))
