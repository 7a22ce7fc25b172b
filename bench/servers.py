"""The two servers of a benchmark, each in the two durabilities that are compared."""
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "conform"))

from harness import paths, server  # noqa: E402

# What Apache Kafka's own start script passes to the JVM.
KAFKA_JVM = ["-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
             "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
             "-Djava.awt.headless=true"]


class Probe:
    """Numbers of a running server's process, from /proc."""

    def proc(self, name):
        return Path(f"/proc/{self.pid}/{name}").read_text()

    def memory_mb(self, field="VmRSS"):
        for line in self.proc("status").splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
        raise KeyError(field)

    def cpu_s(self):
        """Of all threads, the ended ones too."""
        fields = self.proc("stat").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Ours(Probe, server.Lakestream):
    def __init__(self, sync):
        super().__init__({} if sync else {"wal.sync": "off"})
        self.listen = tuple(f"127.0.0.1:{port}" for port in server.free_ports(2))
        self.kafka, self.http = self.listen


class Kafka(Probe, server.Kafka):
    """Default settings; what a single node must say beside them is how many replicas there are."""

    def __init__(self, sync):
        super().__init__({"log.flush.interval.messages": 1} if sync else {})

    def _java(self):
        return ["java", *KAFKA_JVM, "-cp", paths.java_classpath()]

    def format(self):
        defaults = ("num.partitions", "offsets.topic.num.partitions", "auto.create.topics.enable",
                    "group.initial.rebalance.delay.ms")
        super().format()
        kept = [line for line in self.properties.read_text().splitlines()
                if not line.startswith(defaults)]
        self.properties.write_text("\n".join(kept) + "\n")


def kafka_version():
    jar = next(paths.JARS.glob("kafka-server-common-*.jar"))
    return jar.stem.rsplit("-", 1)[1]
