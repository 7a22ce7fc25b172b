#!/usr/bin/env python3
"""./dev cluster: three brokers in three zones on this machine, with an S3 server (Ceph's RadosGW,
in memory) and a PostgreSQL of their own. Prints commands to paste, stays until Ctrl-C, then ends
what it started. Nothing is kept.
"""
import argparse
import os
import shlex
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (HERE.parent / "conform", HERE):
    sys.path.insert(0, str(folder))

from brokers import Fleet  # noqa: E402
from harness import engines, services  # noqa: E402
from harness.server import ServerError  # noqa: E402

TOPIC = "orders"
# As a user's would be: nothing here is quicker than the defaults.
SETTINGS = {"num.partitions": 6, "log.retention.ms": 604_800_000, "wal.flush.ms": 100,
            "fleet.poll.ms": 100, "broker.heartbeat.ms": 2000, "broker.session.ms": 10_000,
            "group.initial.rebalance.delay.ms": 3000}


def snippets(f, python):
    """[(title, text to paste into a shell)]: each is run by tests/fleet/test_cluster.py."""
    one, two, three = (f[n] for n in (1, 2, 3))
    extensions = " ".join(f"INSTALL '{engines.duckdb_extension(n)}'; LOAD {n};"
                          for n in engines.EXTENSIONS)
    key, secret = services.ACCESS, services.SECRET
    endpoint = f.store.endpoint
    return [
        ("Produce through each broker, read the last ten records",
         "\n".join(f"echo 'c-{b.number}:{{\"broker\":{b.number}}}' | "
                   f"kcat -b {b.kafka} -P -t {TOPIC} -K:" for b in (one, two, three)) +
         f"\nkcat -b {f.bootstrap} -C -t {TOPIC} -o -10 -e -q -f '%p %o %k %s\\n'"),
        ("Brokers and leaders, as a client of zone b is told",
         f"kcat -b {one.kafka} -L -t {TOPIC} -X client.id=zone=b"),
        ("PyIceberg, through broker 2", f"""{python} - <<'END'
from pyiceberg.catalog import load_catalog
catalog = load_catalog("lake", **{{"type": "rest", "uri": "{two.catalog_uri}", "warehouse": "main",
                       "s3.access-key-id": "{key}", "s3.secret-access-key": "{secret}"}})
print(catalog.load_table("default.{TOPIC}").scan().to_arrow())
END"""),
        ("DuckDB, through broker 3", f"""{python} - <<'END'
import duckdb
c = duckdb.connect()
c.execute("{extensions}")     # with internet: INSTALL iceberg; LOAD iceberg;
c.execute("CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', REGION 'us-east-1',"
          " ENDPOINT '{endpoint.removeprefix('http://')}', USE_SSL false, URL_STYLE 'path')")
c.execute("ATTACH 'main' AS lake (TYPE iceberg, ENDPOINT '{three.catalog_uri}',"
          " AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none')")
c.sql("SELECT __partition, count(*), max(__timestamp) "
      "FROM lake.default.{TOPIC} GROUP BY ALL").show()
END"""),
        ("What the brokers know of each other",
         f"psql -h 127.0.0.1 -p {f.database.port} -U postgres postgres "
         f"-c 'SELECT * FROM {f.schema}.broker'"),
    ]


def say(text=""):
    print(text, flush=True)


def start_command(b):
    return " ".join(shlex.quote(w) for w in b.command())


def show(f, python):
    say("\nThree brokers on one bucket and one database:\n")
    for b in f.brokers:
        say(f"  broker {b.number}  zone {b.rack}  kafka {b.kafka}  http {b.http}  "
            f"process {b.pid}  log {b.log_path}")
    say(f"  S3 server {f.store.endpoint}  bucket {services.BUCKET}  prefix {f.prefix}")
    say(f"  database  {f.database.url(f.schema)}")
    for title, text in snippets(f, python):
        say(f"\n# {title}\n{text}")
    say("\n# Kill one; the others go on, and have its records")
    say(f"kill -9 {f[2].pid}")
    say("\nCtrl-C ends all of it.")


def watch(f):
    """Until Ctrl-C; says when a broker ends, and how to start it again."""
    told = set()
    while True:
        time.sleep(0.2)
        for b in f.brokers:
            if b.process.poll() is None or b.number in told:
                continue
            told.add(b.number)
            say(f"\nbroker {b.number} ended ({b.process.returncode}). "
                f"Start it again (in another terminal; end it yourself):\n{start_command(b)}")
            if len(told) == len(f.brokers):
                say("\nAll have ended.")


def main():
    parser = argparse.ArgumentParser(prog="./dev cluster", description=__doc__)
    parser.parse_args()
    # Ctrl-C in a terminal goes to all of it: only we answer it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = []
    try:
        say("starting an S3 server (15 s) and PostgreSQL …")
        started.append(services.RadosGW())
        started.append(services.PostgreSQL())
        f = Fleet(*started, settings=SETTINGS)
        started.append(f)
        for i, zone in enumerate("abc"):
            f.add(i + 1, zone).start(preexec=os.setsid)
        show(f, sys.executable)
        watch(f)
    except KeyboardInterrupt:
        say("\nending …")
    except ServerError as e:
        say(f"cluster: {e}")
        return 1
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)        # impatience must not leave things
        for s in reversed(started):
            end(s)
    return 0


def end(s):
    if not isinstance(s, Fleet):
        s.stop()
        return
    for b in s.brokers:
        try:
            if b.alive():
                b.stop()
        except ServerError as e:
            say(f"broker {b.number}: {e}")
        b.kill()
    s.remove()


if __name__ == "__main__":
    sys.exit(main())
