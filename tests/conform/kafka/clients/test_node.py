"""kafkajs and @platformatic/kafka (each with its own protocol code); the cases are in the .mjs
files, one process each."""
import re
from pathlib import Path

import pytest

from harness.run import node

HERE = Path(__file__).parent
OURS_ONLY = {"replicationFactors"}


def cases():
    for script in ("kafkajs.mjs", "platformatic.mjs"):
        for case in re.findall(r"^  async (\w+) \(\) \{", (HERE / script).read_text(), re.M):
            marks = [pytest.mark.lakestream] if case in OURS_ONLY else []
            yield pytest.param(script, case, marks=marks, id=f"{script[:-4]}-{case}")


@pytest.mark.parametrize("script, case", cases())
def test_node(server, topic, script, case):
    node(HERE / script, server.bootstrap, topic, case,
         env={"KAFKAJS_NO_PARTITIONER_WARNING": "1"})
