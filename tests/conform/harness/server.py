"""A server process for a test: start, wait until ready, log, stop, kill, restart on the same data.

Every process is ended by its own pid. A stop that does not exit 0 within its time, a sanitizer
report, or a crash is an error of the test that owns the server.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from . import paths

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 45
SANITIZER_WORDS = re.compile(
    rb"AddressSanitizer|LeakSanitizer|ThreadSanitizer|runtime error:|LS_ASSERT|assertion failed",
    re.I)
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:exitcode=99:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1:exitcode=99",
    "TSAN_OPTIONS": "halt_on_error=0:exitcode=99",
}


class ServerError(AssertionError):
    """The server did not start, did not stop cleanly, or reported a fault of its own."""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


class Server:
    """What both servers have in common."""

    name = "server"

    def __init__(self, settings=None, data_dir=None, log_path=None):
        self.settings = dict(settings or {})
        self.owns_dir = data_dir is None
        self.data_dir = Path(data_dir or tempfile.mkdtemp(prefix=f"{self.name}-"))
        self.log_path = Path(log_path or
                             tempfile.mkstemp(prefix=f"{self.name}-", suffix=".log")[1])
        self.process = None
        self.kafka = None
        self.http = None
        self.start_seconds = None

    # -- for subclasses
    def command(self):
        raise NotImplementedError

    def environment(self):
        return dict(os.environ)

    def wait_ready(self, deadline):
        raise NotImplementedError

    # -- for tests
    @property
    def bootstrap(self):
        return self.kafka

    @property
    def address(self):
        host, port = self.kafka.rsplit(":", 1)
        return host, int(port)

    @property
    def pid(self):
        return self.process.pid

    def start(self, preexec=None, wrapper=()):
        assert self.process is None, "already running"
        began = time.monotonic()
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [*wrapper, *self.command()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=self.log, env=self.environment(), preexec_fn=preexec)
        try:
            self.wait_ready(began + START_SECONDS_MAX)
        except BaseException:
            self.kill()
            raise
        self.start_seconds = time.monotonic() - began
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """SIGKILL, as a crash of the machine would: nothing is checked."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._forget()

    def stop(self):
        """SIGTERM; the server must drain and exit 0 without a sanitizer report."""
        if self.process is None:
            return
        exited = self.process.poll()
        if exited is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGABRT)
                self.process.wait()
                self._forget()
                raise ServerError(f"did not stop within {STOP_SECONDS_MAX} s\n{self.tail()}")
        code = self.process.returncode
        self._forget()
        if exited is not None:
            raise ServerError(f"had ended by itself with {code}\n{self.tail()}")
        self.check_log()
        if code != self.clean_exit_code:
            raise ServerError(f"exit code {code} after SIGTERM\n{self.tail()}")

    clean_exit_code = 0

    def check_log(self):
        text = self.log_path.read_bytes()
        found = SANITIZER_WORDS.search(text)
        if found:
            start = max(0, found.start() - 300)
            raise ServerError(text[start:found.start() + 6000].decode(errors="replace"))

    def restart(self, kill=False):
        if kill:
            self.kill()
        else:
            self.stop()
        return self.start()

    def tail(self, size=6000):
        return self.log_path.read_bytes()[-size:].decode(errors="replace")

    def rss_bytes(self):
        with open(f"/proc/{self.pid}/status") as f:
            for line in f:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def remove(self):
        """Deletes the data and the log; call it when the server has stopped."""
        if self.owns_dir:
            shutil.rmtree(self.data_dir, ignore_errors=True)
        self.log_path.unlink(missing_ok=True)

    def _forget(self):
        self.process.stdout.close()
        self.process = None
        self.log.close()


class Lakestream(Server):
    name = "lakestream"

    def __init__(self, settings=None, data_dir=None, binary=None, args=(), log_path=None):
        super().__init__(settings, data_dir, log_path)
        self.binary = binary or paths.SERVER
        self.args = list(args)
        self.listen = None          # after the first start: the same ports again

    def command(self):
        kafka, http = self.listen or ("127.0.0.1:0", "127.0.0.1:0")
        command = [str(self.binary), "serve", "--data-dir", str(self.data_dir),
                   "--kafka", kafka, "--http", http, *self.args]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def environment(self):
        env = dict(os.environ)
        for key, value in SANITIZER_ENV.items():
            env[key] = ":".join(filter(None, [value, env.get(key)]))
        return env

    def wait_ready(self, deadline):
        line = []
        reader = threading.Thread(
            target=lambda out: line.append(out.readline()), args=(self.process.stdout,),
            daemon=True)
        reader.start()
        reader.join(max(0, deadline - time.monotonic()))
        text = line[0].decode() if line else ""
        found = re.match(r"ready kafka=(\S+) http=(\S+)", text)
        if not found:
            raise ServerError(f"not ready, said {text!r}\n{self.tail()}")
        self.kafka, self.http = found.groups()
        self.listen = (self.kafka, self.http)
        # Nothing more is expected on stdout; drain it so that the server never blocks there.
        threading.Thread(target=self._drain, args=(self.process.stdout,), daemon=True).start()

    @staticmethod
    def _drain(out):
        try:
            for _ in out:
                pass
        except ValueError:
            pass

    @property
    def catalog_uri(self):
        return f"http://{self.http}/iceberg"


class Kafka(Server):
    """Apache Kafka, one node that is broker and controller."""

    name = "kafka"
    clean_exit_code = 143           # the JVM's way to say that SIGTERM ended it

    def __init__(self, settings=None, data_dir=None, heap="1g", fast_start=True):
        super().__init__(settings, data_dir)
        self.heap = heap
        self.fast_start = fast_start
        self.properties = self.data_dir / "server.properties"

    def _java(self):
        # C1 only starts in half the time; a benchmark must not use it.
        quick = ["-XX:TieredStopAtLevel=1", "-Xshare:auto"] if self.fast_start else []
        return ["java", f"-Xmx{self.heap}", f"-Xms{self.heap}", *quick, "-cp",
                paths.java_classpath()]

    def format(self):
        if self.properties.exists():
            return
        broker, controller = free_ports(2)
        config = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.data_dir / "log",
            "num.partitions": 4,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "true",
            **self.settings,
        }
        self.properties.write_text("".join(f"{k}={v}\n" for k, v in config.items()))
        self.kafka = f"127.0.0.1:{broker}"
        subprocess.run([*self._java(), "kafka.tools.StorageTool", "format", "-t",
                        "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(self.properties)],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def command(self):
        self.format()
        return [*self._java(), "kafka.Kafka", str(self.properties)]

    def wait_ready(self, deadline):
        threading.Thread(target=Lakestream._drain, args=(self.process.stdout,),
                         daemon=True).start()
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise ServerError(f"kafka ended: {self.process.returncode}\n{self.tail()}")
            try:
                socket.create_connection(self.address, timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise ServerError(f"kafka not ready\n{self.tail()}")

    def check_log(self):
        pass


def new_server(peer="lakestream", settings=None, **kw):
    return {"lakestream": Lakestream, "kafka": Kafka}[peer](settings, **kw)
