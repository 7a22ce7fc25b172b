"""librdkafka's own broker tests, by the list tests/conform/librdkafka/allow.txt."""
import re

import pytest

from harness import paths
from harness.run import run

LIST = paths.ROOT / "tests" / "conform" / "librdkafka" / "allow.txt"
# Tests that expect a broker which makes no topics by itself.
NO_AUTO_CREATE = {"0107", "0111"}


def listed():
    """[(test, how)]; `how` is a word, or "no" with its reason."""
    lines = [line.split(None, 1) for line in LIST.read_text().splitlines()
             if line and line[0] != "#"]
    return [(test, how.strip()) for test, how in lines]


def cases():
    for test, how in listed():
        if how.startswith("no:"):
            continue
        assert how in ("quick", "full", "long", "long-full"), (test, how)
        yield pytest.param(test, "full" not in how,
                           marks=[pytest.mark.long] if how.startswith("long") else [])


def runner(server, tmp_path, test, quick, scenario):
    tests = paths.LIBRDKAFKA / "tests"
    number, _, subtest = test.partition("/")
    config = tmp_path / "test.conf"
    config.write_text(f"bootstrap.servers={server.bootstrap}\ntest.timeout.multiplier=2\n")
    # It leaves tests out where it finds CI in the environment.
    return run("env", "-u", "CI", "./test-runner", "-L", *["-Q"] * quick, "-E", "-p1",
               cwd=tests, seconds=300, check=False, env={
                   "LD_LIBRARY_PATH": str(tests), "RDKAFKA_TEST_CONF": str(config),
                   "TESTS": number, "TEST_KAFKA_VERSION": "4.1.0", "TEST_SCENARIO": scenario,
                   **({"SUBTESTS": subtest} if subtest else {})})


@pytest.mark.parametrize("test, quick", cases())
def test_librdkafka(request, tmp_path, test, quick):
    number, _, subtest = test.partition("/")
    scenario = "default"
    if number in NO_AUTO_CREATE:
        scenario = "noautocreate"
        server = request.getfixturevalue("fresh")({"auto.create.topics.enable": "false"})
    else:
        server = request.getfixturevalue("server")
    r = runner(server, tmp_path, test, quick, scenario)
    out = re.sub(r"\x1b\[[0-9;]*m", "", r.stdout + r.stderr)
    ran = re.findall(rf"^\| +{number}_\w+ +\| +(\w+) +\| +([0-9.]+)s", out, re.M)
    assert r.returncode == 0 and ran and {"PASSED"} == {how for how, _ in ran} - {"SKIPPED"}, \
        out[-4000:]
    assert any(float(seconds) > 0 for _, seconds in ran), "it returned without doing anything"
    if subtest:
        assert f"{subtest}" in out, "no such subtest"


def test_every_broker_test_is_on_the_list():
    source = (paths.LIBRDKAFKA / "tests" / "test.c").read_text()
    table = source[source.index("struct test tests[] = {"):]
    table = table[:table.index("{NULL}")]
    flags = re.findall(r"_TEST\((\d{4})_\w+,\s*([\w |]+)", table)
    broker = {n for n, flag in flags if not re.search("TEST_F_(LOCAL|MANUAL)", flag)}
    assert len(broker) > 90
    assert {test.partition("/")[0] for test, _ in listed()} == broker
