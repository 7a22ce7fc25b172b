"""A classic consumer group's member, by hand."""
import struct

import raw


class Member:
    """join() and sync() are split, so that a test can hold a rebalance open."""

    def __init__(self, client, group, instance=None, protocols=None, version=7,
                 session_ms=10000, rebalance_ms=10000):
        self.client, self.group, self.instance, self.version = client, group, instance, version
        self.protocols = protocols or [("range", subscription(["t"]))]
        self.session_ms, self.rebalance_ms = session_ms, rebalance_ms
        self.id, self.generation, self.assignment = "", -1, b""

    def send_join(self):
        body = {"GroupId": self.group, "SessionTimeoutMs": self.session_ms, "MemberId": self.id,
                "ProtocolType": "consumer",
                "Protocols": [{"Name": n, "Metadata": m} for n, m in self.protocols]}
        if self.version >= 1:
            body["RebalanceTimeoutMs"] = self.rebalance_ms
        if self.version >= 5:
            body["GroupInstanceId"] = self.instance
        self.client.send("JoinGroup", self.version, body)

    def recv_join(self):
        r = self.client.recv()
        if r.ErrorCode in (0, raw.MEMBER_ID_REQUIRED):
            self.id = r.MemberId
        if r.ErrorCode == 0:
            self.generation = r.GenerationId
        self.joined = r
        return r

    def join(self):
        self.send_join()
        r = self.recv_join()
        if r.ErrorCode == raw.MEMBER_ID_REQUIRED:
            self.send_join()
            r = self.recv_join()
        return r

    def send_sync(self, assignments=None):
        body = {"GroupId": self.group, "GenerationId": self.generation, "MemberId": self.id,
                "Assignments": [{"MemberId": m, "Assignment": a}
                                for m, a in (assignments or {}).items()]}
        version = min(self.version, 5)
        if version >= 3:
            body["GroupInstanceId"] = self.instance
        if version >= 5:
            body["ProtocolType"], body["ProtocolName"] = "consumer", self.protocols[0][0]
        self.client.send("SyncGroup", version, body)

    def recv_sync(self):
        r = self.client.recv()
        self.assignment = r.Assignment
        return r

    def sync(self, assignments=None):
        self.send_sync(assignments)
        return self.recv_sync()

    def join_alone(self):
        r = self.join()
        assert r.ErrorCode == 0 and r.Leader == self.id, r
        r = self.sync({self.id: b"mine"})
        assert (r.ErrorCode, r.Assignment) == (0, b"mine"), r
        return self

    def heartbeat(self):
        return self.client.call("Heartbeat", 4, GroupId=self.group, MemberId=self.id,
                                GenerationId=self.generation,
                                GroupInstanceId=self.instance).ErrorCode

    def leave(self):
        r = self.client.call("LeaveGroup", 4, GroupId=self.group, Members=[
            {"MemberId": self.id, "GroupInstanceId": self.instance}])
        return r


def subscription(topics, version=0):
    out = struct.pack(">hi", version, len(topics))
    for t in topics:
        out += struct.pack(">h", len(t)) + t.encode()
    return out + struct.pack(">i", -1)
