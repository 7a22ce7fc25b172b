"""What servers stand on, as real programs on this machine: an S3 server (Ceph's RadosGW, all in
memory) and PostgreSQL. Each has a folder of its own, is ended by the numbers of its own processes,
and can be paused or stopped to see what a server does then.
"""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from . import paths

CONFORM = paths.ROOT / "tests" / "conform"
ACCESS, SECRET, REGION, BUCKET = "testak", "testsk", "us-east-1", "lake"


def free_run(count):
    """The first of `count` free ports in a row, in a range far from what others are given."""
    start = 20000 + os.getpid() * 7 % 9000
    for first in range(start, start + 9000, count):
        sockets = [socket.socket() for _ in range(count)]
        try:
            for i, s in enumerate(sockets):
                s.bind(("127.0.0.1", first + i))
            return first
        except OSError:
            continue
        finally:
            for s in sockets:
                s.close()
    raise AssertionError(f"no {count} free ports in a row")


class RadosGW:
    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="radosgw-"))
        self.script = CONFORM / "s3" / "radosgw.sh"
        self.port = free_run(3)             # its monitor takes the two above
        self.endpoint = f"http://127.0.0.1:{self.port}"
        subprocess.run(["bash", self.script, "start", self.dir, str(self.port)], check=True,
                       start_new_session=True)

    def pid(self, name="client.rgw"):
        return int((self.dir / "run" / f"{name}.pid").read_text())

    def pause(self):
        """It answers nobody, and accepts connections as the kernel does for it."""
        os.kill(self.pid(), signal.SIGSTOP)

    def resume(self):
        os.kill(self.pid(), signal.SIGCONT)

    def settings(self, prefix):
        return {"store.url": f"s3://{BUCKET}/{prefix}", "store.s3.endpoint": self.endpoint,
                "store.s3.access.key": ACCESS, "store.s3.secret.key": SECRET}

    def objects(self, prefix):
        """{path below the bucket: bytes} of what lies under a prefix."""
        import pyarrow.fs
        fs = pyarrow.fs.S3FileSystem(access_key=ACCESS, secret_key=SECRET, region=REGION,
                                     endpoint_override=self.endpoint)
        found = fs.get_file_info(pyarrow.fs.FileSelector(f"{BUCKET}/{prefix}", recursive=True,
                                                         allow_not_found=True))
        return {f.path.removeprefix(f"{BUCKET}/"): f.size for f in found if f.is_file}

    def stop(self):
        subprocess.run(["bash", self.script, "stop", self.dir], check=True)
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.with_name(self.dir.name + ".log").unlink(missing_ok=True)


class PostgreSQL:
    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="postgres-"))
        self.script = CONFORM / "postgres" / "postgres.sh"
        self.port = free_run(1)
        self.running = False
        self._run("start", self.dir, str(self.port))
        self.running = True

    def _run(self, *args):
        # What it starts must not hold our pipes open.
        subprocess.run(["bash", self.script, *args], check=True, stdin=subprocess.DEVNULL,
                       start_new_session=True)

    def url(self, schema):
        return (f"postgres://postgres@127.0.0.1:{self.port}/postgres"
                f"?options=-csearch_path%3D{schema}")

    def sql(self, statement, schema="public"):
        """[row, a list of texts] of a query."""
        r = subprocess.run(
            ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", "postgres",
             "-XAtq", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c",
             f"SET search_path = {schema}; {statement}"],
            capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stderr
        return [line.split("\t") for line in r.stdout.splitlines()]

    def halt(self):
        """Sessions are ended, new ones refused."""
        self._run("stop", self.dir)
        self.running = False

    def restart(self):
        """Also of one that was halted."""
        self._run("restart", self.dir)
        self.running = True

    def log(self):
        return (self.dir / "log").read_text(errors="replace")

    def stop(self):
        if self.running:
            self.halt()
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.with_name(self.dir.name + ".log").unlink(missing_ok=True)
