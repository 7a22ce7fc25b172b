"""./dev bench: this server beside a real Apache Kafka, one after the other, with the same clients.

Each round visits ours and Kafka in both durabilities, in turn, with fresh data: "page cache" is
wal.sync=off against Kafka's defaults, "disk" is our default against Kafka with
log.flush.interval.messages=1. A visit starts the server and runs every step of VISIT once. What is
printed is the median over the rounds; the JSON also has the smallest and largest value.

Two clients, both without a JVM: `raw` (bench/raw.c) sends batches made beforehand, so that the
server is what is measured; `load` (bench/load.c) is librdkafka with its defaults. Times of the
processor are the server's process alone.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from servers import ROOT, Kafka, Ours, kafka_version

PEER = "Apache Kafka"
# record bytes, producers, partitions
CASES = ((100, 1, 1), (1024, 1, 1), (10240, 1, 1), (100, 8, 1), (1024, 8, 1), (10240, 8, 1),
         (1024, 1, 1000), (100, 8, 1000), (1024, 8, 1000), (10240, 8, 1000))
LIBRDKAFKA_CASES = ((100, 1, 1), (1024, 1, 1), (10240, 1, 1), (1024, 8, 1000))
ROW_CASES = (("100", "json"), ("1024", "json"), ("10240", "json"), ("1024", "random"))
RATE_PER_S = {"page cache": 1000, "disk": 100}     # one record a flush must be possible
FANOUT_RATE_PER_S, FANOUT_CONSUMERS = 10000, 8
COMMAND_SECONDS_MAX, TOPIC_SECONDS_MAX = 150, 60
ROUNDS_SECONDS_MAX = 23 * 60        # no round is begun that would end later
BUILD = Path(os.environ.get("LAKESTREAM_BUILD", ROOT / "build"))
TOOLS = Path(tempfile.mkdtemp(prefix="lakestream-bench-"))


class Plan:
    """How much of each step; no round begins that would end after 23 minutes."""

    def __init__(self, quick):
        self.rounds = 1 if quick else 3
        self.warm_s = 3 if quick else 5
        self.produce_s = 0.8 if quick else 1.5
        self.produce_bytes = 100_000_000 if quick else 200_000_000
        self.rate_s = 3 if quick else 6
        self.history_bytes = 60_000_000 if quick else 200_000_000
        self.fresh_times = 3 if quick else 5


# ---- running things ------------------------------------------------------------------------

def run(*command):
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                       timeout=COMMAND_SECONDS_MAX)
    if r.returncode != 0:
        raise SystemExit(f"bench: {' '.join(map(str, command))}\n{r.stdout}{r.stderr}")
    return r.stdout


def flags(options):
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def client(program, mode, server, topic, **options):
    return json.loads(run(TOOLS / program, mode, server.kafka, topic, *flags(options)))


def build_clients():
    cc = os.environ.get("CC", "cc").split()
    run(*cc, "-O2", "-o", TOOLS / "raw", ROOT / "bench/raw.c", "-lpthread")
    run(*cc, "-O2", "-o", TOOLS / "load", ROOT / "bench/load.c", "-lrdkafka", "-lpthread")


def make_topic(server, name, partitions=1):
    """Made, and every partition has its leader: an empty fetch of all of them works."""
    run(BUILD / "lakestream", "topic", "create", name, "--bootstrap", server.kafka,
        "--partitions", partitions)
    until = time.monotonic() + TOPIC_SECONDS_MAX
    while subprocess.run([TOOLS / "raw", "fetch", server.kafka, name, "--partitions",
                          str(partitions)], capture_output=True).returncode != 0:
        if time.monotonic() > until:
            raise SystemExit(f"bench: topic {name} did not come up")
    return name


class Results:
    """Values by (name, unit, durability or "", "ours" or "peer"); a list, one a round."""

    def __init__(self):
        self.values = {}

    def add(self, side, durability, name, unit, value):
        self.values.setdefault((name, unit, durability), {}).setdefault(side, []).append(value)

    def median(self, name, unit, durability, side):
        values = self.values.get((name, unit, durability), {}).get(side)
        return statistics.median(values) if values else None


class Visit:
    """One server in one durability in one round."""

    def __init__(self, side, durability, plan, results):
        self.side, self.durability, self.plan, self.results = side, durability, plan, results
        self.server = (Ours if side == "ours" else Kafka)(sync=durability == "disk")

    def add(self, name, unit, value):
        self.results.add(self.side, self.durability, name, unit, value)

    def timed(self, what, *args, **options):
        """A client's run with the server's processor seconds per GB that it moved."""
        before = self.server.cpu_s()
        r = client(*args, **options)
        self.add(f"{what}: server CPU", "s/GB", (self.server.cpu_s() - before) / r["bytes"] * 1e9)
        return r


# ---- the steps of a visit ------------------------------------------------------------------

def step_start(v):
    """From the start of the process to the first record acknowledged, with an empty data folder."""
    if v.side == "peer":
        v.server.format()
    first = subprocess.Popen([TOOLS / "raw", "first", v.server.kafka, "first"],
                             stdout=subprocess.PIPE)
    began = time.monotonic()
    v.server.start()
    out, _ = first.communicate(timeout=COMMAND_SECONDS_MAX)
    v.add("start to first produce acknowledged", "ms",
          (json.loads(out)["monotonic"] - began) * 1e3)
    time.sleep(2)
    v.add("resident memory, idle", "MB", v.server.memory_mb())


def step_warm(v):
    """Not measured: the JVM compiles what is hot, and partitions get their first record."""
    one, many = make_topic(v.server, "one"), make_topic(v.server, "many", 1000)
    client("raw", "produce", v.server, one, size=1024, seconds=v.plan.warm_s, producers=4,
           bytes=v.plan.produce_bytes * 2)
    for batch, size in ((1000, 1_200_000), (16384, 20_000_000)):
        client("raw", "produce", v.server, many, size=100, seconds=30, batch=batch, bytes=size,
               partitions=1000, spread=16)
    client("load", "latency", v.server, one, size=1024, seconds=1, rate=RATE_PER_S[v.durability])


def case_name(size, producers, partitions):
    return (f"produce {size} B, {producers} producer{'s' * (producers > 1)}, "
            f"{partitions:,} partition{'s' * (partitions > 1)}")


def step_produce(v):
    for size, producers, partitions in CASES:
        os.sync()               # what earlier cases left unwritten is not this one's to wait for
        shape = dict(partitions=1000, spread=16, batch=16384) if partitions > 1 else {}
        what = case_name(size, producers, partitions)
        r = v.timed(what, "raw", "produce", v.server, "many" if shape else "one", size=size,
                    seconds=v.plan.produce_s, bytes=v.plan.produce_bytes, producers=producers,
                    **shape)
        v.add(what, "MB/s", r["mb_per_s"])
    for size, producers, partitions in LIBRDKAFKA_CASES:
        os.sync()
        r = client("load", "produce", v.server, "many" if partitions > 1 else "one", size=size,
                   seconds=v.plan.produce_s, producers=producers)
        v.add(f"{case_name(size, producers, partitions)}, librdkafka", "MB/s", r["mb_per_s"])


def step_latency(v):
    topic, rate = make_topic(v.server, "latency"), RATE_PER_S[v.durability]
    r = client("load", "latency", v.server, topic, size=1024, rate=rate, seconds=v.plan.rate_s)
    for part in ("p50", "p99", "p999"):
        v.add(f"end-to-end latency {part}, {rate}/s of 1 KiB", "ms", r[f"{part}_ms"])


def step_fanout(v):
    topic = make_topic(v.server, "fanout")
    what = f"tail fan-out to {FANOUT_CONSUMERS} consumers, {FANOUT_RATE_PER_S}/s of 1 KiB"
    r = v.timed(what, "load", "fanout", v.server, topic, size=1024, rate=FANOUT_RATE_PER_S,
                consumers=FANOUT_CONSUMERS, seconds=v.plan.rate_s)
    v.add(f"{what}: delivered", "MB/s", r["mb_per_s"])
    v.add(f"{what}: p99", "ms", r["p99_ms"])


def load_table(server, topic):
    """What an engine asks first; the answer comes when the tail is committed to the table."""
    url = f"http://{server.http}/iceberg/v1/main/namespaces/default/tables/{topic}"
    with urllib.request.urlopen(url, timeout=COMMAND_SECONDS_MAX) as r:
        return json.load(r)


def step_history(v):
    """One consumer replays everything: from Parquet here, from segments there."""
    topic = make_topic(v.server, "history")
    before = v.server.cpu_s()
    r = client("raw", "produce", v.server, topic, size=1024, seconds=60, producers=2,
               bytes=v.plan.history_bytes)
    if v.side == "ours":
        load_table(v.server, topic)
        v.add("produce 1 KiB and compact it into the table: server CPU", "s/GB",
              (v.server.cpu_s() - before) / r["bytes"] * 1e9)
    for name, program, extra in (("librdkafka", "load", {"records": r["records"]}),
                                 ("batches not looked at", "raw", {})):
        mode = "consume" if program == "load" else "fetch"
        what = f"catch-up read of history, {name}"
        got = v.timed(what, program, mode, v.server, topic, **extra)
        v.add(what, "MB/s", got["mb_per_s"])


def step_fresh(v):
    """From an acknowledgement until a query has the row: the table load, and an engine's count."""
    if v.side == "peer":
        return
    from pyiceberg.catalog.rest import RestCatalog
    catalog = RestCatalog("bench", uri=v.server.catalog_uri, warehouse="main")
    topic = make_topic(v.server, "fresh")
    expected = 0
    for i in range(2 * v.plan.fresh_times):
        r = client("raw", "produce", v.server, topic, size=1024, seconds=60, bytes=1_000_000)
        expected += r["records"]
        began = time.monotonic()
        if i % 2 == 0:
            load_table(v.server, topic)
            v.add("acknowledgement to table load answered, 1 MB", "ms",
                  (time.monotonic() - began) * 1e3)
            continue
        count = catalog.load_table(f"default.{topic}").scan().count()
        v.add("acknowledgement to query answered (PyIceberg count), 1 MB", "ms",
              (time.monotonic() - began) * 1e3)
        if count != expected:
            raise SystemExit(f"bench: the query counted {count} of {expected} rows")


def step_memory(v):
    v.add("resident memory, after the load", "MB", v.server.memory_mb())
    v.add("resident memory, peak", "MB", v.server.memory_mb("VmHWM"))


# The most data last: a server of ours that still compacts it has less left for what follows.
VISIT = {"start": step_start, "warm": step_warm, "latency": step_latency, "fanout": step_fanout,
         "history": step_history, "fresh": step_fresh, "produce": step_produce,
         "memory": step_memory}
ALWAYS = ("start", "warm")


def visit(side, durability, plan, results, only):
    v = Visit(side, durability, plan, results)
    began = time.monotonic()
    try:
        for name, step in VISIT.items():
            if not only or name in only or name in ALWAYS:
                step(v)
        results.add("ours", "", "load average of the machine, 1 min", "", os.getloadavg()[0])
        v.server.stop()
    finally:
        v.server.kill()
        v.server.remove()
    print(f"bench: {side} {durability} {time.monotonic() - began:.0f} s, "
          f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)


# ---- the lake's inner part, one core -------------------------------------------------------

def bench_rows(results, plan):
    """Rows and record bytes a second of processor time; see bench/micro/rows_bench.c."""
    program = BUILD / "src/lake/rows_bench"
    if not program.exists():
        run("ninja", "-C", BUILD, "src/lake/rows_bench")
    for line in run(program, 32 if plan.rounds == 1 else 64).splitlines():
        m = re.match(r"\s*(\d+)\s+(\w+)\s+(\w+)\s+(\d+)\s+(\d+)", line)
        if not m or (m[1], m[2]) not in ROW_CASES or m[3] != "none":
            continue
        record = f"{m[1]} B {m[2]} values"
        for name, rate in (("into Parquet", m[4]), ("Parquet to record batches", m[5])):
            what = f"{name}, {record}, one core"
            results.add("ours", "", what, "MB/s", float(rate))
            results.add("ours", "", what, "rows/s", float(rate) * 1e6 / (int(m[1]) + KEY_BYTES))


KEY_BYTES = 10          # about: rows_bench counts keys like user-12345 as record bytes


# ---- what is printed and written -----------------------------------------------------------

def rows_of(results):
    out = []
    for (name, unit, durability), sides in results.values.items():
        ours, peer = sides.get("ours"), sides.get("peer")
        out.append(row(f"{name} [{durability}]" if durability else name, unit, ours, peer))
        if durability == "page cache" and name.startswith("produce") and unit == "MB/s":
            disk = results.values.get((name, unit, "disk"), {}).get("ours")
            out.append(row(f"{name} [ours: disk, Kafka: page cache]", unit, disk, peer))
    return sorted(out, key=lambda r: r["name"].rsplit(" [", 1)[-1] if " [" in r["name"] else "~")


def row(name, unit, ours, peer):
    a = statistics.median(ours) if ours else None
    b = statistics.median(peer) if peer else None
    return {"name": name, "unit": unit, "ours": a, "peer": b,
            "peer_name": f"{PEER} {kafka_version()}" if peer else None,
            "ratio": a / b if a is not None and b else None,
            "ours_min_max": [min(ours), max(ours)] if ours else None,
            "peer_min_max": [min(peer), max(peer)] if peer else None}


def number(value):
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def show(rows):
    width = max(len(r["name"]) for r in rows)
    print(f"{'':{width}}  {'unit':7} {'ours':>11} {'kafka':>11} {'ratio':>8}   "
          "min..max of ours, kafka")
    for r in rows:
        spread = "  ".join(f"{number(low)}..{number(high)}" for low, high in
                           filter(None, (r["ours_min_max"], r["peer_min_max"])))
        print(f"{r['name']:{width}}  {r['unit']:7} {number(r['ours']):>11} "
              f"{number(r['peer']):>11} {number(r['ratio']):>8}   {spread}")


def markdown(rows):
    """The table of docs/benchmarks.md."""
    out = ["| what | unit | ours | Kafka | ratio |", "| --- | --- | ---: | ---: | ---: |"]
    for r in rows:
        cells = []
        for side in ("ours", "peer"):
            spread = r[f"{side}_min_max"] or []
            more = f" ({number(spread[0])}–{number(spread[1])})" if len(set(spread)) > 1 else ""
            cells.append(number(r[side]) + more)
        cells = [r["name"], r["unit"], *cells, number(r["ratio"])]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo")
                  if line.startswith("model name")), "unknown processor")
    memory = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) >> 20
    return f"{os.cpu_count()} x {model}, {memory} GiB, Linux {os.uname().release}"


def main():
    p = argparse.ArgumentParser(prog="./dev bench", description=__doc__.split("\n")[0])
    p.add_argument("--json", metavar="FILE", help="write the numbers there, too")
    p.add_argument("--markdown", metavar="FILE", help="write them as a table, too")
    p.add_argument("--quick", action="store_true", help="one short round")
    p.add_argument("--rounds", type=int, help="instead of 3, or 1 with --quick")
    p.add_argument("--only", action="append", metavar="STEP", default=[],
                   choices=[*VISIT, "rows"], help="may be repeated: " + ", ".join([*VISIT, "rows"]))
    p.add_argument("--durability", choices=["page cache", "disk"], help="only this one")
    args = p.parse_args()
    plan, results = Plan(args.quick), Results()
    plan.rounds = args.rounds or plan.rounds
    build_clients()
    print(f"bench: {machine()}; {PEER} {kafka_version()}", file=sys.stderr)
    began = time.monotonic()
    for i in range(plan.rounds if args.only != ["rows"] else 0):
        if i > 0 and (time.monotonic() - began) * (i + 1) / i > ROUNDS_SECONDS_MAX:
            print(f"bench: a slow machine: {i} rounds", file=sys.stderr)
            break
        for durability in [args.durability] if args.durability else ["page cache", "disk"]:
            for side in ("ours", "peer") if i % 2 == 0 else ("peer", "ours"):
                visit(side, durability, plan, results, args.only)
    if not args.only or "rows" in args.only:
        bench_rows(results, plan)
    rows = rows_of(results)
    show(rows)
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")
    if args.markdown:
        Path(args.markdown).write_text(markdown(rows))


if __name__ == "__main__":
    try:
        main()
    finally:
        for tool in TOOLS.iterdir():
            tool.unlink()
        TOOLS.rmdir()
