"""What operators see: metrics, health, settings and where they come from, the command line's words
and exit codes. On a real server, with nothing but the standard library.
"""
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from harness import paths

pytestmark = pytest.mark.lakestream

SAMPLE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)+)\})? (\S+)$')


def get(server, path, method="GET"):
    """(status, headers, body) of a request."""
    request = urllib.request.Request(f"http://{server.http}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read().decode()


def run(*args, env=None, stdin=""):
    """The program, to its end."""
    return subprocess.run([str(paths.SERVER), *args], input=stdin, capture_output=True, text=True,
                          timeout=120, env={**os.environ, **(env or {})})


def samples(text):
    """name -> (kind, help, [(sample name, labels, value)]) of the text format 0.0.4."""
    families, family = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, words = line[7:].split(" ", 1)
            assert name not in families, f"{name} is there twice"
            family = families[name] = [None, words, []]
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert families[name] is family and family[0] is None
            family[0] = kind
        else:
            found = SAMPLE.match(line)
            assert found, line
            family[2].append((found[1], found[2] or "", float(found[3])))
    return families


@pytest.fixture
def busy(server, topic):
    """The shared server, after every part of it has done something."""
    assert run("topic", "create", topic, "--bootstrap", server.kafka).returncode == 0
    assert run("produce", topic, "--bootstrap", server.kafka, stdin="a\nb\n").returncode == 0
    assert run("consume", topic, "--bootstrap", server.kafka).stdout == "a\nb\n"
    assert get(server, f"/iceberg/v1/main/namespaces/default/tables/{topic}")[0] == 200
    return server


def test_metrics_follow_the_conventions(busy):
    status, headers, text = get(busy, "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = samples(text)
    assert len(families) > 30
    for name, (kind, words, values) in families.items():
        assert name.startswith("lakestream_"), name
        assert len(words) > 10, name
        assert kind in ("counter", "gauge", "histogram"), name
        assert name.endswith("_total") == (kind == "counter"), name
        # base units only
        assert not re.search(r"_(ms|millis|milliseconds|us|minutes|kb|mb|percent)(_|$)", name), name
        if kind == "histogram":
            assert re.search(r"_(seconds|bytes)$", name), name
            check_histogram(name, values)
            continue
        keys = [(n, labels) for n, labels, _ in values]
        assert len(keys) == len(set(keys)), name
        assert all(n == name for n, _ in keys), name
        if kind == "counter":
            assert all(value >= 0 for _, _, value in values), name


def check_histogram(name, values):
    """Buckets ascend to +Inf, which is the count; a sum is there."""
    series = {}
    for sample, labels, value in values:
        le = re.search(r'(?:^|,)le="([^"]+)"', labels)
        rest = re.sub(r'(?:^|,)le="[^"]+"', "", labels).strip(",")
        s = series.setdefault(rest, {"buckets": []})
        if sample == name + "_bucket":
            s["buckets"].append((float(le[1].replace("+Inf", "inf")), value))
        else:
            s[sample[len(name):]] = value
    for s in series.values():
        bounds = [b for b, _ in s["buckets"]]
        counts = [c for _, c in s["buckets"]]
        assert bounds == sorted(bounds) and bounds[-1] == float("inf"), name
        assert counts == sorted(counts) and counts[-1] == s["_count"], name
        assert "_sum" in s, name


def test_metrics_of_the_table(busy, topic):
    """A topic's gauges come with its records and go with the topic."""
    deadline = time.monotonic() + 30
    while f'lakestream_table_lag_seconds{{topic="{topic}"}}' not in get(busy, "/metrics")[2]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert run("topic", "delete", topic, "--bootstrap", busy.kafka).returncode == 0
    assert f'topic="{topic}"' not in get(busy, "/metrics")[2]


def test_metrics_of_the_disk(server):
    deadline = time.monotonic() + 30
    while True:
        families = samples(get(server, "/metrics")[2])
        size = families["lakestream_disk_size_bytes"][2][0][2]
        if size > 0:
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert size == pytest.approx(shutil.disk_usage(server.data_dir).total, rel=0.01)
    assert 0 < families["lakestream_disk_free_bytes"][2][0][2] <= size


def test_health(server):
    for path in ("/healthz", "/readyz"):
        status, headers, text = get(server, path)
        assert (status, json.loads(text)["status"]) == \
            (200, "ok" if path == "/healthz" else "ready")
        assert headers["Content-Type"] == "application/json"
        assert get(server, path, "HEAD")[0] == 200
        assert get(server, path, "POST")[0] == 405
    assert get(server, "/")[0] == 200
    assert json.loads(get(server, "/nothing")[2])["error"]["code"] == 404


def test_settings_come_from_flag_environment_file(fresh, tmp_path, monkeypatch):
    config = tmp_path / "lakestream.conf"
    config.write_text("# of a test\nlog.retention.check.interval.ms = 1000000\nnum.partitions = 7\n"
                      "offset.metadata.max.bytes = 77\nbroker.rack = file\n")
    monkeypatch.setenv("LAKESTREAM_NUM_PARTITIONS", "8")
    monkeypatch.setenv("LAKESTREAM_BROKER_RACK", "environment")
    server = fresh({"num.partitions": "9"}, args=["--config", str(config)])
    settings = {s["name"]: (s["value"], s["source"])
                for s in json.loads(get(server, "/api/v1/settings")[2])["settings"]}
    assert settings["num.partitions"] == ("9", "flag")
    assert settings["broker.rack"] == ("environment", "environment")
    assert settings["offset.metadata.max.bytes"] == ("77", "file")
    assert settings["log.retention.check.interval.ms"] == ("1000000", "file")
    assert settings["wal.sync"] == ("always", "default")
    listed = re.findall(r"^([a-z0-9.]+) =", run("serve", "--help-config").stdout, re.M)
    assert sorted(listed) == sorted(settings)


@pytest.mark.parametrize("args, env, words", [
    (["--set", "wal.synk=off"], {}, "did you mean 'wal.sync'"),
    (["--set", "wal.sync=maybe"], {}, "not one of always|off"),
    (["--set", "num.partitions=0"], {}, "1 to 100000"),
    (["--set", "num.partitions"], {}, "name=value"),
    ([], {"LAKESTREAM_WAL_SYNK": "off"}, "did you mean LAKESTREAM_WAL_SYNC"),
    (["--config", "/nonexistent"], {}, "/nonexistent"),
    (["--data-dri", "x"], {}, "did you mean --data-dir"),
    (["--kafka", "nowhere"], {}, "HOST:PORT"),
])
def test_serve_refuses_with_words(tmp_path, args, env, words):
    done = run("serve", "--data-dir", str(tmp_path / "d"), "--http", "127.0.0.1:0", *args, env=env)
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert done.stdout == ""


def test_serve_says_what_is_in_the_way(server, tmp_path):
    def refused(data_dir, kafka, http):
        done = run("serve", "--data-dir", str(data_dir), "--kafka", kafka, "--http", http)
        assert done.returncode == 1 and done.stdout == ""
        return done.stderr

    free = "127.0.0.1:0"
    assert "port" in refused(tmp_path / "a", server.kafka, free)
    assert "the port is in use" in refused(tmp_path / "b", free, server.http)
    assert "in use by another lakestream" in refused(server.data_dir, free, free)
    (tmp_path / "file").write_text("x")
    assert "a file has that name" in refused(tmp_path / "file", free, free)
    assert server.alive()


def test_a_file_with_an_unknown_name_is_refused(tmp_path):
    config = tmp_path / "lakestream.conf"
    config.write_text("num.partitions = 3\n\nwal.segment.byte = 5\n")
    done = run("serve", "--data-dir", str(tmp_path / "d"), "--config", str(config))
    assert done.returncode == 2
    assert f"{config}: line 3: there is no setting 'wal.segment.byte'" in done.stderr
    assert "did you mean 'wal.segment.bytes'" in done.stderr


def test_help_config_is_a_file_that_works(fresh, tmp_path):
    config = tmp_path / "all.conf"
    config.write_text("".join(line for line in
                              run("serve", "--help-config").stdout.splitlines(keepends=True)
                              if not line.startswith(("data.dir", "kafka.listen", "http.listen"))))
    server = fresh(args=["--config", str(config)])
    assert get(server, "/readyz")[0] == 200


def test_exit_codes(server, topic):
    assert run("--help").returncode == 0
    assert run("version").returncode == 0
    assert run().returncode == 2
    assert run("topik").returncode == 2
    for command in ("serve", "produce", "consume", "doctor"):
        assert run(command, "--help").returncode == 0
        assert run(command, "--no-such-flag").returncode == 2
        assert run("help", command).stdout == run(command, "--help").stdout
    for group in ("topic", "group", "table"):
        assert run(group, "--help").returncode == 0
        assert run(group, "nothing").returncode == 2
    there = ("--bootstrap", server.kafka)
    assert run("topic", "describe", topic, *there).returncode == 1      # not there
    assert run("topic", "create", topic, *there).returncode == 0
    done = run("topic", "create", topic, *there)
    assert done.returncode == 1 and "exists" in done.stderr
    assert run("topic", "create", topic, "--if-absent", *there).returncode == 0
    done = run("topic", "list", "--bootstrap", "127.0.0.1:1")
    assert done.returncode == 1 and "127.0.0.1:1" in done.stderr
    assert topic in [t["name"] for t in
                     json.loads(run("topic", "list", "--output", "json", *there).stdout)]
