"""docs/protocols/kafka.md says what the server does."""
import re

import pytest

import raw
from harness import paths
from raw import Client

pytestmark = pytest.mark.lakestream
TEXT = (paths.ROOT / "docs" / "protocols" / "kafka.md").read_text()


def test_table_of_apis_is_what_apiversions_answers(server):
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)–(\d+) \|", TEXT, re.M)
    with Client(server.address) as c:
        r = c.call("ApiVersions", 4, ClientSoftwareName="t", ClientSoftwareVersion="1")
    served = [(k.ApiKey, k.MinVersion, k.MaxVersion) for k in r.ApiKeys]
    assert [(int(k), int(low), int(high)) for k, _, low, high in rows] == sorted(served)
    assert {name for _, name, _, _ in rows} == {raw.api_names()[k] for k, _, _ in served}


def test_every_topic_setting_is_explained(server, topic):
    with Client(server.address) as c:
        c.create_topic(topic)
        r = c.call("DescribeConfigs", 4, IncludeSynonyms=True, IncludeDocumentation=False,
                   Resources=[{"ResourceType": 2, "ResourceName": topic,
                               "ConfigurationKeys": None}])
    table = TEXT[TEXT.index("| topic setting |"):]
    table = table[:table.index("\n\n")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    explained = {name: default for names, default, _ in rows
                 for name in re.findall(r"`([^`]+)`", names)}
    settings = {e.Name: e for e in r.Results[0].Configs}
    assert settings.keys() == explained.keys()
    for name, default in explained.items():
        if default:
            assert default.strip("`") in {s.Name for s in settings[name].Synonyms}, name
