"""Classic consumer groups (cases F), by hand: who joins, who is fenced, what survives."""
import time

import pytest

import raw
from groups import Member, subscription
from raw import Client
from test_fetch import commit, committed, wait_coordinator


@pytest.fixture
def client(server):
    with Client(server.address) as c:
        yield c


@pytest.fixture
def group(client, topic):
    wait_coordinator(client, topic)
    return topic


@pytest.fixture
def clients(server):
    made = []

    def make():
        c = Client(server.address)
        made.append(c)
        return c

    yield make
    for c in made:
        c.close()


def assign_all(leader):
    return {m.MemberId: m.MemberId.encode() for m in leader.joined.Members}


def together(members):
    """All members into one generation, also those that only have an id yet."""
    new = [m for m in members if m.generation == -1]
    for m in new:
        m.send_join()
    for m in members:
        if m not in new:
            while m.heartbeat() == 0:
                time.sleep(0.02)
            m.send_join()
    for m in members:
        r = m.recv_join()
        assert r.ErrorCode == 0, r
    assert len({m.generation for m in members}) == 1
    leader = next(m for m in members if m.joined.Leader == m.id)
    for m in members:
        m.send_sync(assign_all(leader) if m is leader else None)
    for m in members:
        r = m.recv_sync()
        assert r.ErrorCode == 0 and r.Assignment == m.id.encode()
    return leader


def prepare(member):
    """Gets a member id without entering the group (KIP-394)."""
    member.send_join()
    r = member.recv_join()
    assert r.ErrorCode == raw.MEMBER_ID_REQUIRED and r.MemberId
    return member


def test_member_id_is_required_first(client, group):
    prepare(Member(client, group))


def test_one_member(client, group):
    m = Member(client, group).join_alone()
    assert m.generation == 1 and m.heartbeat() == 0
    assert m.joined.ProtocolName == "range" and m.joined.ProtocolType == "consumer"
    assert [x.MemberId for x in m.joined.Members] == [m.id]
    r = m.leave()
    assert r.ErrorCode == 0 and r.Members[0].ErrorCode == 0
    assert m.heartbeat() == raw.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(2, 10))
def test_every_join_version(client, group, version):
    m = Member(client, group, version=version)
    r = m.join()
    assert r.ErrorCode == 0 and r.Leader == m.id and r.GenerationId == 1
    assert m.sync({m.id: b"a"}).Assignment == b"a"
    m.leave()


def test_two_members_share(clients, group):
    a, b = Member(clients(), group).join_alone(), prepare(Member(clients(), group))
    b.send_join()
    for _ in range(100):
        code = a.heartbeat()
        if code == 27:
            break
        time.sleep(0.02)
    assert code == 27                       # REBALANCE_IN_PROGRESS
    a.send_join()
    assert a.recv_join().ErrorCode == 0 and b.recv_join().ErrorCode == 0
    assert a.generation == b.generation == 2
    leader, other = (a, b) if a.joined.Leader == a.id else (b, a)
    assert len(leader.joined.Members) == 2 and other.joined.Members == []
    other.send_sync()                       # waits for the leader's
    leader.send_sync(assign_all(leader))
    assert leader.recv_sync().Assignment == leader.id.encode()
    assert other.recv_sync().Assignment == other.id.encode()
    assert a.heartbeat() == b.heartbeat() == 0


def test_stale_generation(clients, group):
    a, b = Member(clients(), group).join_alone(), prepare(Member(clients(), group))
    together([a, b])
    a.generation -= 1
    assert a.heartbeat() == raw.ILLEGAL_GENERATION
    assert a.sync().ErrorCode == raw.ILLEGAL_GENERATION


def test_leaving_rebalances_the_others(clients, group):
    members = [Member(clients(), group).join_alone()]
    members += [prepare(Member(clients(), group)) for _ in range(2)]
    together(members)
    members[2].leave()
    for m in members[:2]:
        assert m.heartbeat() == 27
    together(members[:2])


def test_a_dead_member_is_expelled(clients, group, server):
    a = Member(clients(), group, session_ms=6000, rebalance_ms=6000).join_alone()
    b = prepare(Member(clients(), group, session_ms=6000, rebalance_ms=6000))
    together([a, b])
    b.client.close()
    deadline = time.monotonic() + 15
    code = 0
    while code == 0 and time.monotonic() < deadline:
        time.sleep(0.2)
        code = a.heartbeat()
    assert code == 27
    a.send_join()
    assert a.recv_join().ErrorCode == 0
    assert a.joined.Leader == a.id and len(a.joined.Members) == 1


def test_protocols_must_meet(clients, group):
    a = Member(clients(), group, protocols=[("range", b""), ("roundrobin", b"")]).join_alone()
    b = Member(clients(), group, protocols=[("sticky", b"")])
    assert b.join().ErrorCode == 23         # INCONSISTENT_GROUP_PROTOCOL
    c = prepare(Member(clients(), group, protocols=[("sticky", b""), ("roundrobin", b"")]))
    c.send_join()
    while a.heartbeat() == 0:
        time.sleep(0.02)
    a.send_join()
    assert a.recv_join().ProtocolName == "roundrobin"
    assert c.recv_join().ProtocolName == "roundrobin"


def test_refusals(client, group):
    assert Member(client, "").join().ErrorCode == 24                    # INVALID_GROUP_ID
    assert Member(client, group, session_ms=1).join().ErrorCode == 26   # INVALID_SESSION_TIMEOUT
    assert Member(client, group, session_ms=10 ** 8).join().ErrorCode == 26
    m = Member(client, group)
    m.id = "never-seen"
    assert m.join().ErrorCode == raw.UNKNOWN_MEMBER_ID
    m.generation = 1
    assert m.heartbeat() == raw.UNKNOWN_MEMBER_ID
    assert m.sync().ErrorCode == raw.UNKNOWN_MEMBER_ID


def test_commit_during_a_rebalance(clients, group, topic):
    client = clients()
    client.create_topic(topic + "-t")
    a = Member(clients(), group).join_alone()
    b = prepare(Member(clients(), group))
    b.send_join()
    while a.heartbeat() == 0:
        time.sleep(0.02)
    # While others join, the old generation's commit still counts; the answer says so.
    code = commit(client, group, topic + "-t", 5, a.generation, a.id)
    assert code in (0, 27)
    a.send_join()
    a.recv_join(), b.recv_join()
    # Between join and sync nobody owns anything: refused.
    code = commit(client, group, topic + "-t", 6, a.generation, a.id)
    assert code == 27


# ---- static members ------------------------------------------------------------------------

def test_b029_static_member_comes_back(clients, group, topic):
    clients().create_topic(topic)
    proto = [("range", subscription(["t"]))]
    a = Member(clients(), group, instance="a", protocols=proto)
    a.join_alone()
    b = Member(clients(), group, instance="b", protocols=proto)
    b.send_join()
    while a.heartbeat() == 0:
        time.sleep(0.02)
    a.send_join()
    a.recv_join(), b.recv_join()
    leader = a if a.joined.Leader == a.id else b
    for m in (a, b):
        m.send_sync(assign_all(leader) if m is leader else None)
    for m in (a, b):
        assert m.recv_sync().ErrorCode == 0
    generation, follower = a.generation, b if leader is a else a
    # The follower's process restarts: an empty member id, the same instance.
    back = Member(clients(), group, instance=follower.instance, protocols=proto)
    back.send_join()
    r = back.recv_join()
    assert (r.ErrorCode, r.GenerationId) == (0, generation)
    assert back.id != follower.id
    assert back.sync().Assignment == follower.id.encode()       # handed back
    assert leader.heartbeat() == 0                              # nobody else noticed
    # The old process still runs: fenced everywhere.
    assert follower.heartbeat() == raw.FENCED_INSTANCE_ID
    assert follower.sync().ErrorCode == raw.FENCED_INSTANCE_ID
    follower.send_join()
    assert follower.client.recv().ErrorCode == raw.FENCED_INSTANCE_ID
    r = follower.client.call(
        "OffsetCommit", 8, GroupId=group, MemberId=follower.id, GroupInstanceId=follower.instance,
        GenerationIdOrMemberEpoch=generation, Topics=[{"Name": topic, "Partitions": [
            {"PartitionIndex": 0, "CommittedOffset": 1}]}])
    assert r.Topics[0].Partitions[0].ErrorCode == raw.FENCED_INSTANCE_ID


def test_b029_static_member_while_joining(clients, group):
    """The instance joins again while the first rebalance is still being prepared."""
    holder = Member(clients(), group).join_alone()
    first = Member(clients(), group, instance="x")
    first.send_join()
    while holder.heartbeat() == 0:
        time.sleep(0.02)
    second = Member(clients(), group, instance="x")
    second.send_join()
    r = first.client.recv()
    assert r.ErrorCode == raw.FENCED_INSTANCE_ID
    holder.send_join()
    assert holder.recv_join().ErrorCode == 0 and second.recv_join().ErrorCode == 0
    assert holder.joined.GenerationId == second.joined.GenerationId == 2


def test_b029_leave_by_instance(clients, group):
    a = Member(clients(), group, instance="a").join_alone()
    admin = clients()
    r = admin.call("LeaveGroup", 4, GroupId=group, Members=[
        {"MemberId": "", "GroupInstanceId": "a"}, {"MemberId": "", "GroupInstanceId": "none"}])
    assert [m.ErrorCode for m in r.Members] == [0, raw.UNKNOWN_MEMBER_ID]
    assert a.heartbeat() in (raw.UNKNOWN_MEMBER_ID, raw.FENCED_INSTANCE_ID)


@pytest.mark.lakestream
def test_b030_new_protocols_are_not_advertised(client):
    have = client.versions()
    for api in ("ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "ShareGroupHeartbeat",
                "StreamsGroupHeartbeat", "AddPartitionsToTxn", "EndTxn", "TxnOffsetCommit",
                "SaslHandshake", "WriteTxnMarkers"):
        assert api not in have, api
    r = client.call("ApiVersions", 3, ClientSoftwareName="raw", ClientSoftwareVersion="1")
    features = {f.Name for f in r.SupportedFeatures}
    assert not features & {"group.version", "transaction.version", "share.version",
                           "streams.version"}


# ---- administration of groups --------------------------------------------------------------

def test_describe_list_delete(client, clients, group):
    m = Member(clients(), group, protocols=[("range", b"meta")]).join_alone()
    for version in range(client.newest("DescribeGroups") + 1):
        g = client.call("DescribeGroups", version, Groups=[group]).Groups[0]
        assert (g.ErrorCode, g.GroupState, g.ProtocolType, g.ProtocolData) == \
            (0, "Stable", "consumer", "range"), version
        assert [(x.MemberId, x.MemberMetadata, x.MemberAssignment) for x in g.Members] == \
            [(m.id, b"meta", b"mine")]
        assert g.Members[0].ClientId == "raw" and "127.0.0.1" in g.Members[0].ClientHost
    listed = {g.GroupId: g for g in client.call("ListGroups", 5).Groups}
    assert (listed[group].GroupState, listed[group].ProtocolType, listed[group].GroupType) == \
        ("Stable", "consumer", "classic")
    only = client.call("ListGroups", 4, StatesFilter=["Empty"])
    assert group not in [g.GroupId for g in only.Groups]
    r = client.call("DeleteGroups", 2, GroupsNames=[group, "no-" + group])
    assert {x.GroupId: x.ErrorCode for x in r.Results} == {group: 68, "no-" + group: 69}
    m.leave()
    assert client.call("DescribeGroups", 5, Groups=[group]).Groups[0].GroupState == "Empty"
    assert client.call("DeleteGroups", 2, GroupsNames=[group]).Results[0].ErrorCode == 0
    g = client.call("DescribeGroups", 5, Groups=[group]).Groups[0]
    assert (g.ErrorCode, g.GroupState) == (0, "Dead")
    g = client.call("DescribeGroups", 6, Groups=[group]).Groups[0]
    assert g.ErrorCode == 69                                            # KIP-1043


def test_offset_delete(client, clients, group, topic):
    name = topic + "-t"
    client.create_topic(name, 2)
    assert commit(client, group, name, 3) == 0
    assert commit(client, group, name, 4, partition=1) == 0
    r = client.call("OffsetDelete", 0, GroupId=group, Topics=[
        {"Name": name, "Partitions": [{"PartitionIndex": 0}]}])
    assert r.ErrorCode == 0 and r.Topics[0].Partitions[0].ErrorCode == 0
    assert committed(client, group) == {(name, 1): (4, "")}
    assert client.call("OffsetDelete", 0, GroupId="no-" + group, Topics=[]).ErrorCode == 69
    m = Member(clients(), group, protocols=[("range", subscription([name]))]).join_alone()
    r = client.call("OffsetDelete", 0, GroupId=group, Topics=[
        {"Name": name, "Partitions": [{"PartitionIndex": 1}]}])
    assert r.Topics[0].Partitions[0].ErrorCode == 86                # GROUP_SUBSCRIBED_TO_TOPIC
    m.leave()


def test_find_coordinator(client, group):
    for version in range(client.newest("FindCoordinator") + 1):
        if version < 4:
            r = client.call("FindCoordinator", version, Key=group)
            got = (r.ErrorCode, r.Host, r.Port)
        else:
            r = client.call("FindCoordinator", version, CoordinatorKeys=[group])
            got = (r.Coordinators[0].ErrorCode, r.Coordinators[0].Host, r.Coordinators[0].Port)
        assert got == (0, *client.address), version


@pytest.mark.parametrize("crash", [False, True])
def test_group_state_survives_a_restart(fresh, topic, crash, peer):
    """Members that reconnect go on in the same generation; nobody has to join again."""
    if crash and peer == "kafka":
        return
    s = fresh({"offsets.topic.num.partitions": 1} if peer == "kafka" else {})
    with Client(s.address) as c:
        c.create_topic(topic)
        wait_coordinator(c, "g")
        m = Member(c, "g", session_ms=30000, protocols=[("range", subscription([topic]))])
        m.join_alone()
        assert commit(c, "g", topic, 3, m.generation, m.id) == 0
    s.restart(kill=crash)
    with Client(s.address) as c:
        wait_coordinator(c, "g")
        m.client = c
        assert m.heartbeat() == 0
        assert commit(c, "g", topic, 4, m.generation, m.id) == 0
        assert committed(c, "g") == {(topic, 0): (4, "")}
        g = c.call("DescribeGroups", 5, Groups=["g"]).Groups[0]
        assert g.GroupState == "Stable" and g.Members[0].MemberAssignment == b"mine"
        m.leave()
