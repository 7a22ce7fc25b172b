"""franz-go: client cases of our own (tests/conform/go) and its own kgo tests, by an allow-list."""
import re
from pathlib import Path

import pytest

from harness import paths
from harness.run import run

MAIN = paths.ROOT / "tests" / "conform" / "go" / "main.go"
CASES = re.findall(r'^\t"(\w+)": func', MAIN.read_text(), re.M)

KGO = [line.split(None, 1) for line in
       (MAIN.parent / "kgo_allow.txt").read_text().splitlines() if line and line[0] != "#"]


@pytest.mark.parametrize("case", CASES)
def test_franz(server, topic, case):
    run(paths.GO_BIN / "franz", server.bootstrap, topic, case)


def kgo_cases():
    for name, how in KGO:
        assert how in ("quick", "long") or how.startswith("no:"), (name, how)
        if not how.startswith("no:"):
            yield pytest.param(name, marks=[pytest.mark.long] if how == "long" else [])


@pytest.mark.parametrize("name", kgo_cases())
def test_kgo(server, name):
    seconds = 80
    r = run(paths.GO_BIN / "kgo.test", f"-test.run=^{name}$", "-test.count=1", "-test.v",
            f"-test.timeout={seconds}s", seconds=seconds + 10, env={
                "KGO_SEEDS": server.bootstrap, "KGO_TEST_RF": "1", "KGO_LOG_LEVEL": "none",
                "KGO_TEST_RECORDS": "5000"})
    assert f"--- PASS: {name}" in r.stdout, r.stdout[-3000:]


def test_every_broker_test_is_on_the_list():
    source = Path(run("go", "list", "-f", "{{.Dir}}", "github.com/twmb/franz-go/pkg/kgo",
                      cwd=paths.CACHE / "go").stdout.strip())
    functions = [f for file in source.glob("*_test.go")
                 for f in re.split(r"(?m)^func (?=Test)", file.read_text())[1:]]
    broker = {f[:f.index("(")] for f in functions if re.search(r"newTestClient\(|tmpTopic\(", f)}
    assert len(broker) > 30 and broker <= {name for name, _ in KGO}
