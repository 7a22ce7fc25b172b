"""A real server for the run that speaks Azure Blob Storage: Microsoft's Azurite, in memory."""
import subprocess
import tempfile
import time
import uuid

import pytest
from azure.core.exceptions import AzureError
from azure.storage.blob import BlobServiceClient

from harness import paths
from harness import server as servers

# Known to all: every emulator has them.
ACCOUNT = "devstoreaccount1"
KEY = ("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/"
       "KBHBeksoGMGw==")
CONTAINER = "lake"


class Azure:
    def __init__(self):
        port = servers.free_ports(1)[0]
        self.endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        self.connection = (f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};"
                           f"AccountKey={KEY};BlobEndpoint={self.endpoint};")
        self.log = tempfile.NamedTemporaryFile(prefix="azurite-", suffix=".log")
        self.dir = tempfile.TemporaryDirectory(prefix="azurite-")
        self.process = subprocess.Popen(
            ["node", paths.CACHE / "azurite" / "node_modules" / ".bin" / "azurite-blob",
             "--inMemoryPersistence", "--blobHost", "127.0.0.1", "--blobPort", str(port),
             "--silent", "--disableTelemetry", "--skipApiVersionCheck"],
            cwd=self.dir.name, stdout=self.log, stderr=self.log)
        self.client = BlobServiceClient.from_connection_string(self.connection, retry_total=0)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.client.create_container(CONTAINER)
                return
            except AzureError:
                assert self.process.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.dir.cleanup()
        self.log.close()


@pytest.fixture(scope="session")
def azure():
    a = Azure()
    yield a
    a.stop()


@pytest.fixture
def prefix():
    return f"p-{uuid.uuid4().hex[:8]}/x"


@pytest.fixture
def settings(azure, prefix):
    return {"store.url": f"az://{CONTAINER}/{prefix}", "store.azure.endpoint": azure.endpoint,
            "store.azure.account": ACCOUNT, "store.azure.key": KEY}
