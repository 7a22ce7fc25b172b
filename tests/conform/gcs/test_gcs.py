"""Tables in a bucket of Google Cloud Storage: written by us, read by PyIceberg from there."""
import json
import urllib.request

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog.rest import RestCatalog

from harness import paths
from harness import server as servers
from harness.run import run

pytestmark = pytest.mark.lakestream
BUCKET = "lake"
T = 1_700_000_000_000


def send(server, topic, records):
    """(partition, value) each."""
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0})
    for partition, value in records:
        producer.produce(topic, value, partition=partition, timestamp=T)
    assert producer.flush(30) == 0


def produce(server, topic, count, partitions=3):
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    send(server, topic, [(p, b"%d-%d" % (p, i)) for p in range(partitions) for i in range(count)])


def load(server, topic):
    """Only a token is given: where the store is comes with the table."""
    catalog = RestCatalog("lake", uri=server.catalog_uri, warehouse="main",
                          **{"gcs.oauth2.token": "any",
                             "gcs.oauth2.token-expires-at": "4102444800000"})
    return catalog.load_table(f"default.{topic}")


def test_contract(gcs):
    """The same file of tests as for every other back end."""
    program = paths.ROOT / "build-asan" / "src" / "store" / "store_store_test"
    run(program, "gcs", gcs.endpoint, seconds=600)


def test_pyiceberg_reads_from_the_bucket(gcs, fresh, settings, topic, prefix):
    server = fresh({**settings, "wal.delete.delay.ms": 0, "table.upkeep.interval.ms": 200})
    produce(server, topic, 1000)
    table = load(server, topic)
    assert table.location().startswith(f"gs://{BUCKET}/{prefix}/tables/")
    assert table.io.properties["gcs.service.host"] == gcs.endpoint
    values = table.scan().to_arrow().column("value").to_pylist()
    assert sorted(values) == sorted(b"%d-%d" % (p, i) for p in range(3) for i in range(1000))
    # The very next query has one more.
    send(server, topic, [(1, b"one more")])
    assert load(server, topic).scan().count() == 3001
    assert any(name.endswith(".parquet") for name in gcs.names(prefix))
    assert not (server.data_dir / "store" / "tables").exists()
    # What is compacted is only in the bucket; a killed server goes on with it.
    server.restart(kill=True)
    r = run("kcat", "-b", server.bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q",
            "-f", "%p-%o %s\n")
    lines = sorted(r.stdout.split("\n")[:-1])
    assert lines == sorted([f"{p}-{i} {p}-{i}" for p in range(3) for i in range(1000)] +
                           ["1-1000 one more"])
    run(paths.SERVER, "table", "verify", topic, "--http", server.http)


def test_secrets_are_not_shown(gcs, fresh, settings):
    server = fresh({**settings, "store.gcs.token": "a-secret-token"})
    with urllib.request.urlopen(f"http://{server.http}/api/v1/settings") as r:
        text = r.read().decode()
    values = {s["name"]: s["value"] for s in json.loads(text)["settings"]}
    assert values["store.gcs.token"] == "[hidden]"
    assert "a-secret-token" not in text + server.log_path.read_text()


def test_wrong_settings_are_refused_with_words(gcs, settings, tmp_path):
    good = {**settings, "store.deadline.ms": 2000}
    for change, words in [({"store.url": "gs://No"}, "no name of a bucket"),
                          ({"store.url": f"gs://{BUCKET}/../x"}, "cannot be a prefix"),
                          ({"store.url": "gs://not-there"}, "failed"),
                          ({"store.gcs.token": "two words"}, "bytes that no token has"),
                          ({"store.gcs.credentials.file": "/nowhere"}, "are not sent to"),
                          ({"store.gcs.endpoint": "127.0.0.1:1"}, "write https://HOST"),
                          ({"store.gcs.endpoint": "http://127.0.0.1:1"}, "network error")]:
        server = servers.Lakestream({**good, **change}, data_dir=tmp_path / "data")
        with pytest.raises(servers.ServerError) as e:
            server.start()
        assert words in str(e.value)
        server.remove()
