"""Query engines, connected to a server's Iceberg catalog as their users connect them.

DuckDB's extensions come from PyPI wheels, so that nothing is downloaded when a test runs.
"""
from pathlib import Path

EXTENSIONS = ("avro", "httpfs", "iceberg")


def duckdb_extension(name):
    """The path of an extension's file in its wheel."""
    module = __import__(f"duckdb_extension_{name}")
    return next(Path(module.__file__).parent.glob("extensions/*/*.duckdb_extension"))


def duckdb_setup(catalog_uri):
    """SQL that makes the catalog `lake`."""
    lines = [f"INSTALL '{duckdb_extension(n)}'; LOAD {n};" for n in EXTENSIONS]
    lines += ["SET TimeZone = 'UTC';",
              f"ATTACH 'main' AS lake (TYPE iceberg, ENDPOINT '{catalog_uri}',"
              " AUTHORIZATION_TYPE 'none');"]
    return "\n".join(lines)


def duckdb_connect(catalog_uri):
    import duckdb
    con = duckdb.connect()
    con.execute(duckdb_setup(catalog_uri))
    return con


def pyiceberg_catalog(catalog_uri, name="lakestream"):
    from pyiceberg.catalog.rest import RestCatalog
    return RestCatalog(name, uri=catalog_uri, warehouse="main")


SPARK_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"


def spark_settings(catalog_uri):
    return {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "rest",
        "spark.sql.catalog.lake.uri": catalog_uri,
        "spark.sql.catalog.lake.warehouse": "main",
        "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        "spark.sql.catalog.lake.cache-enabled": "false",
    }


def snippets(server, topic, python):
    """[(title, text to paste into a shell)]: each is run by tests/conform/test_demo.py."""
    uri = server.catalog_uri
    extensions = " ".join(f"INSTALL '{duckdb_extension(n)}'; LOAD {n};" for n in EXTENSIONS)
    conf = " \\\n  ".join(f"--conf {k}={v}" for k, v in spark_settings(uri).items())
    return [
        ("kcat: produce a record, read the last ten",
         f"echo 'c-me:{{\"country\":\"IS\"}}' | kcat -b {server.kafka} -P -t {topic} -K:\n"
         f"kcat -b {server.kafka} -C -t {topic} -o -10 -e -q -f '%p %o %k %s\\n'"),
        ("DuckDB", f"""{python} - <<'END'
import duckdb
c = duckdb.connect()
c.execute("{extensions}")     # with internet: INSTALL iceberg; LOAD iceberg;
c.execute("ATTACH 'main' AS lake (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')")
c.sql("SELECT __partition, count(*), max(__timestamp) FROM lake.default.{topic} GROUP BY ALL").show()
END"""),
        ("PyIceberg", f"""{python} - <<'END'
from pyiceberg.catalog import load_catalog
catalog = load_catalog("lake", type="rest", uri="{uri}", warehouse="main")
t = catalog.load_table("default.{topic}")
print(t.scan(row_filter="__partition = 0", limit=5).to_arrow().to_pylist())
END"""),
        ("Spark (4.0; it fetches the Iceberg runtime)",
         f"spark-sql --packages {SPARK_PACKAGE} \\\n  {conf} \\\n"
         f"  -e 'SELECT __partition, count(*) FROM lake.default.{topic} GROUP BY 1 ORDER BY 1'"),
    ]
