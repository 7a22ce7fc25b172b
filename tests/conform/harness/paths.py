"""Where things are: the checkout, the server binary, and the clients that ./dev put in the cache."""
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CACHE = Path(os.environ.get("LAKESTREAM_CACHE", Path.home() / ".cache" / "lakestream"))
SERVER = Path(os.environ.get("LAKESTREAM_BIN", ROOT / "build" / "lakestream"))
JARS = CACHE / "java" / "jars"
NODE_MODULES = CACHE / "npm" / "node_modules"
GO_BIN = CACHE / "go" / "bin"
LIBRDKAFKA = CACHE / "librdkafka"
OLD_KAFKA_PYTHON = CACHE / "venv" / "kafka-python-2.0.2"


def java_classpath():
    return f"{JARS}/*"
