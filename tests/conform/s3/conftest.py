"""A real S3 server for the run: Ceph's RadosGW (radosgw.sh)."""
import uuid

import pytest

from harness.services import RadosGW


@pytest.fixture(scope="session")
def s3():
    s = RadosGW()
    yield s
    s.stop()


@pytest.fixture
def prefix():
    return f"p-{uuid.uuid4().hex[:8]}/x"


@pytest.fixture
def lake(s3, prefix, fresh):
    """A factory of servers on this test's prefix: lake(settings…, more of `fresh`)."""
    def make(settings=None, **kw):
        return fresh({**s3.settings(prefix), **(settings or {})}, **kw)
    return make
