"""A byte-level Kafka client: frames, any version of any message, record batches built by hand.

The messages are read from Apache Kafka's own definitions (the jar of its clients), by a small
interpreter that shares nothing with the server under test. Fields have Kafka's names:

    c = Client(("127.0.0.1", 9092))
    r = c.call("ListOffsets", 7, ReplicaId=-1, Topics=[{"Name": "t", "Partitions": [...]}])
    r.Topics[0].Partitions[0].Offset
"""
import gzip
import io
import json
import re
import socket
import struct
import time
import uuid
import zipfile
from functools import lru_cache
from typing import NamedTuple, Optional

import cramjam
import lz4.frame
from crc32c import crc32c

from harness import paths

NONE, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNKNOWN_TOPIC = 0, 1, 2, 3
MESSAGE_TOO_LARGE, INVALID_TOPIC, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID = 10, 17, 22, 25
UNSUPPORTED_VERSION, TOPIC_EXISTS, INVALID_PARTITIONS = 35, 36, 37
INVALID_REPLICATION_FACTOR, INVALID_CONFIG, INVALID_REQUEST = 38, 40, 42
OUT_OF_ORDER_SEQUENCE, DUPLICATE_SEQUENCE, INVALID_PRODUCER_EPOCH = 45, 46, 47
INVALID_TXN_STATE, FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH = 48, 70, 71
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, UNSUPPORTED_COMPRESSION = 74, 75, 76
FENCED_INSTANCE_ID, INVALID_RECORD, UNKNOWN_TOPIC_ID, MEMBER_ID_REQUIRED = 82, 87, 100, 79


# ---- messages ------------------------------------------------------------------------------

class Obj(dict):
    """A decoded struct: fields by attribute."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@lru_cache(maxsize=None)
def _definitions():
    """(api name, "request" | "response") -> definition; and api name -> key."""
    jar = next(paths.JARS.glob("kafka-clients-*.jar"))
    found, keys = {}, {}
    with zipfile.ZipFile(jar) as z:
        for name in z.namelist():
            if not re.fullmatch(r"common/message/\w+\.json", name):
                continue
            text = re.sub(r"^\s*//.*$", "", z.read(name).decode(), flags=re.M)
            d = json.loads(text)
            if d["type"] in ("request", "response"):
                api = re.sub("(Request|Response)$", "", d["name"])
                found[api, d["type"]] = d
                keys[api] = d["apiKey"]
    return found, keys


def api_key(api):
    return _definitions()[1][api]


def api_names():
    return {key: api for api, key in _definitions()[1].items()}


@lru_cache(maxsize=None)
def _range(text):
    if not text or text == "none":
        return (0, -1)
    if text.endswith("+"):
        return (int(text[:-1]), 32767)
    low, _, high = text.partition("-")
    return (int(low), int(high or low))


def _in(version, text):
    low, high = _range(text)
    return low <= version <= high


def valid_versions(api):
    low, high = _range(_definitions()[0][api, "request"]["validVersions"])
    return range(low, high + 1)


def is_flexible(api, version):
    return _in(version, _definitions()[0][api, "request"].get("flexibleVersions", "none"))


FIXED = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I",
         "int64": ">q", "float64": ">d"}


def uvarint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def varint(n):
    return uvarint((n << 1) ^ (n >> 63) if n >= 0 else ((-n) << 1) - 1)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if n < 0 or self.at + n > len(self.data):
            raise ValueError(f"{n} bytes wanted at {self.at} of {len(self.data)}")
        piece = self.data[self.at:self.at + n]
        self.at += n
        return piece

    def fixed(self, fmt):
        return struct.unpack(fmt, self.take(struct.calcsize(fmt)))[0]

    def uvarint(self):
        n = shift = 0
        while True:
            b = self.take(1)[0]
            n |= (b & 0x7F) << shift
            if b < 0x80:
                return n
            shift += 7

    def varint(self):
        n = self.uvarint()
        return (n >> 1) ^ -(n & 1)

    def left(self):
        return len(self.data) - self.at


class Message:
    """Encodes and decodes one message at one version."""

    def __init__(self, api, kind, version, extra_tags=()):
        self.definition = _definitions()[0][api, kind]
        self.version = version
        self.flexible = _in(version, self.definition.get("flexibleVersions", "none"))
        self.structs = {s["name"]: s["fields"] for s in self.definition.get("commonStructs", ())}
        self.extra_tags = list(extra_tags)

    # -- encoding
    def encode(self, body):
        return self._encode_struct(self.definition["fields"], body)

    def _present(self, field):
        return _in(self.version, field["versions"])

    def _tagged(self, field):
        return "tag" in field and _in(self.version, field.get("taggedVersions", "none"))

    def _fields_of(self, field):
        return field.get("fields") or self.structs[field["type"].removeprefix("[]")]

    def _default(self, field):
        if "default" in field and field["default"] not in ("null", None):
            d = field["default"]
            if field["type"] == "string":
                return d
            if field["type"] == "bool":
                return str(d).lower() == "true"
            return float(d) if field["type"] == "float64" else int(str(d), 0)
        if field.get("default") == "null":
            return None
        kind = field["type"]
        if kind.startswith("[]"):
            return []
        if kind in FIXED:
            return 0
        return {"bool": False, "string": "", "uuid": uuid.UUID(int=0), "bytes": b"",
                "records": None}.get(kind, {})

    def _encode_struct(self, fields, body):
        unknown = set(body) - {f["name"] for f in fields}
        assert not unknown, f"no such fields: {unknown}"
        out, tags = bytearray(), []
        for f in fields:
            if not self._present(f):
                continue
            value = body[f["name"]] if f["name"] in body else self._default(f)
            if self._tagged(f):
                if f["name"] in body:
                    tags.append((f["tag"], self._encode_value(f, f["type"], value)))
            else:
                out += self._encode_value(f, f["type"], value)
        if self.flexible:
            out += encode_tags(sorted(tags) + self.extra_tags)
        return bytes(out)

    def _encode_value(self, f, kind, value):
        flexible = self.flexible and f.get("flexibleVersions") != "none"
        if kind in FIXED:
            return struct.pack(FIXED[kind], value)
        if kind == "bool":
            return b"\1" if value else b"\0"
        if kind == "uuid":
            return value.bytes
        if kind.startswith("[]"):
            return self._encode_array(f, kind[2:], value, flexible)
        if kind in ("string", "bytes", "records"):
            if isinstance(value, str):
                value = value.encode()
            if flexible:
                return b"\0" if value is None else uvarint(len(value) + 1) + value
            width = ">h" if kind == "string" else ">i"
            if value is None:
                return struct.pack(width, -1)
            return struct.pack(width, len(value)) + value
        if _in(self.version, f.get("nullableVersions", "none")):
            return b"\xff" if value is None else \
                b"\1" + self._encode_struct(self._fields_of(f), value)
        return self._encode_struct(self._fields_of(f), value)

    def _encode_array(self, f, kind, values, flexible):
        if values is None:
            return b"\0" if flexible else struct.pack(">i", -1)
        head = uvarint(len(values) + 1) if flexible else struct.pack(">i", len(values))
        return head + b"".join(
            self._encode_struct(self._fields_of(f), v) if isinstance(v, dict)
            else self._encode_value({**f, "nullableVersions": "none"}, kind, v) for v in values)

    # -- decoding
    def decode(self, data):
        r = Reader(data)
        body = self._decode_struct(r, self.definition["fields"])
        assert r.left() == 0, f"{r.left()} bytes after {self.definition['name']} v{self.version}"
        return body

    def _decode_struct(self, r, fields):
        body, tagged = Obj(), {}
        for f in fields:
            if not self._present(f):
                continue
            if self._tagged(f):
                tagged[f["tag"]] = f
                body[f["name"]] = self._default(f)
            else:
                body[f["name"]] = self._decode_value(r, f, f["type"])
        if self.flexible:
            for _ in range(r.uvarint()):
                tag, size = r.uvarint(), r.uvarint()
                piece = Reader(r.take(size))
                if tag in tagged:
                    f = tagged[tag]
                    body[f["name"]] = self._decode_value(piece, f, f["type"])
                    assert piece.left() == 0
        return body

    def _decode_value(self, r, f, kind):
        flexible = self.flexible and f.get("flexibleVersions") != "none"
        if kind in FIXED:
            return r.fixed(FIXED[kind])
        if kind == "bool":
            return r.take(1) != b"\0"
        if kind == "uuid":
            return uuid.UUID(bytes=bytes(r.take(16)))
        if kind.startswith("[]"):
            n = r.uvarint() - 1 if flexible else r.fixed(">i")
            if n < 0:
                return None
            inner = kind[2:]
            is_struct = inner not in FIXED and inner not in ("string", "bytes", "uuid", "bool")
            return [self._decode_struct(r, self._fields_of(f)) if is_struct
                    else self._decode_value(r, {**f, "nullableVersions": "none"}, inner)
                    for _ in range(n)]
        if kind in ("string", "bytes", "records"):
            if flexible:
                n = r.uvarint() - 1
            else:
                n = r.fixed(">h" if kind == "string" else ">i")
            if n < 0:
                return None
            piece = bytes(r.take(n))
            return piece.decode() if kind == "string" else piece
        if _in(self.version, f.get("nullableVersions", "none")):
            if r.fixed(">b") < 0:
                return None
        return self._decode_struct(r, self._fields_of(f))


def encode_tags(tags):
    return uvarint(len(tags)) + b"".join(uvarint(t) + uvarint(len(d)) + d for t, d in tags)


# ---- connections ---------------------------------------------------------------------------

class Closed(ConnectionError):
    """The server closed the connection."""


class Client:
    def __init__(self, address, client_id="raw", timeout=30):
        if isinstance(address, str):
            host, port = address.rsplit(":", 1)
            address = (host, int(port))
        self.address, self.client_id = address, client_id
        self.socket = socket.create_connection(address, timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation = 0
        self.waiting = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def header(self, key, version, flexible, extra_tags=()):
        self.correlation += 1
        name = self.client_id.encode()
        head = struct.pack(">hhih", key, version, self.correlation, len(name)) + name
        return head + (encode_tags(list(extra_tags)) if flexible else b"")

    def send_frame(self, payload):
        self.socket.sendall(struct.pack(">i", len(payload)) + payload)

    def request(self, api, version, body, extra_tags=()):
        """The bytes of a request, without the frame's length."""
        m = Message(api, "request", version, extra_tags)
        return self.header(api_key(api), version, m.flexible, extra_tags) + m.encode(body)

    def send(self, api, version, body, extra_tags=()):
        payload = self.request(api, version, body, extra_tags)
        self.waiting[self.correlation] = (api, version)
        self.send_frame(payload)
        return self.correlation

    def recv_exactly(self, n):
        pieces = bytearray()
        while len(pieces) < n:
            try:
                piece = self.socket.recv(min(n - len(pieces), 1 << 20))
            except ConnectionError as e:
                raise Closed(str(e)) from None
            if not piece:
                raise Closed(f"closed after {len(pieces)} of {n} bytes")
            pieces += piece
        return bytes(pieces)

    def recv_frame(self):
        return self.recv_exactly(struct.unpack(">i", self.recv_exactly(4))[0])

    def recv(self, version=None):
        """The next answer, in the order of the requests; `version` overrides the body's."""
        r = Reader(self.recv_frame())
        correlation = r.fixed(">i")
        first = next(iter(self.waiting))
        assert correlation == first, f"answer {correlation}, expected {first}: out of order"
        api, asked = self.waiting.pop(correlation)
        version = asked if version is None else version
        if api != "ApiVersions" and is_flexible(api, version):
            for _ in range(r.uvarint()):
                r.uvarint()
                r.take(r.uvarint())
        return Message(api, "response", version).decode(r.data[r.at:])

    def call(self, api, version, /, extra_tags=(), **body):
        self.send(api, version, body, extra_tags)
        return self.recv()

    def versions(self):
        """api name -> (min, max) as the server advertises."""
        names = api_names()
        r = self.call("ApiVersions", 0)
        assert r.ErrorCode == 0
        return {names.get(k.ApiKey, str(k.ApiKey)): (k.MinVersion, k.MaxVersion)
                for k in r.ApiKeys}

    def newest(self, api):
        """Both ends' newest version of an API."""
        if not hasattr(self, "_versions"):
            self._versions = self.versions()
        return min(self._versions[api][1], valid_versions(api)[-1])

    def until_ready(self, api, version, /, **body):
        """A call that Kafka answers with "loading" or "not available" just after its start."""
        for _ in range(400):
            r = self.call(api, version, **body)
            if r.get("ErrorCode", 0) not in (14, 15, 16):
                return r
            time.sleep(0.05)
        return r

    # -- frequent requests
    def create_topic(self, name, partitions=1, configs=None, replication=1, version=7):
        r = self.call("CreateTopics", version, timeoutMs=30000, Topics=[{
            "Name": name, "NumPartitions": partitions, "ReplicationFactor": replication,
            "Configs": [{"Name": k, "Value": str(v)} for k, v in (configs or {}).items()]}])
        t = r.Topics[0]
        assert t.ErrorCode == 0, (t.ErrorCode, t.ErrorMessage)
        self.wait_topic(name, partitions)
        return t.TopicId

    def wait_topic(self, name, partitions):
        """Kafka answers CreateTopics before its broker serves the partitions."""
        for _ in range(500):
            t = self.metadata([name]).Topics[0]
            if t.ErrorCode == 0 and len(t.Partitions) == partitions and \
                    all(self.list_offset(name, -1, p).ErrorCode == 0 for p in range(partitions)):
                return
            time.sleep(0.02)
        raise AssertionError(f"topic {name} did not appear")

    def delete_topic(self, name):
        r = self.call("DeleteTopics", 5, TopicNames=[name], TimeoutMs=30000)
        assert r.Responses[0].ErrorCode == 0, r

    def metadata(self, names, version=12, auto_create=False):
        topics = None if names is None else [{"Name": n} for n in names]
        return self.call("Metadata", version, Topics=topics,
                         **({"AllowAutoTopicCreation": auto_create} if version >= 4 else {}))

    def topic_id(self, name):
        return self.metadata([name]).Topics[0].TopicId

    def produce_many(self, topic, batches, version=9, acks=-1, timeout_ms=30000):
        """batches: {partition: bytes}. -> {partition: PartitionResponse}"""
        data = [{"Index": p, "Records": b} for p, b in batches.items()]
        t = {"TopicId": self.topic_id(topic)} if version >= 13 else {"Name": topic}
        r = self.call("Produce", version, Acks=acks, TimeoutMs=timeout_ms,
                      TopicData=[{**t, "PartitionData": data}])
        return {p.Index: p for p in r.Responses[0].PartitionResponses}

    def produce(self, topic, data, partition=0, **kw):
        return self.produce_many(topic, {partition: data}, **kw)[partition]

    def fetch_body(self, topic, partition, offset, version=12, max_wait=500, min_bytes=1,
                   max_bytes=1 << 26, partition_max_bytes=1 << 26, isolation=0, session=0,
                   epoch=-1, topic_id=None, forgotten=(), leader_epoch=-1, rack=""):
        partitions = partition if isinstance(partition, dict) else {partition: offset}
        part = [{"Partition": p, "FetchOffset": o, "PartitionMaxBytes": partition_max_bytes,
                 "CurrentLeaderEpoch": leader_epoch} for p, o in partitions.items()]
        name = {"TopicId": topic_id} if version >= 13 else {"Topic": topic}
        body = {"MaxWaitMs": max_wait, "MinBytes": min_bytes,
                "Topics": [{**name, "Partitions": part}] if part else []}
        if version < 15:
            body["ReplicaId"] = -1
        if version >= 3:
            body["MaxBytes"] = max_bytes
        if version >= 4:
            body["IsolationLevel"] = isolation
        if version >= 7:
            body["SessionId"], body["SessionEpoch"] = session, epoch
            if forgotten:
                body["ForgottenTopicsData"] = [{**name, "Partitions": list(forgotten)}]
        if version >= 11:
            body["RackId"] = rack
        return body

    def fetch_raw(self, topic, partition, offset, version=12, **kw):
        if version >= 13:
            kw.setdefault("topic_id", self.topic_id(topic))
        return self.call("Fetch", version, **self.fetch_body(topic, partition, offset,
                                                             version, **kw))

    def fetch(self, topic, partition, offset, **kw):
        return self.fetch_raw(topic, partition, offset, **kw).Responses[0].Partitions[0]

    def records(self, topic, partition=0, offset=0, **kw):
        """All records of a partition from `offset` to its end."""
        out = []
        while True:
            p = self.fetch(topic, partition, offset, **kw)
            assert p.ErrorCode == 0, p.ErrorCode
            got = [r for b in parse_batches(p.Records) for r in b.records if r.offset >= offset]
            if not got:
                batches = parse_batches(p.Records)
                if not batches:
                    return out
                offset = batches[-1].last_offset + 1
                continue
            out += got
            offset = parse_batches(p.Records)[-1].last_offset + 1
            if offset >= p.HighWatermark:
                return out

    def list_offset(self, topic, timestamp, partition=0, version=7, **kw):
        part = {"PartitionIndex": partition, "Timestamp": timestamp}
        r = self.call("ListOffsets", version, ReplicaId=-1, **kw,
                      Topics=[{"Name": topic, "Partitions": [part]}])
        return r.Topics[0].Partitions[0]

    def end_offset(self, topic, partition=0):
        return self.list_offset(topic, -1, partition).Offset

    def producer_id(self, version=4):
        r = self.until_ready("InitProducerId", version, TransactionalId=None,
                             TransactionTimeoutMs=60000, **(
                                 {"ProducerId": -1, "ProducerEpoch": -1} if version >= 3 else {}))
        assert r.ErrorCode == 0, r
        return r.ProducerId, r.ProducerEpoch


# ---- record batches ------------------------------------------------------------------------

class Record(NamedTuple):
    value: Optional[bytes] = None
    key: Optional[bytes] = None
    headers: tuple = ()
    timestamp: int = 1_700_000_000_000
    offset: int = -1


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    crc_good: bool
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: list

    @property
    def codec(self):
        return CODECS[self.attributes & 7]


CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
XERIAL = b"\x82SNAPPY\x00"


def xerial(data, block=32 * 1024):
    """The Java client's snappy stream: a magic, two versions, then blocks with their lengths."""
    out = bytearray(XERIAL + struct.pack(">ii", 1, 1))
    for at in range(0, len(data), block):
        piece = bytes(cramjam.snappy.compress_raw(data[at:at + block]))
        out += struct.pack(">i", len(piece)) + piece
    return bytes(out)


def compress(codec, data):
    if codec == "none":
        return data
    if codec == "gzip":
        return gzip.compress(data)
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == "xerial":
        return xerial(data)
    if codec == "lz4":
        # Kafka's reader takes independent blocks only; librdkafka and Java write no others.
        return lz4.frame.compress(data, block_linked=False)
    return bytes(cramjam.zstd.compress(data))


def decompress(codec, data):
    if codec == "none":
        return data
    if codec == "gzip":
        return gzip.GzipFile(fileobj=io.BytesIO(data)).read()
    if codec == "snappy":
        if not data.startswith(XERIAL):
            return bytes(cramjam.snappy.decompress_raw(data))
        out, r = bytearray(), Reader(data[16:])
        while r.left():
            out += bytes(cramjam.snappy.decompress_raw(bytes(r.take(r.fixed(">i")))))
        return bytes(out)
    return lz4.frame.decompress(data) if codec == "lz4" else bytes(cramjam.zstd.decompress(data))


def _bytes(data):
    return varint(-1) if data is None else varint(len(data)) + data


def encode_record(record, index, base_timestamp):
    body = b"\0" + varint(record.timestamp - base_timestamp) + varint(index)
    body += _bytes(record.key) + _bytes(record.value) + varint(len(record.headers))
    for key, value in record.headers:
        body += varint(len(key.encode())) + key.encode() + _bytes(value)
    return varint(len(body)) + body


def as_record(r):
    return r if isinstance(r, Record) else Record(r)


def batch(records, codec="none", base_offset=0, producer_id=-1, epoch=-1, sequence=-1,
          max_timestamp=None, attributes=0, magic=2, count=None, last_delta=None, crc=None,
          length=None, payload=None, base_timestamp=None):
    """A v2 record batch; the last arguments make a wrong one on purpose."""
    records = [as_record(r) for r in records]
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else -1
    if payload is None:
        payload = compress(codec, b"".join(
            encode_record(r, i, base_timestamp) for i, r in enumerate(records)))
    if max_timestamp is None:
        max_timestamp = max((r.timestamp for r in records), default=-1)
    code = 2 if codec == "xerial" else CODECS.index(codec)
    body = struct.pack(
        ">hiqqqhii", attributes | code, len(records) - 1 if last_delta is None else last_delta,
        base_timestamp, max_timestamp, producer_id, epoch, sequence,
        len(records) if count is None else count) + payload
    crc = crc32c(body) if crc is None else crc
    head = struct.pack(">ibI", -1, magic, crc)
    total = len(head) + len(body) if length is None else length
    return struct.pack(">qi", base_offset, total) + head + body


def old_message(value, key=None, magic=1, offset=0, timestamp=1_700_000_000_000, attributes=0):
    """A message of format 0 or 1 (a message set is a run of them)."""
    import zlib
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", timestamp)
    for b in (key, value):
        body += struct.pack(">i", -1) if b is None else struct.pack(">i", len(b)) + b
    crc = zlib.crc32(body)
    return struct.pack(">qiI", offset, len(body) + 4, crc) + body


def parse_records(data, count, base_offset, base_timestamp, log_append, max_timestamp):
    r, out = Reader(data), []
    for _ in range(count):
        size = r.varint()
        end = r.at + size
        r.take(1)
        timestamp = base_timestamp + r.varint()
        offset = base_offset + r.varint()
        key, value = (None if n < 0 else bytes(r.take(n)) for n in [r.varint()]), None
        key = next(key)
        n = r.varint()
        value = None if n < 0 else bytes(r.take(n))
        headers = []
        for _ in range(r.varint()):
            name = bytes(r.take(r.varint())).decode()
            n = r.varint()
            headers.append((name, None if n < 0 else bytes(r.take(n))))
        assert r.at == end, "a record's size is not its content's"
        out.append(Record(value, key, tuple(headers),
                          max_timestamp if log_append else timestamp, offset))
    assert r.left() == 0, "bytes after the last record"
    return out


def parse_batches(data):
    """The whole batches of a fetch answer; a cut one at the end is ignored, as clients do."""
    out = []
    data = data or b""
    at = 0
    while len(data) - at >= 61:
        base_offset, length = struct.unpack_from(">qi", data, at)
        if len(data) - at < 12 + length:
            break
        epoch, magic, crc = struct.unpack_from(">ibI", data, at + 12)
        assert magic == 2, f"magic {magic} served"
        body = data[at + 21:at + 12 + length]
        (attributes, last_delta, base_ts, max_ts, pid, pepoch, seq, count) = struct.unpack_from(
            ">hiqqqhii", body)
        records = []
        if not attributes & 0x20:
            records = parse_records(decompress(CODECS[attributes & 7], bytes(body[40:])), count,
                                    base_offset, base_ts, attributes & 8, max_ts)
        out.append(Batch(base_offset, base_offset + last_delta, epoch, magic,
                         crc32c(bytes(body)) == crc, attributes, base_ts, max_ts, pid, pepoch,
                         seq, records))
        at += 12 + length
    return out
