"""Every kind of file we write, against the specification and with readers of others (J, K)."""
import datetime
import json
import os
import random
from pathlib import Path

import avro.datafile
import avro.io
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.transforms import parse_transform
from pyiceberg.types import BinaryType, IntegerType, LongType, StringType, TimestamptzType

from harness.run import node
from raw import Client, Record, batch
from tables import (ICEBIRD, T, avro as read_avro, current_snapshot, data_files, fill, load, local,
                    log_rows, manifests, metadata, read_duckdb, read_pyiceberg)

pytestmark = pytest.mark.lakestream

# The specification's tables for version 2: name -> (field id, required in the Avro schema).
MANIFEST_LIST = {
    "manifest_path": (500, True), "manifest_length": (501, True),
    "partition_spec_id": (502, True), "content": (517, True), "sequence_number": (515, True),
    "min_sequence_number": (516, True), "added_snapshot_id": (503, True),
    "added_files_count": (504, True), "existing_files_count": (505, True),
    "deleted_files_count": (506, True), "added_rows_count": (512, True),
    "existing_rows_count": (513, True), "deleted_rows_count": (514, True),
    "partitions": (507, False), "key_metadata": (519, False),
}
MANIFEST_ENTRY = {
    "status": (0, True), "snapshot_id": (1, False), "sequence_number": (3, False),
    "file_sequence_number": (4, False), "data_file": (2, True),
}
DATA_FILE = {
    "content": (134, True), "file_path": (100, True), "file_format": (101, True),
    "partition": (102, True), "record_count": (103, True), "file_size_in_bytes": (104, True),
    "column_sizes": (108, False), "value_counts": (109, False),
    "null_value_counts": (110, False), "nan_value_counts": (137, False),
    "lower_bounds": (125, False), "upper_bounds": (128, False), "key_metadata": (131, False),
    "split_offsets": (132, False), "equality_ids": (135, False), "sort_order_id": (140, False),
    "first_row_id": (142, False), "referenced_data_file": (143, False),
    "content_offset": (144, False), "content_size_in_bytes": (145, False),
}
MAP_IDS = {"column_sizes": (117, 118), "value_counts": (119, 120),
           "null_value_counts": (121, 122), "nan_value_counts": (138, 139),
           "lower_bounds": (126, 127), "upper_bounds": (129, 130)}
MUST = {"MANIFEST_LIST": set(MANIFEST_LIST) - {"partitions", "key_metadata"},
        "ENTRY": set(MANIFEST_ENTRY), "DATA": {
            "content", "file_path", "file_format", "partition", "record_count",
            "file_size_in_bytes", "column_sizes", "value_counts", "null_value_counts",
            "lower_bounds", "upper_bounds"}}


def check_fields(schema, known, must):
    names = {f["name"] for f in schema["fields"]}
    assert must <= names, must - names
    for f in schema["fields"]:
        field_id, required = known[f["name"]]
        assert f["field-id"] == field_id, f
        optional = isinstance(f["type"], list)
        assert optional != required, f
        if optional:
            assert f["type"][0] == "null" and f.get("default", None) is None
    return {f["name"]: f for f in schema["fields"]}


def plain(t):
    return next(x for x in t if x != "null") if isinstance(t, list) else t


def test_b039_manifest_list(server, topic):
    fill(server, topic)
    meta = metadata(server, topic)
    snapshot = current_snapshot(meta)
    schema, header, entries = read_avro(snapshot["manifest-list"])
    fields = check_fields(schema, MANIFEST_LIST, MUST["MANIFEST_LIST"])
    assert header["format-version"] == "2"
    if "partitions" in fields:
        items = plain(fields["partitions"]["type"])
        assert items["element-id"] == 508
        ids = {f["name"]: f["field-id"] for f in items["items"]["fields"]}
        assert ids == {"contains_null": 509, "contains_nan": 518, "lower_bound": 510,
                       "upper_bound": 511}
    for e in entries:
        path = local(e["manifest_path"])
        assert os.path.getsize(path) == e["manifest_length"]
        assert e["content"] == 0
        assert e["sequence_number"] <= snapshot["sequence-number"]
        _, _, inside = read_avro(e["manifest_path"])
        for status, name in ((0, "existing"), (1, "added"), (2, "deleted")):
            of = [x["data_file"]["record_count"] for x in inside if x["status"] == status]
            assert (len(of), sum(of)) == (e[f"{name}_files_count"], e[f"{name}_rows_count"])


def test_b039_manifests(server, topic):
    rows = fill(server, topic)
    meta = metadata(server, topic)
    total = 0
    for listed, schema, header, entries in manifests(meta):
        fields = check_fields(schema, MANIFEST_ENTRY, MUST["ENTRY"])
        data = check_fields(fields["data_file"]["type"], DATA_FILE, MUST["DATA"])
        for name, (key, value) in MAP_IDS.items():
            if name in data:
                m = plain(data[name]["type"])
                assert m["logicalType"] == "map" and m["type"] == "array"
                ids = {f["name"]: f["field-id"] for f in m["items"]["fields"]}
                assert ids == {"key": key, "value": value}
        if "split_offsets" in data:
            assert plain(data["split_offsets"]["type"])["element-id"] == 133
        assert {"schema", "partition-spec", "partition-spec-id", "format-version",
                "content"} <= set(header)
        assert header["format-version"] == "2" and header["content"] == "data"
        assert json.loads(header["schema"])["fields"]
        assert json.loads(header["partition-spec"]) == []
        assert header["partition-spec-id"] == str(listed["partition_spec_id"])
        for e in entries:
            f = e["data_file"]
            assert f["content"] == 0 and f["file_format"].upper() == "PARQUET"
            assert os.path.getsize(local(f["file_path"])) == f["file_size_in_bytes"]
            assert pq.ParquetFile(local(f["file_path"])).metadata.num_rows == f["record_count"]
            assert e["snapshot_id"] is not None or e["status"] == 1
            total += f["record_count"] if e["status"] != 2 else 0
    assert total == len(rows)


def test_b039_a_second_avro_reader(server, topic):
    """The Apache Avro library itself, which is stricter than fastavro on schemas."""
    fill(server, topic)
    meta = metadata(server, topic)
    paths = [current_snapshot(meta)["manifest-list"]]
    paths += [m["manifest_path"] for m, *_ in manifests(meta)]
    for path in paths:
        with open(local(path), "rb") as f:
            assert list(avro.datafile.DataFileReader(f, avro.io.DatumReader()))


def test_metadata_file(server, topic):
    for seed in range(4):
        fill(server, topic, seed=seed, batches=3)
        meta = metadata(server, topic)
    assert meta["format-version"] == 2 and meta["location"] and meta["table-uuid"]
    assert meta["partition-specs"] == [{"spec-id": 0, "fields": []}]
    assert meta["default-spec-id"] == 0 and meta["last-partition-id"] == 999
    schema = next(s for s in meta["schemas"] if s["schema-id"] == meta["current-schema-id"])
    names = [f["name"] for f in schema["fields"]]
    assert names == ["value", "__partition", "__offset", "__timestamp", "__key", "__headers"]
    types = {f["name"]: f["type"] for f in schema["fields"]}
    assert (types["value"], types["__partition"], types["__offset"], types["__timestamp"],
            types["__key"]) == ("binary", "int", "long", "timestamptz", "binary")
    element = types["__headers"]["element"]
    assert [(f["name"], f["type"]) for f in element["fields"]] == \
        [("key", "string"), ("value", "binary")]
    ids = [f["id"] for f in schema["fields"]] + [f["id"] for f in element["fields"]] + \
        [types["__headers"]["element-id"]]
    assert len(ids) == len(set(ids)) and meta["last-column-id"] == max(ids)
    sequence = [s["sequence-number"] for s in meta["snapshots"]]
    assert sequence == sorted(set(sequence)) and meta["last-sequence-number"] == sequence[-1]
    assert meta["snapshot-log"][-1]["snapshot-id"] == meta["current-snapshot-id"]
    assert meta["refs"]["main"]["snapshot-id"] == meta["current-snapshot-id"]
    times = [s["timestamp-ms"] for s in meta["snapshots"]]
    assert times == sorted(times)
    known = {s["snapshot-id"] for s in meta["snapshots"]}
    for s in meta["snapshots"][1:]:
        assert s["parent-snapshot-id"] in known
    for s in meta["snapshots"]:
        assert s["summary"]["operation"] in ("append", "replace", "overwrite", "delete")
        assert Path(local(s["manifest-list"])).exists()
    summary = current_snapshot(meta)["summary"]
    assert int(summary["total-records"]) == sum(f["record_count"] for f in data_files(meta))
    assert int(summary["total-data-files"]) == len(data_files(meta))
    for entry in meta["metadata-log"]:
        assert Path(local(entry["metadata-file"])).exists()


def test_every_kept_snapshot_can_be_read(server, topic):
    sizes = {}
    rows = []
    for seed in range(5):
        rows += fill(server, topic, seed=seed, batches=2)
        sizes[metadata(server, topic)["current-snapshot-id"]] = len(rows)
    t = load(server, topic)
    for s in t.snapshots():
        if s.snapshot_id in sizes:
            assert t.scan(snapshot_id=s.snapshot_id).count() == sizes[s.snapshot_id]


def test_b040_field_ids(server, topic):
    """Every column, list element and struct member of each file has the table schema's id."""
    fill(server, topic)
    meta = metadata(server, topic)
    schema = next(s for s in meta["schemas"] if s["schema-id"] == meta["current-schema-id"])
    wanted = {}
    for f in schema["fields"]:
        wanted[f["name"]] = f["id"]
        if isinstance(f["type"], dict):
            wanted[f["name"], "element"] = f["type"]["element-id"]
            for member in f["type"]["element"]["fields"]:
                wanted[f["name"], member["name"]] = member["id"]
    for f in data_files(meta):
        footer = json.loads(node(ICEBIRD, "parquet", local(f["file_path"])).stdout)
        got, nodes = {}, iter(footer["schema"])

        def walk(children, column=None):
            for _ in range(children):
                e = next(nodes)
                if e["name"] != "list":             # the group that Parquet puts between
                    got[(column, e["name"]) if column else e["name"]] = e["field_id"]
                walk(e.get("num_children", 0), column or e["name"])

        walk(next(nodes)["num_children"])
        assert got == wanted
        names = [e["name"] for e in footer["schema"]]
        assert names[names.index("__headers") + 1:] == ["list", "element", "key", "value"]


def test_b048_logical_types(server, topic):
    fill(server, topic)
    for f in data_files(metadata(server, topic)):
        footer = json.loads(node(ICEBIRD, "parquet", local(f["file_path"])).stdout)
        e = {x["name"]: x for x in footer["schema"]}
        t = e["__timestamp"]
        assert t["type"] == "INT64"
        assert t["logical_type"]["isAdjustedToUTC"] is True
        assert t["logical_type"]["unit"] == "MICROS"
        assert e["__partition"]["type"] == "INT32" and e["__offset"]["type"] == "INT64"
        assert e["__key"]["type"] == "BYTE_ARRAY"
        assert e["__key"].get("converted_type") is None and e["__key"].get("logical_type") is None


def test_parquet_statistics_and_page_index(server, topic):
    fill(server, topic, batches=30, size=300)
    for f in data_files(metadata(server, topic)):
        p = pq.ParquetFile(local(f["file_path"]))
        table = p.read()
        for g in range(p.num_row_groups):
            group = p.metadata.row_group(g)
            part = p.read_row_group(g)
            for c in range(group.num_columns):
                column = group.column(c)
                # Values are opaque: bounds of them would prune nothing.
                opaque = column.path_in_schema.endswith("value")
                assert column.has_offset_index, column.path_in_schema
                assert column.has_column_index != opaque, column.path_in_schema
                if column.path_in_schema in ("__offset", "__partition"):
                    values = part.column(column.path_in_schema).to_pylist()
                    s = column.statistics
                    assert s.has_min_max and (s.min, s.max) == (min(values), max(values))
                    assert s.null_count == 0
                if column.path_in_schema in ("__key", "value"):
                    assert column.statistics.null_count == \
                        part.column(column.path_in_schema).null_count
        keys = list(zip(table.column("__partition").to_pylist(),
                        table.column("__offset").to_pylist()))
        assert keys == sorted(keys)         # rows in the order (partition, offset)
        assert "lakestream" in p.metadata.created_by.lower()


def test_manifest_counts_and_bounds_are_true(server, topic):
    fill(server, topic, batches=30, size=300)
    t = load(server, topic)
    ids = {f.name: f.field_id for f in t.schema().fields}
    types = {"__partition": IntegerType(), "__offset": LongType(),
             "__timestamp": TimestamptzType(), "__key": BinaryType(), "value": BinaryType()}
    for f in data_files(metadata(server, topic)):
        table = pq.ParquetFile(local(f["file_path"])).read()
        def as_map(name):
            return {x["key"]: x["value"] for x in f[name] or ()}
        assert f["record_count"] == table.num_rows
        for name, kind in types.items():
            i = ids[name]
            column = table.column(name)
            if name == "__timestamp":
                column = column.cast("int64")
            values = [v for v in column.to_pylist() if v is not None]
            assert as_map("value_counts")[i] == table.num_rows
            assert as_map("null_value_counts")[i] == table.num_rows - len(values)
            low, high = as_map("lower_bounds").get(i), as_map("upper_bounds").get(i)
            if low is not None:
                assert from_bytes(kind, low) <= min(values), name
            if high is not None:
                assert from_bytes(kind, high) >= max(values), name
            if name in ("__partition", "__offset", "__timestamp"):
                assert (from_bytes(kind, low), from_bytes(kind, high)) == \
                    (min(values), max(values))


def test_b047_bounds_cut_short(server, topic):
    """10,000 random texts and binaries; no filter may lose a row, no bound may lie."""
    rng = random.Random(47)
    letters = ["a", "z", "é", "\U0001f600", "\U0010ffff", "\uffff", "\x7f"]
    def text():
        return "".join(rng.choice(letters) for _ in range(rng.randint(0, 40))).encode()
    def binary():
        return rng.choice([b"\xff" * 40, b"\xff" * 15, rng.randbytes(40), b"\0" * 40,
                           b"prefix" * 6 + rng.randbytes(4)])
    with Client(server.address) as c:
        c.create_topic(topic, 1)
        for _ in range(10):
            rs = [Record(binary(), text(), (("h" + rng.choice("abc"), binary()),), T)
                  for _ in range(1000)]
            assert c.produce(topic, batch(rs)).ErrorCode == 0
    rows = read_pyiceberg(server, topic)
    assert len(rows) == 10_000
    test_manifest_counts_of(server, topic)
    for row in rng.sample(rows, 12):
        literal = "".join(f"\\x{b:02X}" for b in row[3])
        expected = [r for r in rows if r[3] == row[3]]
        assert read_duckdb(server, topic, f"__key = '{literal}'::BLOB") == expected
    for f in data_files(metadata(server, topic)):
        p = pq.ParquetFile(local(f["file_path"]))
        for g in range(p.num_row_groups):
            part, group = p.read_row_group(g), p.metadata.row_group(g)
            for c in range(group.num_columns):
                column = group.column(c)
                if column.path_in_schema in ("__key", "value") and column.is_stats_set and \
                        column.statistics.has_min_max:
                    values = [v for v in part.column(column.path_in_schema).to_pylist()
                              if v is not None]
                    assert column.statistics.min <= min(values)
                    assert column.statistics.max >= max(values)


def test_manifest_counts_of(server, topic):
    if topic.startswith("test-manifest-counts-of"):
        fill(server, topic, seed=9)
    meta = metadata(server, topic)
    key = load(server, topic).schema().find_field("__key").field_id
    for f in data_files(meta):
        values = [v for v in pq.ParquetFile(local(f["file_path"])).read().column("__key")
                  .to_pylist() if v is not None]
        low = {x["key"]: x["value"] for x in f["lower_bounds"]}.get(key)
        high = {x["key"]: x["value"] for x in f["upper_bounds"]}.get(key)
        assert low is None or low <= min(values)
        assert high is None or high >= max(values)


# ---- partitioned tables --------------------------------------------------------------------

PARTITIONINGS = [
    ("hour(__timestamp)", "__timestamp", "hour"), ("day(__timestamp)", "__timestamp", "day"),
    ("month(__timestamp)", "__timestamp", "month"), ("year(__timestamp)", "__timestamp", "year"),
    ("bucket(16, __key)", "__key", "bucket[16]"), ("truncate(4, __key)", "__key", "truncate[4]"),
    ("__partition", "__partition", "identity"),
    ("truncate(100, __offset)", "__offset", "truncate[100]"),
    ("bucket(8, __offset)", "__offset", "bucket[8]"),
]
HOUR = 3_600_000
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


COMPRESSIONS = {"zstd": "ZSTD", "lz4": "LZ4", "snappy": "SNAPPY", "gzip": "GZIP",
                "uncompressed": "UNCOMPRESSED"}


@pytest.mark.parametrize("setting", COMPRESSIONS)
def test_table_compression(server, topic, setting):
    """Files of each codec are read by others and served as the log; the table says which it is,
    also once the setting has changed, and files of both codecs are one table."""
    with Client(server.address) as c:
        c.create_topic(topic, 3, {"table.compression": setting})
        rows = fill(server, topic)
        rows += [(0, c.produce(topic, batch([Record(b"a" * 4000, timestamp=T)]), 0).BaseOffset, T,
                  None, b"a" * 4000, ())]
    rows.sort()
    assert read_pyiceberg(server, topic) == rows
    assert metadata(server, topic)["properties"]["write.parquet.compression-codec"] == setting
    codecs = set()
    for f in data_files(metadata(server, topic)):
        groups = pq.ParquetFile(local(f["file_path"])).metadata
        codecs |= {groups.row_group(g).column(0).compression
                   for g in range(groups.num_row_groups)}
    assert COMPRESSIONS[setting] in codecs <= {COMPRESSIONS[setting], "UNCOMPRESSED"}
    with Client(server.address) as c:
        r = c.call("IncrementalAlterConfigs", 1, ValidateOnly=False, Resources=[
            {"ResourceType": 2, "ResourceName": topic, "Configs": [
                {"Name": "table.compression", "ConfigOperation": 0, "Value": "snappy"}]}])
        assert r.Responses[0].ErrorCode == 0
    rows = sorted(rows + fill(server, topic, seed=2))
    assert read_duckdb(server, topic) == rows == read_pyiceberg(server, topic)
    assert log_rows(server, topic) == rows
    assert metadata(server, topic)["properties"]["write.parquet.compression-codec"] == "snappy"


@pytest.mark.parametrize("setting, column, transform", PARTITIONINGS)
def test_b041_b042_partition_values(server, topic, setting, column, transform):
    """Each file's tuple is what the transform gives for each of its rows; times before 1970
    are rounded down."""
    times = [T, T + HOUR, T + 30 * 24 * HOUR, -1000, -HOUR, -HOUR - 1, -58_000_000_000, 0, 1,
             -(24 * HOUR), -(24 * HOUR) - 1]
    with Client(server.address) as c:
        c.create_topic(topic, 2, {"table.partition.by": setting})
        for p in range(2):
            rs = [Record(b"v%d" % i, None if i == 3 else b"key-%d" % i, (), t)
                  for i, t in enumerate(times)]
            assert c.produce(topic, batch(rs, base_timestamp=0), p).ErrorCode == 0
    rows = read_pyiceberg(server, topic)
    assert len(rows) == 2 * len(times)
    assert read_duckdb(server, topic) == rows
    t = load(server, topic)
    spec = t.spec()
    assert [str(f.transform) for f in spec.fields] == [transform]
    kind = t.schema().find_field(column).field_type
    apply = parse_transform(transform).transform(kind)
    at = {"__partition": 0, "__offset": 1, "__timestamp": 2, "__key": 3}[column]
    by_key = {r[:2]: r for r in rows}
    seen = set()
    for _, _, header, entries in manifests(metadata(server, topic)):
        assert json.loads(header["partition-spec"])[0]["transform"] == transform
        for e in entries:
            if e["status"] == 2:
                continue
            f = e["data_file"]
            value = list(f["partition"].values())[0]
            if hasattr(value, "toordinal"):
                value = value.toordinal() - 719163
            table = pq.ParquetFile(local(f["file_path"])).read()
            for key in zip(table.column("__partition").to_pylist(),
                           table.column("__offset").to_pylist()):
                source = by_key[key][at]
                if column == "__timestamp":
                    source *= 1000
                assert apply(source) == value, (source, value)
                seen.add(key)
    assert seen == set(by_key)
    # A filter on the source column prunes and loses nothing. (DuckDB 1.5 rounds days and months
    # before 1970 up when it prunes, against the specification.)
    if column == "__timestamp":
        for r in rows[:len(times)]:
            expected = [x for x in rows if x[2] == r[2]]
            when = EPOCH + datetime.timedelta(milliseconds=r[2])
            found = read_pyiceberg(server, topic, row_filter=f"__timestamp = '{when.isoformat()}'")
            assert found == expected
            if r[2] >= 0:
                where = f"__timestamp = make_timestamptz({r[2] * 1000})"
                assert read_duckdb(server, topic, where) == expected
    if column == "__partition":
        planned = list(t.scan(row_filter="__partition = 1").plan_files())
        assert planned and len(planned) < len(list(t.scan().plan_files()))
    # The log is served from these files, merged by offset.
    assert log_rows(server, topic, 2) == rows


def test_void_and_several_fields(server, topic):
    with Client(server.address) as c:
        c.create_topic(topic, 1, {"table.partition.by":
                                  "void(__key), day(__timestamp), bucket(4, __key)"})
        rs = [Record(b"v", b"key-%d" % (i % 9), (), T + i * HOUR) for i in range(60)]
        c.produce(topic, batch(rs))
    rows = read_pyiceberg(server, topic)
    assert [r[1] for r in rows] == list(range(60))
    assert read_duckdb(server, topic) == rows == log_rows(server, topic, 1)
    assert [str(f.transform) for f in load(server, topic).spec().fields] == \
        ["void", "day", "bucket[4]"]


def test_partitioning_changes(server, topic):
    """A new spec for new files; old files keep theirs, and engines read both."""
    specs = ["", "day(__timestamp)", "bucket(4, __key)", ""]
    with Client(server.address) as c:
        c.create_topic(topic, 1)
        for i, spec in enumerate(specs):
            r = c.call("IncrementalAlterConfigs", 1, Resources=[{
                "ResourceType": 2, "ResourceName": topic, "Configs": [
                    {"Name": "table.partition.by", "ConfigOperation": 0, "Value": spec}]}])
            assert r.Responses[0].ErrorCode == 0, r
            c.produce(topic, batch([Record(b"v", b"key-%d" % n, (), T + n * 5 * HOUR)
                                    for n in range(20)]))
            rows = read_pyiceberg(server, topic)
            assert len(rows) == 20 * (i + 1)
    assert read_duckdb(server, topic) == rows == log_rows(server, topic, 1)
    meta = metadata(server, topic)
    assert [[f["transform"] for f in s["fields"]] for s in meta["partition-specs"]] == \
        [[], ["day"], ["bucket[4]"]]
    assert meta["default-spec-id"] == 0
    used = {m["partition_spec_id"] for m, *_ in manifests(meta)}
    assert used == {0, 1, 2}
    days = load(server, topic).scan(row_filter="__timestamp < '2023-11-15T00:00:00+00:00'")
    assert days.count() == len([r for r in rows if r[2] < 1_700_006_400_000])


def test_bad_partitioning_is_refused(server, topic):
    for bad in ("hours(__timestamp)", "bucket(0, __key)", "nowhere", "hour(__key)", "bucket(16)",
                "truncate(-1, __key)", "hour(__timestamp"):
        with Client(server.address) as c:
            r = c.call("CreateTopics", 7, timeoutMs=5000, Topics=[
                {"Name": topic, "NumPartitions": 1, "ReplicationFactor": 1,
                 "Configs": [{"Name": "table.partition.by", "Value": bad}]}])
            assert r.Topics[0].ErrorCode == 40 and r.Topics[0].ErrorMessage, bad


# ---- what must not grow --------------------------------------------------------------------

@pytest.mark.parametrize("commits", [150, pytest.param(2000, marks=pytest.mark.long)])
def test_b044_metadata_is_bounded(server, topic, commits):
    sizes, counts = [], []
    with Client(server.address) as c:
        c.create_topic(topic)
        for i in range(commits):
            c.produce(topic, batch([Record(b"%d" % i, timestamp=T)]))
            t = load(server, topic)
            sizes.append(os.path.getsize(local(t.metadata_location)))
            counts.append(len(t.metadata.snapshots))
    assert max(counts) <= 120 and max(sizes) < 200_000
    folder = Path(local(t.metadata_location)).parent
    old = [p for p in folder.iterdir() if p.name.endswith(".metadata.json")]
    assert len(t.metadata.metadata_log) <= 120
    assert t.scan().count() == commits
    files = list(t.scan().plan_files())
    assert len(files) < commits            # small files are merged
    # Besides the loads' commits there are only those of merges, which are far fewer.
    made = max(int(p.name.split("-")[0]) for p in old)
    assert commits <= made <= commits + commits // 4 and len(old) <= made
    rows = read_pyiceberg(server, topic)
    assert [r[:2] for r in rows] == [(0, i) for i in range(commits)]
