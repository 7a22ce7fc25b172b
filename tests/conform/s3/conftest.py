"""A real S3 server for the run: Ceph's RadosGW (radosgw.sh)."""
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

HERE = Path(__file__).parent
from harness import server as servers

ACCESS, SECRET, REGION, BUCKET = "testak", "testsk", "us-east-1", "lake"


class S3:
    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="radosgw-"))
        port = servers.free_ports(1)[0]
        # Its monitor takes the two ports above; a range far from what others take.
        self.port = 20000 + port % 9000 // 3 * 3
        self.endpoint = f"http://127.0.0.1:{self.port}"
        subprocess.run(["bash", HERE / "radosgw.sh", "start", self.dir, str(self.port)],
                       check=True)

    def pid(self, name="client.rgw"):
        return int((self.dir / "run" / f"{name}.pid").read_text())

    def stop(self):
        subprocess.run(["bash", HERE / "radosgw.sh", "stop", self.dir], check=True)
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.with_name(self.dir.name + ".log").unlink(missing_ok=True)


@pytest.fixture(scope="session")
def s3():
    s = S3()
    yield s
    s.stop()


@pytest.fixture
def prefix():
    return f"p-{uuid.uuid4().hex[:8]}/x"


@pytest.fixture
def lake(s3, prefix, fresh):
    """A factory of servers on this test's prefix: lake(settings…, more of `fresh`)."""
    def make(settings=None, **kw):
        return fresh({"store.url": f"s3://{BUCKET}/{prefix}", "store.s3.endpoint": s3.endpoint,
                      "store.s3.access.key": ACCESS, "store.s3.secret.key": SECRET,
                      **(settings or {})}, **kw)
    return make
