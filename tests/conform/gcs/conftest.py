"""A server for the run that speaks Google Cloud Storage: fake-gcs-server, in memory. Its conditions
are exact: they are looked at under the lock of the write."""
import json
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

import pytest

from harness import paths
from harness import server as servers

BUCKET = "lake"


class Gcs:
    def __init__(self):
        port = servers.free_ports(1)[0]
        self.endpoint = f"http://127.0.0.1:{port}"
        self.log = tempfile.NamedTemporaryFile(prefix="gcs-", suffix=".log")
        self.process = subprocess.Popen(
            [paths.CACHE / "gcs" / "fake-gcs-server", "-scheme", "http", "-host", "127.0.0.1",
             "-port", str(port), "-backend", "memory", "-log-level", "error"],
            stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.ask("/storage/v1/b?project=p", {"name": BUCKET})
                return
            except urllib.error.URLError:
                assert self.process.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)

    def ask(self, path, body=None):
        request = urllib.request.Request(
            self.endpoint + path, data=json.dumps(body).encode() if body else None,
            headers={"content-type": "application/json"})
        with urllib.request.urlopen(request) as r:
            return json.loads(r.read())

    def names(self, prefix):
        found = self.ask(f"/storage/v1/b/{BUCKET}/o?prefix={urllib.parse.quote(prefix, safe='')}")
        return [o["name"] for o in found.get("items", [])]

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


@pytest.fixture(scope="session")
def gcs():
    g = Gcs()
    yield g
    g.stop()


@pytest.fixture
def prefix():
    return f"p-{uuid.uuid4().hex[:8]}/x"


@pytest.fixture
def settings(gcs, prefix):
    return {"store.url": f"gs://{BUCKET}/{prefix}", "store.gcs.endpoint": gcs.endpoint}
