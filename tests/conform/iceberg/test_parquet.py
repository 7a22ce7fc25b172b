"""Files of our Parquet writer, all types, nestings, encodings and codecs, read by three readers of
others that share no code: Arrow (C++), DuckDB (C++), hyparquet (JavaScript). B045, B046.
"""
import datetime
import json
import math
import subprocess
import uuid
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from harness import paths
from harness.run import node

pytestmark = pytest.mark.lakestream
SAMPLES = paths.SERVER.parent / "tests" / "parquet_samples"
HYPARQUET = Path(__file__).with_name("hyparquet.mjs")
EPOCH = datetime.datetime(1970, 1, 1)
NAMES = [f"{codec}-{encodings}" for codec in ("none", "snappy", "gzip", "lz4", "zstd")
         for encodings in ("common", "all", "deltas")]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parquet")
    subprocess.run([SAMPLES, folder], check=True, timeout=300)
    return folder


def expected(folder, name):
    with open(folder / f"{name}.jsonl", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def plain(v):
    """A reader's value in the form of the JSON lines."""
    if isinstance(v, bytes):
        return v.hex()
    if isinstance(v, uuid.UUID):
        return v.hex
    if isinstance(v, Decimal):
        return int(v.scaleb(2))
    if isinstance(v, datetime.datetime):
        return (v.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(v, datetime.date):
        return (v - EPOCH.date()).days
    if isinstance(v, float) and not math.isfinite(v):
        return "NaN" if math.isnan(v) else "Infinity" if v > 0 else "-Infinity"
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    return v


def same(got, wanted):
    assert len(got) == len(wanted)
    for i, (g, w) in enumerate(zip(got, wanted)):
        assert g == w, f"row {i}"


@pytest.mark.parametrize("name", NAMES)
def test_arrow(samples, name):
    table = pq.ParquetFile(samples / f"{name}.parquet").read()
    same([plain(r) for r in table.to_pylist()], expected(samples, name))


@pytest.mark.parametrize("name", [n for n in NAMES if not n.endswith("-all")])
def test_duckdb(samples, name):
    """It takes BYTE_STREAM_SPLIT for floats and doubles alone, so not the files that have all."""
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    r = con.execute(f"SELECT * REPLACE (epoch_us(tstz) AS tstz) FROM '{samples / name}.parquet'")
    columns = [d[0] for d in r.description]
    rows = [dict(zip(columns, row)) for row in r.fetchall()]
    for row in rows:
        row["map"] = None if row["map"] is None else list(row["map"].items())
    same([plain(r) for r in rows], expected(samples, name))


@pytest.mark.parametrize("name", NAMES)
def test_hyparquet(samples, name):
    """JavaScript's Date holds milliseconds; its maps are objects."""
    got = [json.loads(line)
           for line in node(HYPARQUET, samples / f"{name}.parquet").stdout.splitlines()]
    wanted = expected(samples, name)
    for g, w in zip(got, wanted):
        for column in ("ts", "tstz"):
            w[column] = w[column] and math.trunc(w[column] / 1000)
            g[column] = g[column] and math.trunc(g[column])
        g["day"] = g["day"] and g["day"] // 86_400_000
        g["dec"] = g["dec"] and round(g["dec"] * 100)
        g["uuid"] = g["uuid"] and g["uuid"].replace("-", "")
        # A map's keys that look like numbers come first in a JavaScript object.
        g["map"] = g["map"] and sorted(([k, v] for k, v in g["map"].items()), key=lambda e: e[0])
        w["map"] = w["map"] and sorted(w["map"], key=lambda e: e[0])
        if g["map"] == {}:
            g["map"] = []
    same(got, wanted)


def test_every_encoding_is_there(samples):
    """The samples really hold what they are named for."""
    seen = {}
    for name in NAMES:
        meta = pq.ParquetFile(samples / f"{name}.parquet").metadata
        columns = [meta.row_group(g).column(c) for g in range(meta.num_row_groups)
                   for c in range(meta.num_columns)]
        seen[name] = {e for c in columns for e in c.encodings}
        codec = {"none": "UNCOMPRESSED", "lz4": "LZ4"}.get(name.split("-")[0],
                                                           name.split("-")[0].upper())
        assert {c.compression for c in columns} <= {codec, "UNCOMPRESSED"}
        assert codec in {c.compression for c in columns}
    assert "RLE_DICTIONARY" in seen["zstd-common"]
    assert not seen["zstd-common"] & {"DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"}
    everything = set().union(*(seen[n] for n in NAMES if n.endswith("-all")))
    assert {"PLAIN", "RLE_DICTIONARY", "DELTA_BINARY_PACKED", "DELTA_BYTE_ARRAY",
            "BYTE_STREAM_SPLIT"} <= everything, everything


@pytest.mark.parametrize("name, nans, above", [
    ("doubles-nan", 1, []), ("doubles-nan-1", 1, [1.0]), ("doubles-1-nan", 1, [1.0]),
    ("doubles-zeros", 0, []), ("doubles-nulls", 0, [])])
def test_b046_nan_in_bounds(samples, name, nans, above):
    """No NaN is a bound, zero is -0.0 as least and +0.0 as most, no filter loses a row."""
    file = samples / f"{name}.parquet"
    con = duckdb.connect()
    assert con.execute(f"SELECT count(*) FROM '{file}' WHERE isnan(x)").fetchone() == (nans,)
    # For DuckDB a NaN is above all numbers.
    assert con.execute(f"SELECT x FROM '{file}' WHERE x > 0.5 AND NOT isnan(x)").fetchall() == \
        [(x,) for x in above]
    for zero in ("0.0", "-0.0"):
        assert con.execute(f"SELECT count(*) FROM '{file}' WHERE x = {zero}::DOUBLE"
                           ).fetchone() == (2 * (name == "doubles-zeros"),)
    s = pq.ParquetFile(file).metadata.row_group(0).column(0).statistics
    if s is None or not s.has_min_max:
        assert nans or name == "doubles-nulls"
        return
    assert not math.isnan(s.min) and not math.isnan(s.max)
    if name == "doubles-zeros":
        assert (math.copysign(1, s.min), math.copysign(1, s.max)) == (-1, 1)
    else:
        assert (s.min, s.max) == (1.0, 1.0)
