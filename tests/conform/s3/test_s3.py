"""Tables in a bucket of a real S3 server: written by us, read by engines from there."""
import json
import os
import signal
import subprocess
import time
import urllib.request

import duckdb
import pyarrow.fs
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from pyiceberg.catalog.rest import RestCatalog

from harness import engines, paths
from harness import server as servers
from harness.run import run
from raw import Client, Record, batch

pytestmark = pytest.mark.lakestream
BUCKET = "lake"
T = 1_700_000_000_000


def produce(server, topic, count, partitions=3, each=500):
    """`count` records a partition, numbered."""
    with Client(server.address) as c:
        c.create_topic(topic, partitions)
        for p in range(partitions):
            for at in range(0, count, each):
                c.produce(topic, batch([Record(b"%d-%d" % (p, i), timestamp=T + i)
                                        for i in range(at, min(at + each, count))]), p)


def duck(server, s3):
    con = duckdb.connect()
    for name in engines.EXTENSIONS:
        con.execute(f"INSTALL '{engines.duckdb_extension(name)}'; LOAD {name}")
    con.execute(f"CREATE SECRET (TYPE s3, KEY_ID 'testak', SECRET 'testsk', REGION 'us-east-1',"
                f" ENDPOINT '{s3.endpoint[len('http://'):]}', USE_SSL false, URL_STYLE 'path')")
    con.execute(f"ATTACH 'main' AS lake (TYPE iceberg, ENDPOINT '{server.catalog_uri}',"
                " AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none')")
    return con


def count_duckdb(server, s3, topic):
    return duck(server, s3).execute(
        f'SELECT count(*), count(DISTINCT value) FROM lake."default"."{topic}"').fetchone()


def load(server, topic):
    """Only the keys are given: where the store is comes with the table."""
    catalog = RestCatalog("lake", uri=server.catalog_uri, warehouse="main",
                          **{"s3.access-key-id": "testak", "s3.secret-access-key": "testsk"})
    return catalog.load_table(f"default.{topic}")


def bucket(s3):
    return pyarrow.fs.S3FileSystem(access_key="testak", secret_key="testsk", region="us-east-1",
                                   endpoint_override=s3.endpoint)


def objects(s3, prefix):
    found = bucket(s3).get_file_info(
        pyarrow.fs.FileSelector(f"{BUCKET}/{prefix}", recursive=True, allow_not_found=True))
    return [f.path for f in found if f.is_file]


def consume(server, topic, expected):
    """From the start, so that what has left the log's cache comes from the store."""
    r = run("kcat", "-b", server.bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q",
            "-f", "%p-%o %s\n", seconds=120)
    lines = r.stdout.split("\n")[:-1]
    assert len(lines) == expected
    for line in lines:
        where, value = line.split(" ")
        assert where == value


def metric(server, name):
    with urllib.request.urlopen(f"http://{server.http}/metrics") as r:
        return sum(float(line.rsplit(" ", 1)[1]) for line in r.read().decode().split("\n")
                   if line.startswith(name))


def test_contract(s3):
    """The same file of tests as for every other back end."""
    program = paths.ROOT / "build-asan" / "src" / "store" / "store_store_test"
    run(program, "s3", s3.endpoint, seconds=600)


def test_engines_read_from_the_bucket(lake, topic, s3, prefix):
    server = lake()
    produce(server, topic, 4000)
    assert count_duckdb(server, s3, topic) == (12000, 12000)
    table = load(server, topic)
    assert table.location().startswith(f"s3://{BUCKET}/{prefix}/tables/")
    assert table.io.properties["s3.endpoint"] == s3.endpoint
    values = table.scan().to_arrow().column("value").to_pylist()
    assert sorted(values) == sorted(b"%d-%d" % (p, i) for p in range(3) for i in range(4000))
    # The very next query has one more.
    with Client(server.address) as c:
        c.produce(topic, batch([Record(b"one more", timestamp=T)]), 1)
    assert load(server, topic).scan().count() == 12001
    assert any(".parquet" in path for path in objects(s3, prefix))
    assert not (server.data_dir / "store" / "tables").exists()


def test_replay_from_the_bucket_after_a_crash(lake, topic, s3):
    """What is compacted is only in the bucket; a killed server goes on with it."""
    server = lake({"wal.delete.delay.ms": 0, "table.upkeep.interval.ms": 200})
    produce(server, topic, 4000)
    assert load(server, topic).scan().count() == 12000
    server.restart(kill=True)
    before = metric(server, "lakestream_store_received_bytes_total")
    consume(server, topic, 12000)
    assert metric(server, "lakestream_store_received_bytes_total") > before
    run(paths.SERVER, "table", "verify", topic, "--http", server.http)


def test_secrets_are_not_shown(lake):
    server = lake()
    with urllib.request.urlopen(f"http://{server.http}/api/v1/settings") as r:
        text = r.read().decode()
    settings = {s["name"]: s["value"] for s in json.loads(text)["settings"]}
    assert settings["store.s3.secret.key"] == "[hidden]"
    assert settings["store.s3.session.token"] == ""
    assert "testsk" not in text
    broker = ConfigResource(ConfigResource.Type.BROKER, "1")
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    configs = admin.describe_configs([broker])[broker].result(30)
    assert configs["store.s3.secret.key"].is_sensitive
    assert configs["store.s3.secret.key"].value is None
    assert "testsk" not in server.log_path.read_text()


def refused(settings, data_dir, *words):
    server = servers.Lakestream(settings, data_dir=data_dir)
    with pytest.raises(servers.ServerError) as e:
        server.start()
    for word in words:
        assert word in str(e.value)
    server.remove()


def test_a_store_has_one_cluster_and_a_cluster_one_store(lake, topic, s3, tmp_path):
    server = lake()
    produce(server, topic, 10, 1)
    server.stop()
    refused(server.settings, tmp_path / "other", "belongs to another cluster")
    url = server.settings["store.url"]
    refused({**server.settings, "store.url": url + "-elsewhere"}, server.data_dir,
            "are not in the store")
    refused({k: v for k, v in server.settings.items() if k != "store.url"}, server.data_dir,
            "are not in the store")
    server.start()


def test_wrong_settings_are_refused_with_words(s3, tmp_path):
    good = {"store.url": f"s3://{BUCKET}/w", "store.s3.endpoint": s3.endpoint,
            "store.s3.access.key": "testak", "store.s3.secret.key": "testsk",
            "store.deadline.ms": 2000}
    for change, words in [({"store.url": "s4://x"}, "s3://BUCKET"),
                          ({"store.url": "s3://No"}, "no name of a bucket"),
                          ({"store.url": f"s3://{BUCKET}/../x"}, "cannot be a prefix"),
                          ({"store.url": "s3://not-there"}, "failed"),
                          ({"store.s3.secret.key": "wrong"}, "permission denied"),
                          ({"store.s3.endpoint": "http://127.0.0.1:1"}, "network error")]:
        refused({**good, **change}, tmp_path / "data", words)


def test_the_store_pauses(lake, topic, s3):
    """Producers do not wait for the store; a table load says that it is behind, then it is not."""
    server = lake({"table.load.max.ms": 1000, "store.deadline.ms": 5000})
    produce(server, topic, 1000)
    assert load(server, topic).scan().count() == 3000
    os.kill(s3.pid(), signal.SIGSTOP)
    try:
        with Client(server.address) as c:
            for i in range(20):
                r = c.produce(topic, batch([Record(b"while it pauses", timestamp=T)]), i % 3)
                assert r.ErrorCode == 0
    finally:
        os.kill(s3.pid(), signal.SIGCONT)
    deadline = time.monotonic() + 60
    while load(server, topic).scan().count() != 3020:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_lost_data_folder_is_rebuilt_from_the_bucket(lake, topic, s3, prefix, tmp_path):
    server = lake({"meta.backup.interval.ms": 200, "table.upkeep.interval.ms": 200})
    produce(server, topic, 2000)
    backups = metric(server, "lakestream_meta_backups_total")
    assert load(server, topic).scan().count() == 6000
    deadline = time.monotonic() + 30
    while metric(server, "lakestream_meta_backups_total") == backups:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    server.stop()
    new = tmp_path / "new"
    new.mkdir()
    flags = [f for k, v in server.settings.items() for f in ("--set", f"{k}={v}")]
    r = subprocess.run([paths.SERVER, "doctor", "rebuild", new, *flags], capture_output=True,
                       text=True, timeout=120)
    assert r.returncode == 0, r.stdout + r.stderr
    r = subprocess.run([paths.SERVER, "doctor", "check", new, "--deep", *flags],
                       capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stdout + r.stderr
    again = lake(data_dir=new)
    assert load(again, topic).scan().count() == 6000
    consume(again, topic, 6000)
