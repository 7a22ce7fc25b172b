"""The command line against a running server: each command, as text and as JSON, and what it says
when something is wrong: exit 1 (failed) or 2 (not understood), one message that helps.
"""
import json
import os
import re
import subprocess
import tempfile

import pytest

from harness import paths
from harness.run import kcat
from harness.server import SANITIZER_ENV, free_ports

pytestmark = pytest.mark.lakestream


class Cli:
    """Runs `lakestream` with the server's addresses."""

    def __init__(self, server):
        self.server = server

    def raw(self, *words, stdin="", code=0):
        r = subprocess.run([str(paths.SERVER), *map(str, words)], input=stdin.encode(),
                           capture_output=True, timeout=120,
                           env={**os.environ, **SANITIZER_ENV})
        out, err = r.stdout.decode(), r.stderr.decode()
        assert r.returncode == code, (words, r.returncode, out, err)
        return out, err

    def address(self, words):
        http = words[0] == "table"
        return ["--http", self.server.http] if http else ["--bootstrap", self.server.kafka]

    def text(self, *words, **kw):
        return self.raw(*words, *self.address(words), **kw)[0]

    def json(self, *words, **kw):
        return json.loads(self.text(*words, "--output", "json", **kw))

    def fails(self, *words, code=1, **kw):
        """What it says on standard error; nothing may be on standard output."""
        out, err = self.raw(*words, *self.address(words), code=code, **kw)
        assert out == "" and err.startswith("lakestream: "), (out, err)
        return err


@pytest.fixture
def cli(server):
    return Cli(server)


@pytest.fixture
def filled(cli, topic):
    """A topic of three partitions with ten records, k0 to k9."""
    cli.text("topic", "create", topic, "--partitions", 3)
    lines = "".join(f"k{i}\tv{i}\n" for i in range(10))
    _, err = cli.raw("produce", topic, "--bootstrap", cli.server.kafka, "--key-separator", "\t",
                     stdin=lines)
    assert "10 records written" in err
    return topic


def rows(text):
    """A printed table: {first column: [other columns]}, without its head."""
    lines = [line.split() for line in text.strip().splitlines()]
    return {line[0]: line[1:] for line in lines[1:] if line}


# ---- topic ---------------------------------------------------------------------------------

def test_topic_create_list_describe(cli, topic):
    assert cli.text("topic", "create", topic, "--partitions", 5, "--config",
                    "retention.ms=86400000") == f"created topic {topic} with 5 partitions\n"
    assert rows(cli.text("topic", "list"))[topic][0] == "5"
    listed = {t["name"]: t for t in cli.json("topic", "list")}
    assert listed[topic]["partitions"] == 5
    text = cli.text("topic", "describe", topic)
    assert "retention.ms = 86400000" in text and f"id          {listed[topic]['id']}" in text
    told = cli.json("topic", "describe", topic)
    assert told["settings"] == {"retention.ms": "86400000"}
    assert [(p["partition"], p["start"], p["end"]) for p in told["partitions"]] == \
        [(i, 0, 0) for i in range(5)]


def test_topic_create_json_and_if_absent(cli, topic):
    assert cli.json("topic", "create", topic) == \
        {"name": topic, "created": True, "partitions": 4}      # num.partitions of the server
    assert cli.json("topic", "create", topic, "--if-absent")["created"] is False
    assert "already exists" in cli.fails("topic", "create", topic)


def test_topic_alter(cli, topic):
    cli.text("topic", "create", topic, "--partitions", 1, "--config", "retention.ms=1000000")
    cli.text("topic", "alter", topic, "--partitions", 3, "--config", "segment.bytes=2000000",
             "--delete-config", "retention.ms")
    told = cli.json("topic", "describe", topic)
    assert len(told["partitions"]) == 3 and told["settings"] == {"segment.bytes": "2000000"}
    assert "would not be an increase" in cli.fails("topic", "alter", topic, "--partitions", 2)
    assert "nope" in cli.fails("topic", "alter", topic, "--config", "nope=1")
    assert "--partitions" in cli.fails("topic", "alter", topic, code=2)


def test_topic_delete(cli, filled):
    assert cli.json("topic", "delete", filled) == {"deleted": [filled]}
    assert filled not in rows(cli.text("topic", "list"))
    assert "no such topic" in cli.fails("topic", "delete", filled)


def test_topic_that_is_not_there(cli, topic):
    for words in (["topic", "describe", topic], ["topic", "alter", topic, "--partitions", 9],
                  ["consume", topic]):
        said = cli.fails(*words)
        assert topic in said and "topic" in said, said
    assert "`lakestream topic create`" in cli.fails("topic", "describe", topic)


@pytest.mark.parametrize("words, code, says", [
    (["topic", "create", "a b"], 1, "letters, digits"),
    (["topic", "create", "x", "--partitions", "0"], 2, "from 1 to"),
    (["topic", "create", "x", "--partitions", "many"], 2, "'many'"),
    (["topic", "create", "x", "--config", "nope=1"], 1, "nope"),
    (["topic", "create", "x", "--config", "retention.ms=soon"], 1, "retention.ms"),
    (["topic", "create", "x", "--config", "cleanup.policy=compact"], 1, "compact"),
    (["topic", "create"], 2, "topic create NAME"),
    (["topic", "list", "--output", "xml"], 2, "xml"),
    (["topic", "list", "--nope"], 2, "--nope"),
])
def test_topic_refusals(cli, words, code, says):
    assert says in cli.fails(*words, code=code)


# ---- produce, consume ----------------------------------------------------------------------

def test_produce_and_consume_text(cli, filled):
    assert sorted(cli.text("consume", filled).split()) == [f"v{i}" for i in range(10)]
    assert sorted(cli.text("consume", filled, "--keys").splitlines()) == \
        [f"k{i}\tv{i}" for i in range(10)]


def test_consume_json_tells_everything(cli, filled):
    lines = [json.loads(x) for x in
             cli.text("consume", filled, "--output", "json").splitlines()]
    assert sorted((r["key"], r["value"]) for r in lines) == [(f"k{i}", f"v{i}") for i in range(10)]
    for p in {r["partition"] for r in lines}:
        offsets = [r["offset"] for r in lines if r["partition"] == p]
        assert offsets == list(range(len(offsets)))
    assert all(r["topic"] == filled and r["headers"] == [] and r["timestamp_ms"] > 0
               for r in lines)


def test_null_empty_headers_and_binary(cli, topic):
    cli.text("topic", "create", topic, "--partitions", 1)
    cli.text("produce", topic, "--key-separator", ":", "--null-empty", "--header", "a=1",
             "--header", "a=2", "--codec", "zstd", stdin="k:\n")
    cli.text("produce", topic, "--key-separator", ":", stdin="k:\nno key\n")
    kcat(cli.server, "-P", "-t", topic, "-p", "0", stdin=b"\xff\xfe")
    r = [json.loads(x) for x in cli.text("consume", topic, "--output", "json").splitlines()]
    assert [(x["key"], x.get("value")) for x in r[:3]] == [("k", None), ("k", ""), (None, "no key")]
    assert r[0]["headers"] == [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]
    assert r[3]["value_base64"] == "//4="


def test_same_partition_as_other_clients(cli, topic):
    """A key goes where the Java client (and kcat told to) sends it."""
    cli.text("topic", "create", topic, "--partitions", 7)
    keys = [f"key-{i}" for i in range(40)]
    cli.text("produce", topic, "--key-separator", ":", stdin="".join(f"{k}:a\n" for k in keys))
    kcat(cli.server, "-P", "-t", topic, "-K:", "-X", "topic.partitioner=murmur2_random",
         stdin="".join(f"{k}:b\n" for k in keys))
    r = [json.loads(x) for x in cli.text("consume", topic, "--output", "json").splitlines()]
    where = {value: {x["key"]: x["partition"] for x in r if x["value"] == value} for value in "ab"}
    assert where["a"] == where["b"] and len(where["a"]) == 40


def test_consume_from(cli, topic):
    cli.text("topic", "create", topic, "--partitions", 1)
    cli.text("produce", topic, stdin="".join(f"{i}\n" for i in range(10)))
    def values(*words):
        return cli.text("consume", topic, *words).split()
    assert values("--from", "7") == ["7", "8", "9"]
    assert values("--from", "-2") == ["8", "9"]
    assert values("--from", "end") == []
    assert values("--from", "beginning", "--max", "3") == ["0", "1", "2"]
    first = json.loads(cli.text("consume", topic, "--max", "1", "--output", "json"))
    assert values("--from", f"@{first['timestamp_ms']}")[0] == "0"
    assert values("--from", f"@{first['timestamp_ms'] + 3_600_000}") == []
    assert "partitions 0 to 0" in cli.fails("consume", topic, "--partition", 1)
    assert "nowhere" in cli.fails("consume", topic, "--from", "nowhere")


def test_consume_follow(cli, topic):
    """--follow shows what comes later, as it comes, and --max ends it."""
    cli.text("topic", "create", topic, "--partitions", 2)
    follower = subprocess.Popen(
        [str(paths.SERVER), "consume", topic, "--follow", "--max", "3", "--bootstrap",
         cli.server.kafka], stdout=subprocess.PIPE, env={**os.environ, **SANITIZER_ENV})
    try:
        cli.text("produce", topic, "--partition", 1, stdin="one\n")
        assert follower.stdout.readline() == b"one\n"
        cli.text("produce", topic, "--partition", 0, stdin="two\nthree\n")
        assert follower.communicate(timeout=60)[0] == b"two\nthree\n"
        assert follower.returncode == 0
    finally:
        follower.kill()
        follower.wait()


def test_produce_many(cli, topic):
    cli.text("topic", "create", topic, "--partitions", 3)
    told = cli.json("produce", topic, "--codec", "lz4",
                    stdin="".join(f"line {i} {'x' * (i % 300)}\n" for i in range(20_000)))
    assert told == {"topic": topic, "records": 20_000}
    seen = cli.text("consume", topic).splitlines()
    assert sorted(int(s.split()[1]) for s in seen) == list(range(20_000))


def test_produce_refusals(cli, topic):
    assert "lzma" in cli.fails("produce", topic, "--codec", "lzma", stdin="x\n")
    cli.text("topic", "create", topic, "--partitions", 1, "--config", "max.message.bytes=1000")
    assert "MESSAGE_TOO_LARGE" in cli.fails("produce", topic, stdin="x" * 5000 + "\n")
    assert cli.text("consume", topic) == ""


# ---- group ---------------------------------------------------------------------------------

def consume_in_group(cli, group, topic):
    kcat(cli.server, "-G", group, "-q", "-e", "-X", "auto.offset.reset=earliest",
         "-X", "session.timeout.ms=6000", topic)


def test_group_list_describe_reset(cli, filled):
    group = filled + "-group"
    consume_in_group(cli, group, filled)
    assert rows(cli.text("group", "list"))[group][0] == "Empty"
    assert {"group": group, "state": "Empty", "protocol": "consumer"} in cli.json("group", "list")
    told = cli.json("group", "describe", group)
    assert told["state"] == "Empty" and told["members"] == []
    assert sum(o["offset"] for o in told["offsets"]) == 10
    assert all(o["lag"] == 0 for o in told["offsets"])
    before = cli.text("group", "describe", group)
    assert f"group   {group}" in before and "LAG" in before

    shown = cli.json("group", "reset", group, "--topic", filled, "--to", "beginning", "--dry-run")
    assert shown["dry_run"] and [o["offset"] for o in shown["offsets"]] == [0, 0, 0]
    assert cli.text("group", "describe", group) == before
    cli.text("group", "reset", group, "--topic", filled, "--to", "beginning")
    told = cli.json("group", "describe", group)
    assert sum(o["lag"] for o in told["offsets"]) == 10
    cli.text("group", "reset", group, "--topic", f"{filled}:1", "--to", "1")
    at = {o["partition"]: o["offset"] for o in cli.json("group", "describe", group)["offsets"]}
    assert at == {0: 0, 1: 1, 2: 0}
    cli.text("group", "reset", group, "--topic", filled, "--to", "end")
    assert all(o["lag"] == 0 for o in cli.json("group", "describe", group)["offsets"])


def test_group_with_members_is_not_reset(cli, filled):
    from confluent_kafka import Consumer
    group = filled + "-group"
    c = Consumer({"bootstrap.servers": cli.server.kafka, "group.id": group,
                  "auto.offset.reset": "earliest"})
    try:
        c.subscribe([filled])
        while c.poll(1.0) is None:
            pass
        told = cli.json("group", "describe", group)
        assert told["state"] == "Stable" and len(told["members"]) == 1
        assert "Stable" in cli.text("group", "describe", group)
        said = cli.fails("group", "reset", group, "--topic", filled, "--to", "beginning")
        assert "member" in said.lower(), said
    finally:
        c.close()


def test_group_refusals(cli, topic):
    assert "`lakestream group list`" in cli.fails("group", "describe", topic)
    assert "group reset GROUP" in cli.fails("group", "reset", topic, "--to", "end", code=2)
    assert topic in cli.fails("group", "reset", "g", "--topic", topic, "--to", "end")


# ---- table ---------------------------------------------------------------------------------

def test_table_list_describe_commit(cli, filled):
    assert rows(cli.text("table", "list"))[f"main.default.{filled}"][0] == filled
    assert filled in {t["name"] for t in cli.json("table", "list")}
    told = cli.json("table", "describe", filled)
    assert told["fresh"] is False and told["behind_records"] == 10
    assert "no: 10 newer records are in the log" in cli.text("table", "describe", filled)
    assert re.match(r"10 rows, snapshot \d+\n", cli.text("table", "commit", filled))
    text = cli.text("table", "describe", filled)
    assert re.search(r"rows +10\n", text) and "yes: every acknowledged record" in text
    assert "list<struct<key: string, value: binary>>" in text
    assert max(map(len, text.splitlines())) < 250
    told = cli.json("table", "describe", filled)
    assert told["rows"] == 10 and told["fresh"] and told["snapshots"] == 1
    assert [c["name"] for c in told["columns"]] == \
        ["value", "__partition", "__offset", "__timestamp", "__key", "__headers"]


def test_table_snapshots_and_files(cli, filled):
    cli.text("table", "commit", filled)
    cli.text("produce", filled, stdin="more\n")
    told = cli.json("table", "commit", filled)
    assert told["rows"] == 11
    snapshots = cli.json("table", "snapshots", filled)
    assert len(snapshots) == 2 and [s["current"] for s in snapshots].count(True) == 1
    lines = cli.text("table", "snapshots", filled).splitlines()
    assert len(lines) == 3 and sum(" * " in line for line in lines) == 1
    files = cli.json("table", "files", filled)
    assert sum(f["rows"] for f in files) == 11
    for f in files:
        assert os.path.getsize(f["uri"].removeprefix("file://")) == f["bytes"]
        assert f["uri"] in cli.text("table", "files", filled)


def test_table_verify(cli, filled):
    cli.text("table", "commit", filled)
    text = cli.text("table", "verify", filled)
    assert "equal: log and table hold the same records" in text
    for words in ([], ["--deep=false"]):
        told = cli.json("table", "verify", filled, *words)
        assert told["equal"] and told["records_log"] == told["records_table"] == 10
        assert told["hash_log"] == told["hash_table"] and told["deep"] is not bool(words)


def test_table_verify_names_damage(fresh, topic):
    """A byte of the data file is changed under the server: verify says so and exits 1."""
    s = fresh()
    cli = Cli(s)
    cli.text("topic", "create", topic, "--partitions", 1)
    cli.text("produce", topic, stdin="".join(f"record {i} {i * 7919}\n" for i in range(1000)))
    cli.text("table", "commit", topic)
    path = cli.json("table", "files", topic)[0]["uri"].removeprefix("file://")
    s.stop()
    with open(path, "r+b") as f:
        f.seek(os.path.getsize(path) // 3)
        old = f.read(1)
        f.seek(-1, 1)
        f.write(bytes([old[0] ^ 0x55]))
    s.start()
    out, err = cli.raw("table", "verify", topic, "--http", s.http, code=1)
    assert os.path.basename(path) in out + err or "differ" in out + err, (out, err)
    s.stop()
    out, err = cli.raw("doctor", "--data-dir", s.data_dir, "--deep", code=1)
    assert topic in out + err, (out, err)


def test_table_refusals(cli, topic):
    assert "`lakestream table list`" in cli.fails("table", "describe", topic)
    assert "table files TOPIC" in cli.fails("table", "files", code=2)


# ---- no server, or another -----------------------------------------------------------------

def test_no_server(cli):
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    for words in (["topic", "list"], ["group", "list"], ["consume", "x"], ["produce", "x"]):
        _, err = cli.raw(*words, "--bootstrap", nobody, stdin="x\n", code=1)
        assert nobody in err and "--bootstrap HOST:PORT" in err
    _, err = cli.raw("table", "list", "--http", nobody, code=1)
    assert nobody in err and "--http HOST:PORT" in err


def test_the_other_port(cli):
    _, err = cli.raw("table", "list", "--http", cli.server.kafka, code=1)
    assert "--http HOST:PORT" in err


@pytest.mark.parametrize("address", ["", ":", "nohost.invalid:9092", "127.0.0.1:99999", "x:y"])
def test_bad_addresses(cli, address):
    _, err = cli.raw("topic", "list", "--bootstrap", address, code=1)
    assert err.startswith("lakestream: ")


# ---- serve, doctor, help -------------------------------------------------------------------

def test_help_of_every_command(cli):
    out, _ = cli.raw("help")
    commands = re.findall(r"^  (\w+)  +", out, re.M)
    assert set(commands) == {"serve", "topic", "produce", "consume", "group", "table", "doctor",
                             "version", "help"}
    for command in ("topic", "group", "table"):
        out, _ = cli.raw(command, "--help")
        for sub in re.findall(rf"^  lakestream {command} (\w+) ", out, re.M):
            out_sub, _ = cli.raw(command, sub, "--help")
            assert f"lakestream {command} {sub}" in out_sub and "--output" in out_sub
    for command in ("serve", "produce", "consume", "doctor"):
        out, _ = cli.raw(command, "--help")
        assert "Flags:" in out
    assert re.fullmatch(r"lakestream \d+\.\d+\.\d+\n", cli.raw("version")[0])
    assert "no command 'nonsense'" in cli.raw("nonsense", code=2)[1]


def test_help_config_lists_every_setting(cli):
    out, _ = cli.raw("serve", "--help-config")
    names = set(re.findall(r'^LS_OPTION\(\w+, "([^"]+)"',
                           (paths.ROOT / "src/base/options.def").read_text(), re.M))
    assert names and all(re.search(rf"^\s*{re.escape(n)}\b", out, re.M) for n in names)


@pytest.mark.parametrize("words, code, says", [
    ([], 2, "--data-dir DIR"),
    (["--set", "nope=1"], 2, "--help-config"),
    (["--set", "wal.sync"], 2, "name=value"),
    (["--set", "wal.sync=sometimes"], 2, "always|off"),
    (["--set", "num.partitions=0"], 2, "num.partitions"),
    (["--config", "/nonexistent/file"], 2, "/nonexistent/file"),
    (["--kafka", "nonsense"], 1, "kafka.listen"),
    (["--store", "s4://bucket/p"], 1, "s3://BUCKET/PREFIX"),
    (["--store", "s3://b/p"], 1, "no name of a bucket"),
    (["--meta", "postgres://x/y"], 1, "give --store"),
    (["extra"], 2, "extra"),
])
def test_serve_refusals(cli, tmp_path, words, code, says):
    where = ["--data-dir", tmp_path / "data", "--http", "127.0.0.1:0"] if words else []
    out, err = cli.raw("serve", *where, *words, code=code)
    assert says in err and out == "", err


def test_serve_port_in_use(cli, tmp_path):
    _, err = cli.raw("serve", "--data-dir", tmp_path / "d", "--kafka", cli.server.kafka, code=1)
    assert cli.server.kafka in err


def test_one_server_a_directory(cli):
    _, err = cli.raw("serve", "--data-dir", cli.server.data_dir, "--kafka", "127.0.0.1:0",
                     "--http", "127.0.0.1:0", code=1)
    assert str(cli.server.data_dir) in err


def test_settings_file_environment_flag(fresh, tmp_path, monkeypatch):
    """A flag wins over the environment, that over the file, that over the default."""
    conf = tmp_path / "lakestream.conf"
    conf.write_text("# a comment\nnum.partitions = 2\nmessage.max.bytes = 50000\n"
                    "offset.metadata.max.bytes = 100\n")
    monkeypatch.setenv("LAKESTREAM_MESSAGE_MAX_BYTES", "60000")
    monkeypatch.setenv("LAKESTREAM_OFFSET_METADATA_MAX_BYTES", "200")
    s = fresh({"num.partitions": 3, "offset.metadata.max.bytes": 300},
              args=["--config", str(conf)])
    import requests
    got = {x["name"]: (x["value"], x["source"]) for x in
           requests.get(f"http://{s.http}/api/v1/settings", timeout=10).json()["settings"]}
    assert [(str(v), src) for v, src in (got["num.partitions"], got["message.max.bytes"],
                                         got["offset.metadata.max.bytes"],
                                         got["fetch.max.bytes"])] == \
        [("3", "flag"), ("60000", "environment"), ("300", "flag"), ("57671680", "default")]


def test_packaged_settings_are_known(fresh):
    """The file in packaging/ starts a server (on ports that flags give)."""
    fresh(args=["--config", str(paths.ROOT / "packaging" / "lakestream.conf")])


def test_doctor(cli, fresh, topic):
    s = fresh()
    own = Cli(s)
    own.text("topic", "create", topic, "--partitions", 2)
    own.text("produce", topic, stdin="a\nb\nc\n")
    own.text("table", "commit", topic)
    own.text("produce", topic, stdin="d\n")
    _, err = cli.raw("doctor", "--data-dir", s.data_dir, code=1)
    assert "a server uses" in err and "stop" in err
    s.stop()
    out, _ = cli.raw("doctor", "--data-dir", s.data_dir)
    assert out.strip().endswith("healthy")
    told = json.loads(cli.raw("doctor", "--data-dir", s.data_dir, "--deep", "--output", "json")[0])
    assert told["healthy"] and told["problems"] == 0 and told["streams"] == 1
    assert (told["batches_damaged"], told["files_damaged"]) == (0, 0) and told["files"] >= 1
    assert cli.raw("doctor", "check", s.data_dir)[0] == out      # the other way to say it
    assert "doctor check DIR" in cli.raw("doctor", code=2)[1]
    with tempfile.TemporaryDirectory() as empty:
        _, err = cli.raw("doctor", "--data-dir", empty + "/none", code=1)
        assert "none" in err
