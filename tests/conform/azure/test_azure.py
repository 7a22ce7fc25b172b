"""Tables in a container of Azure Blob Storage: written by us, read by PyIceberg from there."""
import json
import urllib.request
from datetime import datetime, timedelta, timezone

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog.rest import RestCatalog

from harness import paths
from harness import server as servers
from harness.run import run

pytestmark = pytest.mark.lakestream
CONTAINER, ACCOUNT = "lake", "devstoreaccount1"
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


def load(server, azure, topic):
    """Only the key is given, in the form that names the emulator."""
    catalog = RestCatalog("lake", uri=server.catalog_uri, warehouse="main",
                          **{"adls.connection-string": azure.connection})
    return catalog.load_table(f"default.{topic}")


def key_of(azure):
    return azure.connection.split("AccountKey=")[1].split(";")[0]


def test_contract(azure):
    """The same file of tests as for every other back end."""
    program = paths.ROOT / "build-asan" / "src" / "store" / "store_store_test"
    run(program, "azure", azure.endpoint, seconds=600)


def test_pyiceberg_reads_from_the_container(azure, fresh, settings, topic, prefix):
    server = fresh({**settings, "wal.delete.delay.ms": 0, "table.upkeep.interval.ms": 200})
    produce(server, topic, 1000)
    table = load(server, azure, topic)
    assert table.location().startswith(
        f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/{prefix}/tables/")
    assert table.io.properties["adls.account-name"] == ACCOUNT
    values = table.scan().to_arrow().column("value").to_pylist()
    assert sorted(values) == sorted(b"%d-%d" % (p, i) for p in range(3) for i in range(1000))
    # The very next query has one more.
    send(server, topic, [(1, b"one more")])
    assert load(server, azure, topic).scan().count() == 3001
    names = list(azure.client.get_container_client(CONTAINER).list_blob_names(
        name_starts_with=prefix))
    assert any(name.endswith(".parquet") for name in names)
    assert not (server.data_dir / "store" / "tables").exists()
    # What is compacted is only in the container; a killed server goes on with it.
    server.restart(kill=True)
    r = run("kcat", "-b", server.bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q",
            "-f", "%p-%o %s\n")
    lines = sorted(r.stdout.split("\n")[:-1])
    assert lines == sorted([f"{p}-{i} {p}-{i}" for p in range(3) for i in range(1000)] +
                           ["1-1000 one more"])
    run(paths.SERVER, "table", "verify", topic, "--http", server.http)


def test_a_sas_will_do(azure, fresh, settings, topic):
    sas = generate_container_sas(
        ACCOUNT, CONTAINER, key_of(azure), expiry=datetime.now(timezone.utc) + timedelta(hours=1),
        permission=ContainerSasPermissions(read=True, write=True, delete=True, list=True,
                                           create=True))
    del settings["store.azure.key"]
    server = fresh({**settings, "store.azure.sas.token": sas})
    produce(server, topic, 10)
    assert load(server, azure, topic).scan().count() == 30
    log = server.log_path.read_text()
    assert sas not in log and "sig=" not in log


def test_secrets_are_not_shown(azure, fresh, settings):
    server = fresh(settings)
    with urllib.request.urlopen(f"http://{server.http}/api/v1/settings") as r:
        text = r.read().decode()
    values = {s["name"]: s["value"] for s in json.loads(text)["settings"]}
    assert values["store.azure.key"] == "[hidden]"
    assert values["store.azure.sas.token"] == ""
    assert key_of(azure) not in text + server.log_path.read_text()


def test_wrong_settings_are_refused_with_words(azure, settings, tmp_path):
    good = {**settings, "store.deadline.ms": 2000}
    for change, words in [({"store.url": "az://No"}, "no name of a container"),
                          ({"store.url": f"az://{CONTAINER}/../x"}, "cannot be a prefix"),
                          ({"store.url": "az://not-there"}, "failed"),
                          ({"store.azure.account": "A"}, "no name of a storage account"),
                          ({"store.azure.key": "wrong"}, "is no key"),
                          ({"store.azure.key": "d3Jvbmc="}, "permission denied"),
                          ({"store.azure.endpoint": "http://127.0.0.1:1/x"}, "network error")]:
        server = servers.Lakestream({**good, **change}, data_dir=tmp_path / "data")
        with pytest.raises(servers.ServerError) as e:
            server.start()
        assert words in str(e.value)
        server.remove()
