"""A fleet's tables, read by PyIceberg and DuckDB from the bucket with keys of their own."""
import json
import urllib.request

import duckdb
from pyiceberg.catalog.rest import RestCatalog

from harness import engines
from harness.services import ACCESS, REGION, SECRET


def load(server, topic):
    catalog = RestCatalog("lake", uri=server.catalog_uri, warehouse="main",
                          **{"s3.access-key-id": ACCESS, "s3.secret-access-key": SECRET})
    return catalog.load_table(f"default.{topic}")


def duck(server, endpoint):
    con = duckdb.connect()
    for name in engines.EXTENSIONS:
        con.execute(f"INSTALL '{engines.duckdb_extension(name)}'; LOAD {name}")
    con.execute(f"CREATE SECRET (TYPE s3, KEY_ID '{ACCESS}', SECRET '{SECRET}', REGION '{REGION}',"
                f" ENDPOINT '{endpoint.removeprefix('http://')}', USE_SSL false,"
                " URL_STYLE 'path')")
    con.execute(f"ATTACH 'main' AS lake (TYPE iceberg, ENDPOINT '{server.catalog_uri}',"
                " AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none')")
    con.execute("SET TimeZone = 'UTC'")
    return con


def rows_pyiceberg(server, topic):
    """[(partition, offset, value)]"""
    table = load(server, topic).scan(
        selected_fields=("__partition", "__offset", "value")).to_arrow()
    return list(zip(*(table.column(c).to_pylist() for c in
                      ("__partition", "__offset", "value"))))


def rows_duckdb(server, topic, endpoint):
    con = duck(server, endpoint)
    rows = con.execute('SELECT __partition, __offset, value '
                       f'FROM lake."default"."{topic}"').fetchall()
    con.close()
    return rows


def verify(server, topic):
    """What `table verify` says."""
    url = f"http://{server.http}/api/v1/streams/{topic}/table/verify?deep=true"
    with urllib.request.urlopen(url, timeout=120) as r:
        return json.load(r)


def metric(server, name):
    with urllib.request.urlopen(f"http://{server.http}/metrics", timeout=30) as r:
        return sum(float(line.rsplit(" ", 1)[1]) for line in r.read().decode().split("\n")
                   if line.startswith(name))
