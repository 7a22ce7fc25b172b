"""The Iceberg REST catalog: names, answers and errors of its specification."""
import pytest
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from raw import Client, Record, batch
from tables import T, catalog, fill, get, load, metadata, read_pyiceberg

pytestmark = pytest.mark.lakestream


@pytest.fixture
def prefix(server):
    """What clients put between v1 and the rest, from the configuration."""
    status, _, config = get(server, "config?warehouse=main")
    assert status == 200
    p = config.get("overrides", {}).get("prefix") or config.get("defaults", {}).get("prefix")
    return p + "/" if p else ""


def test_config(server):
    status, headers, body = get(server, "config?warehouse=main")
    assert status == 200 and headers["Content-Type"].startswith("application/json")
    assert isinstance(body["defaults"], dict) and isinstance(body["overrides"], dict)
    endpoints = set(body["endpoints"])
    assert {"GET /v1/{prefix}/namespaces", "GET /v1/{prefix}/namespaces/{namespace}",
            "GET /v1/{prefix}/namespaces/{namespace}/tables",
            "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}"} <= endpoints
    status, _, body = get(server, "config?warehouse=no-such-warehouse")
    assert status in (400, 404) and body["error"]["message"]


def test_namespaces(server, prefix):
    assert ("default",) in catalog(server).list_namespaces()
    status, _, body = get(server, prefix + "namespaces/default")
    assert status == 200 and body["namespace"] == ["default"]
    assert get(server, prefix + "namespaces/default", method="HEAD")[0] in (200, 204)
    assert get(server, prefix + "namespaces/nowhere", method="HEAD")[0] == 404
    status, _, body = get(server, prefix + "namespaces/nowhere")
    assert status == 404
    assert body["error"]["type"] == "NoSuchNamespaceException" and body["error"]["code"] == 404
    with pytest.raises(NoSuchNamespaceError):
        catalog(server).list_tables("nowhere")


def test_levels_of_a_name(server, topic):
    """sales.eu.NAME is the stream NAME of the namespace sales.eu."""
    name = f"sales.eu.{topic}"
    with Client(server.address) as c:
        c.create_topic(name, 1)
        c.produce(name, batch([Record(b"x", timestamp=T)]))
    cat = catalog(server)
    assert ("sales",) in cat.list_namespaces()
    assert ("sales", "eu") in cat.list_namespaces("sales")
    assert ("sales", "eu", topic) in cat.list_tables(("sales", "eu"))
    t = cat.load_table(("sales", "eu", topic))
    assert t.scan().count() == 1
    with Client(server.address) as c:
        c.delete_topic(name)
    with pytest.raises(NoSuchTableError):
        cat.load_table(("sales", "eu", topic))


def test_tables_come_and_go_with_topics(server, topic, prefix):
    cat = catalog(server)
    assert not cat.table_exists(f"default.{topic}")
    with Client(server.address) as c:
        c.create_topic(topic)
    assert ("default", topic) in cat.list_tables("default")
    assert cat.table_exists(f"default.{topic}")
    assert load(server, topic).scan().count() == 0
    with Client(server.address) as c:
        c.delete_topic(topic)
    assert not cat.table_exists(f"default.{topic}")
    status, _, body = get(server, f"{prefix}namespaces/default/tables/{topic}")
    assert (status, body["error"]["type"]) == (404, "NoSuchTableException")
    assert get(server, f"{prefix}namespaces/default/tables/{topic}", method="HEAD")[0] == 404


def test_pages(server, topic, prefix):
    names = [f"{topic}-{i:02}" for i in range(25)]
    with Client(server.address) as c:
        c.call("CreateTopics", 7, timeoutMs=10000, Topics=[
            {"Name": n, "NumPartitions": 1, "ReplicationFactor": 1} for n in names])
    found, token, pages = [], "", 0
    while token is not None:
        _, _, body = get(server, f"{prefix}namespaces/default/tables?pageSize=10&pageToken={token}")
        assert len(body["identifiers"]) <= 10
        found += [i["name"] for i in body["identifiers"]]
        token = body.get("next-page-token")
        pages += 1
        assert pages < 1000
    assert len(found) == len(set(found)) and set(names) <= set(found)
    assert pages > 2


def test_load_answers(server, topic, prefix):
    fill(server, topic)
    status, headers, body = get(server, f"{prefix}namespaces/default/tables/{topic}")
    assert status == 200
    assert body["metadata-location"] and body["metadata"]["format-version"] == 2
    assert body["metadata"] == metadata(server, topic)
    _, _, refs = get(server, f"{prefix}namespaces/default/tables/{topic}?snapshots=refs")
    assert [s["snapshot-id"] for s in refs["metadata"]["snapshots"]] == \
        [body["metadata"]["current-snapshot-id"]]


def test_metrics_are_taken(server, topic, prefix):
    fill(server, topic, batches=1)
    status, _, _ = get(server, f"{prefix}namespaces/default/tables/{topic}/metrics",
                       method="POST", body={
                           "report-type": "scan-report", "table-name": topic, "snapshot-id": 1,
                           "filter": True, "schema-id": 0, "projected-field-ids": [],
                           "projected-field-names": [], "metrics": {}})
    assert status == 204


def test_outside_commits_are_refused_in_words(server, topic):
    rows = fill(server, topic, batches=2)
    t = load(server, topic)
    with pytest.raises(Exception) as e:
        t.append(t.scan().to_arrow())
    assert not isinstance(e.value, (TypeError, AttributeError, KeyError)), e.value
    with pytest.raises(Exception):
        t.delete("__offset = 0")
    with pytest.raises(Exception):
        catalog(server).drop_table(f"default.{topic}")
    assert read_pyiceberg(server, topic) == rows


@pytest.mark.parametrize("path, method", [
    ("", "GET"), ("nothing/here", "GET"), ("namespaces/default/tables/x/y/z", "GET"),
    ("namespaces/%ff%fe", "GET"), ("namespaces/default/tables/%00", "GET"),
    ("namespaces/default/tables/..%2f..%2fetc", "GET"), ("config", "POST"),
    ("namespaces/default/tables/" + "x" * 5000, "GET")])
def test_bad_requests(server, prefix, path, method):
    status, _, body = get(server, prefix + path, method=method,
                          body={} if method == "POST" else None)
    assert 400 <= status < 500
    assert body is None or body["error"]["code"] == status
    assert server.alive()


def test_health_and_metrics(server, topic):
    import urllib.request
    fill(server, topic, batches=2)
    load(server, topic)
    for path in ("/healthz", "/readyz"):
        with urllib.request.urlopen(f"http://{server.http}{path}", timeout=10) as r:
            assert r.status == 200
    with urllib.request.urlopen(f"http://{server.http}/metrics", timeout=10) as r:
        text = r.read().decode()
    names = {line.split("{")[0].split()[0] for line in text.splitlines()
             if line and not line.startswith("#")}
    assert names and all(n.startswith(("lakestream_", "process_")) for n in names), names
