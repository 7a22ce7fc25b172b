"""Many loads, many tables: no storm of commits, no metadata that grows without end."""
import concurrent.futures
import os
from pathlib import Path

import pytest

from raw import Client, Record, batch
from tables import T, catalog, get, load, local, metadata, read_pyiceberg

pytestmark = pytest.mark.lakestream


def metadata_files(server):
    return [p for p in Path(server.data_dir, "store", "tables").rglob("*.metadata.json")]


@pytest.mark.parametrize("loads", [300, pytest.param(1000, marks=pytest.mark.long)])
def test_many_loads_while_records_come(fresh, topic, loads):
    """Loads from many threads: at most a commit each, none without new records, all fresh."""
    s = fresh()
    path = f"main/namespaces/default/tables/{topic}"
    with Client(s.address) as c:
        c.create_topic(topic, 2)

        def rows(_):
            status, _, body = get(s, path)
            assert status == 200
            snapshots = body["metadata"].get("snapshots", [])
            return int(snapshots[-1]["summary"]["total-records"]) if snapshots else 0

        produced = 0
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for _ in range(loads // 20):
                c.produce(topic, batch([Record(b"x", timestamp=T)] * 5), produced % 2)
                produced += 5
                assert set(pool.map(rows, range(20))) == {produced}
    meta = metadata(s, topic)
    # Twenty loads share a commit, and upkeep makes few of its own.
    assert meta["last-sequence-number"] <= loads // 20 * 1.3 + 1
    assert len(meta["snapshots"]) <= 120
    assert os.path.getsize(local(load(s, topic).metadata_location)) < 200_000
    assert len(read_pyiceberg(s, topic)) == produced


@pytest.mark.parametrize("tables", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_many_tables_listed(fresh, topic, tables):
    """Listing and asking for tables commits nothing; only what is loaded gets metadata."""
    s = fresh()
    names = [f"{topic}-{i:05}" for i in range(tables)]
    with Client(s.address) as c:
        for at in range(0, tables, 500):
            r = c.call("CreateTopics", 7, timeoutMs=60000, Topics=[
                {"Name": n, "NumPartitions": 1, "ReplicationFactor": 1}
                for n in names[at:at + 500]])
            assert all(t.ErrorCode == 0 for t in r.Topics)
        for n in names[::100]:
            assert c.produce(n, batch([Record(b"x", timestamp=T)])).ErrorCode == 0
    cat = catalog(s)
    for _ in range(3):
        assert {n for _, n in cat.list_tables("default")} >= set(names)
    assert all(cat.table_exists(f"default.{n}") for n in names[:50])
    assert metadata_files(s) == []
    for n in names[:300:100]:
        assert load(s, n).scan().count() == 1
    assert len(metadata_files(s)) == 3
    s.restart()
    assert {n for _, n in catalog(s).list_tables("default")} >= set(names)
    assert len(metadata_files(s)) == 3
