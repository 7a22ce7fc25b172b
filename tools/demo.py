#!/usr/bin/env python3
"""./dev demo: a topic is a table, shown with clients that know nothing of each other.

kcat produces orders; DuckDB asks the Iceberg catalog for them, at once; a Kafka client written in
Python reads them back; one more record is produced and the very next query has it. Everything is
checked, not only shown: a wrong count or a wrong byte ends the demo with exit code 1.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "conform"))

from harness import engines, paths  # noqa: E402
from harness.server import Lakestream, ServerError  # noqa: E402

BINARY = paths.SERVER
TOPIC = "orders"
PARTITIONS = 6
RECORDS_DEFAULT = 100_000
SECONDS_MAX = 300               # of any one program
COUNTRIES = ["DE", "FR", "US", "JP", "BR", "IN", "GB", "NL", "SE", "KE"]
ITEMS = [("coffee, 1 kg", 1890), ("green tea, 100 g", 740), ("espresso cup", 1250),
         ("paper filters", 420), ("hand grinder", 8900), ("milk jug", 2150), ("scale", 5400)]


class DemoError(Exception):
    """What went wrong, in words for the one who ran the demo."""


# ---- the terminal --------------------------------------------------------------------------

COLOURS = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if COLOURS else text


def step(text):
    print(f"\n{paint('1;36', '==')} {paint('1', text)}", flush=True)


def told(label, text):
    print(f"   {label:<24} {text}", flush=True)


def command(text):
    print(f"   {paint('2', '$ ' + text)}", flush=True)


def table(header, rows):
    cells = [[str(c) for c in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    right = [all(isinstance(r[i], (int, float)) for r in rows) for i in range(len(header))]
    for n, row in enumerate(cells):
        line = "  ".join(c.rjust(w) if r else c.ljust(w)
                         for c, w, r in zip(row, widths, right)).rstrip()
        print("   " + (paint("1", line) if n == 0 else line))


def seconds(value):
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


# ---- programs ------------------------------------------------------------------------------

def run(*words, **kw):
    """The program's standard output; a failure says what it printed."""
    try:
        r = subprocess.run([str(w) for w in words], capture_output=True, timeout=SECONDS_MAX, **kw)
    except FileNotFoundError:
        raise DemoError(f"there is no program {words[0]}; ./dev demo installs what it needs")
    except subprocess.TimeoutExpired:
        raise DemoError(f"{Path(words[0]).name} took more than {SECONDS_MAX} s")
    if r.returncode != 0:
        said = (r.stderr or r.stdout).decode(errors="replace").strip()[-2000:]
        raise DemoError(f"{Path(words[0]).name} exited with {r.returncode}: {said}")
    return r.stdout.decode(errors="replace")


def kcat_produce(server, lines):
    """Produces a key and a value a line; kcat ends after the last acknowledgement."""
    run("kcat", "-b", server.bootstrap, "-P", "-t", TOPIC, "-K", "\t", "-X", "acks=all",
        "-X", "linger.ms=20", "-l", lines)
    return time.monotonic()


def check(condition, message):
    if not condition:
        raise DemoError(message)


# ---- the records ---------------------------------------------------------------------------

def orders(count, seed=7):
    """(key, value) of each order: as a shop would write them."""
    rng = random.Random(seed)
    at = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=12)
    for n in range(1, count + 1):
        at += timedelta(milliseconds=rng.randint(1, 800))
        item, cents = rng.choice(ITEMS)
        quantity = rng.choices([1, 2, 3, 10], [70, 20, 8, 2])[0]
        customer = f"c-{int(rng.paretovariate(1.2) * 17) % 20_000:05}"
        order = {"order_id": n, "customer": customer, "country": rng.choice(COUNTRIES),
                 "item": item, "quantity": quantity, "amount": round(cents * quantity / 100, 2),
                 "ordered_at": at.isoformat(timespec="milliseconds")}
        yield customer, json.dumps(order, ensure_ascii=False, separators=(",", ":"))


def write_lines(path, pairs):
    path.write_text("".join(f"{k}\t{v}\n" for k, v in pairs))
    return path


# ---- the steps -----------------------------------------------------------------------------

def start(server):
    step("A server: one process, one folder")
    command(f"build/lakestream serve --data-dir {server.data_dir} --kafka 127.0.0.1:0"
            " --http 127.0.0.1:0")
    server.start(preexec=os.setsid)         # so that --keep can leave it, and Ctrl-C not hit it
    told("ready after", seconds(server.start_seconds))
    told("Kafka protocol", server.kafka)
    told("Iceberg REST catalog", server.catalog_uri)


def create(server):
    step(f"A topic with {PARTITIONS} partitions")
    words = ["topic", "create", TOPIC, "--partitions", str(PARTITIONS)]
    command(f"build/lakestream {' '.join(words)} --bootstrap {server.kafka}")
    run(BINARY, *words, "--bootstrap", server.kafka)


def produce(server, pairs, folder):
    step(f"{len(pairs):,} orders, produced with kcat")
    lines = write_lines(folder / "orders.txt", pairs)
    command(f"kcat -P -b {server.kafka} -t {TOPIC} -K '\\t' -X acks=all -l orders.txt")
    began = time.monotonic()
    acked = kcat_produce(server, lines)
    took = acked - began
    told("acknowledged, on disk", f"{len(pairs):,} records, {lines.stat().st_size / 1e6:.1f} MB"
         f" in {seconds(took)} ({len(pairs) / took:,.0f} records/s)")
    return acked


COUNT = f"SELECT count(*), count(DISTINCT (__partition, __offset)) FROM lake.default.{TOPIC}"
NEWEST = (f"SELECT __partition, __offset, decode(__key) AS key, decode(value) AS value"
          f" FROM lake.default.{TOPIC} WHERE __timestamp >= (SELECT max(__timestamp) FROM"
          f" lake.default.{TOPIC}) ORDER BY __offset DESC LIMIT 1")
BY_COUNTRY = f"""
SELECT json->>'country' AS country, count(*) AS orders, sum((json->>'quantity')::INT) AS items,
       round(sum((json->>'amount')::DOUBLE), 2) AS amount
FROM (SELECT decode(value)::JSON AS json FROM lake.default.{TOPIC})
GROUP BY ALL ORDER BY amount DESC LIMIT 5"""


def query(duck, pairs, acked):
    step("The same topic as an Iceberg table, asked by DuckDB")
    rows, distinct = duck.execute(COUNT).fetchone()
    answered = time.monotonic() - acked
    told("rows in the table", f"{rows:,}")
    told("last ack to answer", paint("1;32", seconds(answered)) + " (the tail became Parquet and"
         " a snapshot in it)")
    check(rows == distinct == len(pairs), f"{rows:,} rows, {distinct:,} different (partition,"
          f" offset), but {len(pairs):,} records were acknowledged")
    print()
    r = duck.execute(BY_COUNTRY)
    table([d[0] for d in r.description], found := r.fetchall())
    check(found, "DuckDB found no countries")
    print()
    r = duck.execute("SELECT __partition, __offset, __timestamp::VARCHAR AS __timestamp,"
                     " decode(__key) AS __key, left(decode(value), 60) || '…' AS value"
                     f" FROM lake.default.{TOPIC} ORDER BY __offset, __partition LIMIT 4")
    table([d[0] for d in r.description], r.fetchall())


def consume(server, pairs):
    step("Consumed back with another client: kafka-python")
    from kafka import KafkaConsumer, TopicPartition
    consumer = KafkaConsumer(bootstrap_servers=server.bootstrap, enable_auto_commit=False,
                             fetch_max_bytes=16 << 20, max_partition_fetch_bytes=4 << 20)
    try:
        parts = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
        consumer.assign(parts)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(parts)
        got, began = Counter(), time.monotonic()
        while any(consumer.position(p) < ends[p] for p in parts):
            check(time.monotonic() - began < SECONDS_MAX, "the consumer did not reach the end")
            for batch in consumer.poll(timeout_ms=1000, max_records=20_000).values():
                got.update((r.key.decode(), r.value.decode()) for r in batch)
        took = time.monotonic() - began
    finally:
        consumer.close()
    count = sum(got.values())
    told("records", f"{count:,} in {seconds(took)}")
    check(got == Counter(pairs), f"{count:,} records came back, and they are not the"
          f" {len(pairs):,} that were produced")
    told("same keys and values", "yes, all of them")
    return count


def one_more(server, duck, pairs, folder):
    step("One more record: the very next query has it")
    key = "c-demo"
    order = {"order_id": len(pairs) + 1, "customer": key, "country": "IS", "item": "espresso cup",
             "quantity": 1, "amount": 12.5, "ordered_at": datetime.now(timezone.utc).isoformat()}
    value = json.dumps(order, separators=(",", ":"))
    acked = kcat_produce(server, write_lines(folder / "one.txt", [(key, value)]))
    rows, _ = duck.execute(COUNT).fetchone()
    answered = time.monotonic() - acked
    newest = duck.execute(NEWEST).fetchone()
    told("rows in the table", f"{rows:,}")
    told("last ack to answer", paint("1;32", seconds(answered)))
    check(rows == len(pairs) + 1, f"{rows:,} rows, {len(pairs) + 1:,} records acknowledged")
    check(newest[2:] == (key, value), f"the newest row is not the record produced: {newest}")
    told("the newest row", f"partition {newest[0]}, offset {newest[1]}: {value[:60]}…")


def prove(server, pairs, consumed):
    step("Proof: log and table hold the same records")
    words = ["table", "verify", TOPIC, "--deep", "--http", server.http]
    command(f"build/lakestream {' '.join(words)}")
    found = json.loads(run(BINARY, *words, "--output", "json"))
    catalog = engines.pyiceberg_catalog(server.catalog_uri)
    rows = catalog.load_table(f"default.{TOPIC}").scan().count()
    wanted = len(pairs) + 1
    table(["", "records"], [["acknowledged to kcat", wanted],
                            ["read back by kafka-python, before the last", consumed],
                            ["in the log, by the server's sums", found["records_log"]],
                            ["in the Parquet files, read one by one", found["records_table"]],
                            ["counted by PyIceberg, a second engine", rows]])
    check(found["equal"] and found["records_log"] == found["records_table"] == rows == wanted,
          f"they are not the same: {found}, PyIceberg {rows}, produced {wanted}")
    told("hash of all records", f"{found['hash_log']} = {found['hash_table']}")


def kept(server, folder):
    step("The server goes on running. To paste:")
    python = sys.executable
    for title, text in engines.snippets(server, TOPIC, python):
        print(f"\n{paint('1', title)}\n{text}")
    print(f"\n{paint('1', 'Stop it and delete its data')}\n"
          f"kill {server.pid}; tail -f /dev/null --pid {server.pid}; rm -r {folder}\n", flush=True)


def demo(args, server, folder):
    start(server)
    create(server)
    duck = engines.duckdb_connect(server.catalog_uri)
    pairs = list(orders(args.records))
    acked = produce(server, pairs, folder)
    query(duck, pairs, acked)
    consumed = consume(server, pairs)
    one_more(server, duck, pairs, folder)
    prove(server, pairs, consumed)
    duck.close()
    if args.keep:
        kept(server, folder)
        return
    step("Stopping")
    server.stop()
    told("drained and gone", "the data folder is deleted; --keep leaves it running")
    print(f"\n{paint('1;32', 'The topic is a table.')}\n", flush=True)


def parse():
    p = argparse.ArgumentParser(prog="./dev demo", description=__doc__.splitlines()[0])
    p.add_argument("--keep", action="store_true",
                   help="leave the server running and print commands to paste")
    p.add_argument("--records", type=int, default=RECORDS_DEFAULT, metavar="N",
                   help=f"how many to produce (default {RECORDS_DEFAULT:,})")
    args = p.parse_args()
    if args.records < 1:
        p.error("--records: at least 1")
    return args


def interrupted(number, frame):
    raise KeyboardInterrupt


def main():
    args = parse()
    signal.signal(signal.SIGTERM, interrupted)
    folder = Path(tempfile.mkdtemp(prefix="lakestream-demo-"))
    server = Lakestream(data_dir=folder / "data", binary=BINARY, log_path=folder / "server.log")
    leave = False
    try:
        demo(args, server, folder)
        leave = args.keep
        return 0
    except KeyboardInterrupt:
        print("\nstopped; cleaning up", file=sys.stderr)
        return 130
    except (DemoError, ServerError) as e:
        print(f"\n{paint('1;31', 'The demo failed:')} {e}", file=sys.stderr)
    except Exception as e:       # a client's own error; its name and words are what helps
        print(f"\n{paint('1;31', 'The demo failed:')} {type(e).__name__}: {e}", file=sys.stderr)
    finally:
        if not leave:
            tail = server.tail(1500) if server.log_path.exists() else ""
            server.kill()
            shutil.rmtree(folder, ignore_errors=True)
    if tail.strip():
        print(f"\nThe end of the server's log:\n{tail}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
