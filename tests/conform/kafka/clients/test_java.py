"""The Java client, through the console, performance and administration tools of Apache Kafka."""
import json
import re
import signal
import subprocess
import time

import pytest

from harness import paths
from harness.run import java
from raw import Client

TOOLS = "org.apache.kafka.tools"


@pytest.fixture
def made(server, topic):
    with Client(server.address) as c:
        c.create_topic(topic, 3)
    return topic


def produce(server, topic, text, *args):
    java(f"{TOOLS}.ConsoleProducer", "--bootstrap-server", server.bootstrap, "--topic", topic,
         *args, stdin=text)


def consume(server, topic, count, *args):
    r = java(f"{TOOLS}.consumer.ConsoleConsumer", "--bootstrap-server", server.bootstrap,
             "--topic", topic, "--from-beginning", "--max-messages", str(count),
             "--timeout-ms", "20000", *args)
    return r.stdout.splitlines()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console(server, made, codec):
    lines = [f"line {i}" for i in range(1000)]
    produce(server, made, "\n".join(lines) + "\n", "--compression-codec", codec)
    assert sorted(consume(server, made, 1000)) == sorted(lines)


def test_console_keys_headers_and_group(server, made):
    produce(server, made, "h1:a,h2:b\tk1\tv1\n", "--reader-property", "parse.key=true",
            "--reader-property", "parse.headers=true")
    got = consume(server, made, 1, "--group", "g-" + made, "--formatter-property",
                  "print.key=true", "--formatter-property", "print.headers=true",
                  "--formatter-property", "print.offset=true")
    assert got[0].split("\t")[-3:] == ["h1:a,h2:b", "k1", "v1"] or \
        set(got[0].split("\t")) >= {"h1:a,h2:b", "k1", "v1"}
    out = java(f"{TOOLS}.consumer.group.ConsumerGroupCommand", "--bootstrap-server",
               server.bootstrap, "--describe", "--group", "g-" + made).stdout
    assert re.search(rf"g-{made}\s+{made}\s+\d\s+1\s+1\s+0", out), out
    out = java(f"{TOOLS}.consumer.group.ConsumerGroupCommand", "--bootstrap-server",
               server.bootstrap, "--list").stdout
    assert "g-" + made in out.split()


def test_group_offsets_reset_and_delete(server, made):
    group = "g-" + made
    produce(server, made, "a\nb\nc\n")
    consume(server, made, 3, "--group", group)
    tool = (f"{TOOLS}.consumer.group.ConsumerGroupCommand", "--bootstrap-server",
            server.bootstrap, "--group", group)
    with Client(server.address) as c:
        while c.call("DescribeGroups", 5, Groups=[group]).Groups[0].GroupState != "Empty":
            time.sleep(0.1)
    out = java(*tool, "--reset-offsets", "--to-earliest", "--topic", made, "--execute").stdout
    assert made in out
    assert sorted(consume(server, made, 3, "--group", group)) == ["a", "b", "c"]
    out = java(*tool, "--delete").stdout
    assert "successful" in out


def test_performance_tools(server, made):
    out = java(f"{TOOLS}.ProducerPerformance", "--topic", made, "--num-records", "50000",
               "--record-size", "100", "--throughput", "-1", "--bootstrap-server",
               server.bootstrap, "--command-property", "acks=all").stdout
    assert "50000 records sent" in out
    out = java(f"{TOOLS}.ConsumerPerformance", "--bootstrap-server", server.bootstrap, "--topic",
               made, "--num-records", "50000", "--timeout", "20000").stdout
    row = out.splitlines()[-1].split(", ")
    assert int(row[4]) == 50_000, out


def test_end_to_end_latency(server, made):
    out = java(f"{TOOLS}.EndToEndLatency", "--bootstrap-server", server.bootstrap, "--topic",
               made, "--num-records", "500", "--producer-acks", "all", "--record-size",
               "100").stdout
    assert "Percentiles" in out, out


def test_verifiable_producer_and_consumer(server, made):
    """Acknowledged equals consumed, as the project's own system tests check it."""
    acked = [json.loads(line) for line in java(
        f"{TOOLS}.VerifiableProducer", "--bootstrap-server", server.bootstrap, "--topic", made,
        "--max-messages", "5000", "--acks", "-1").stdout.splitlines()]
    sent = {e["value"] for e in acked if e["name"] == "producer_send_success"}
    assert len(sent) == 5000
    p = subprocess.Popen(
        ["java", "-Xmx256m", "-cp", paths.java_classpath(), f"{TOOLS}.VerifiableConsumer",
         "--bootstrap-server", server.bootstrap, "--topic", made, "--group-id", "g-" + made,
         "--reset-policy", "earliest", "--max-messages", "5000", "--verbose"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    got, deadline = set(), time.monotonic() + 40
    committed = {}      # a commit is of the partitions that the poll before it had records of
    try:
        for line in p.stdout:
            e = json.loads(line)
            if e["name"] == "record_data":
                got.add(e["value"])
            if e["name"] == "offsets_committed":
                assert e["success"]
                committed |= {o["partition"]: o["offset"] for o in e["offsets"]}
            if sum(committed.values()) == 5000 or time.monotonic() > deadline:
                break
    finally:
        p.send_signal(signal.SIGTERM)
        p.stdout.read()
        p.wait(20)
    assert got == sent and sum(committed.values()) == 5000, (len(got), committed)


def test_topic_command(server, topic):
    tool = (f"{TOOLS}.TopicCommand", "--bootstrap-server", server.bootstrap, "--topic", topic)
    java(*tool, "--create", "--partitions", "3", "--config", "retention.ms=7777777")
    out = java(*tool, "--describe").stdout
    assert "PartitionCount: 3" in out and "retention.ms=7777777" in out
    java(*tool, "--alter", "--partitions", "5")
    assert "PartitionCount: 5" in java(*tool, "--describe").stdout
    assert topic in java(f"{TOOLS}.TopicCommand", "--bootstrap-server", server.bootstrap,
                         "--list").stdout.split()
    java(*tool, "--delete")
    r = java(*tool, "--describe", check=False)
    assert r.returncode != 0 and "does not exist" in r.stdout + r.stderr


def test_config_command(server, made):
    tool = ("org.apache.kafka.tools.ConfigCommand", "--bootstrap-server", server.bootstrap, "--entity-type",
            "topics", "--entity-name", made)
    java(*tool, "--alter", "--add-config", "retention.ms=888888,max.message.bytes=2000000")
    out = java(*tool, "--describe").stdout
    assert "retention.ms=888888" in out and "max.message.bytes=2000000" in out
    java(*tool, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in java(*tool, "--describe").stdout
    assert "cleanup.policy=delete" in java(*tool, "--describe", "--all").stdout


def test_offsets_delete_records_log_dirs_versions(server, made, tmp_path):
    produce(server, made, "".join(f"{i}\n" for i in range(300)))
    out = java(f"{TOOLS}.GetOffsetShell", "--bootstrap-server", server.bootstrap, "--topic",
               made).stdout
    assert sum(int(line.rsplit(":", 1)[1]) for line in out.split()) == 300
    for special in ("-2", "earliest", "max-timestamp"):
        java(f"{TOOLS}.GetOffsetShell", "--bootstrap-server", server.bootstrap, "--topic", made,
             "--time", special)
    spec = tmp_path / "delete.json"
    with Client(server.address) as c:
        end = c.end_offset(made, 0)
    spec.write_text(json.dumps({"version": 1, "partitions": [
        {"topic": made, "partition": 0, "offset": end}]}))
    out = java(f"{TOOLS}.DeleteRecordsCommand", "--bootstrap-server", server.bootstrap,
               "--offset-json-file", spec).stdout
    assert f"low_watermark: {end}" in out
    out = java(f"{TOOLS}.LogDirsCommand", "--bootstrap-server", server.bootstrap, "--describe",
               "--topic-list", made).stdout
    assert made in out
    out = java(f"{TOOLS}.BrokerApiVersionsCommand", "--bootstrap-server", server.bootstrap).stdout
    assert "Produce(0)" in out and "ERROR" not in out
    out = java(f"{TOOLS}.ClusterTool", "cluster-id", "--bootstrap-server",
               server.bootstrap).stdout
    assert "Cluster ID" in out


def test_groups_features_metrics_producers_brokers(server, topic):
    with Client(server.address) as c:
        c.create_topic(topic, 1)
    produce(server, topic, "a\nb\n")
    consume(server, topic, 2, "--group", "g-" + topic)

    def tool(name, *args):
        return java(f"{TOOLS}.{name}", "--bootstrap-server", server.bootstrap, *args).stdout

    assert re.search(rf"g-{topic}\s+Classic\s+consumer", tool("GroupsCommand", "--list"))
    tool("FeatureCommand", "describe")
    assert not tool("ClientMetricsCommand", "--list").strip()
    producers = tool("TransactionsCommand", "describe-producers", "--topic", topic, "--partition",
                     "0").splitlines()
    assert len(producers) == 2              # a headline, and the console's producer
    assert "num.partitions=4" in tool("ConfigCommand", "--entity-type", "brokers", "--entity-name",
                                      "1", "--describe", "--all")
