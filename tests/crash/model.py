"""What clients were told, and what must therefore be found: the judge of the crash tests.

Everything here is a pure function of what was told and what was read, so that test_model.py can
prove that each kind of loss is noticed. A finding is a line of text; no finding means that all is
well.

    told.sent[producer, tp]   records handed to the client library (numbers 0 .. n-1)
    told.acked[tp][offset]    (producer, number) that was acknowledged at that offset
    told.seen[tp][offset]     (producer, number) that some consumer got there
    told.groups[group, tp]    [highest offset whose commit was acknowledged, highest attempted]
    told.topics               names that were acknowledged as made and not yet asked to be deleted
    told.deleted              names whose deletion was acknowledged
"""
import threading
import zlib
from collections import defaultdict

FINDINGS_MAX = 20


class Told:
    def __init__(self):
        self.lock = threading.Lock()
        self.idempotent = {}
        self.sent = defaultdict(int)
        self.acked = defaultdict(dict)
        self.seen = defaultdict(dict)
        self.groups = {}
        self.topics, self.deleted = set(), set()
        self.findings = []

    def ack(self, tp, offset, producer, number):
        with self.lock:
            was = self.acked[tp].setdefault(offset, (producer, number))
            if was != (producer, number):
                self.findings.append(f"{tp} offset {offset} was given to {was} and then to "
                                     f"{(producer, number)}")

    def see(self, tp, offset, value):
        who = parse(tp, value)
        if isinstance(who, str):
            self.find(f"{tp} offset {offset}: {who}")
            return
        with self.lock:
            was = self.seen[tp].setdefault(offset, who)
            if was != who:
                self.findings.append(f"{tp} offset {offset} was read as {was} and then as {who}")

    def attempt(self, group, tp, offset):
        with self.lock:
            g = self.groups.setdefault((group, tp), [-1, -1])
            g[1] = max(g[1], offset)

    def committed(self, group, tp, offset):
        with self.lock:
            g = self.groups[group, tp]
            g[0] = max(g[0], offset)

    def find(self, text):
        with self.lock:
            self.findings.append(text)

    def ends(self):
        """-> the least end offset of each partition that the acknowledgements allow."""
        with self.lock:
            return {tp: max(offsets) + 1 for tp, offsets in self.acked.items() if offsets}

    def offsets(self):
        with self.lock:
            return {key: tuple(g) for key, g in self.groups.items()}


# ---- records that say who they are ---------------------------------------------------------

def make(tp, producer, number):
    """The value: its identity, and bytes that follow from it."""
    head = b"%s/%d/%d/%d/" % (tp[0].encode(), tp[1], producer, number)
    seed = zlib.crc32(head)
    size = 20 + seed % 200 + (seed % 50 == 0) * 4000
    return head + (b"%08x" % seed) * (size // 8)


def parse(tp, value):
    """-> (producer, number), or words about what is wrong with it."""
    try:
        topic, partition, producer, number, _ = bytes(value).split(b"/", 4)
        who = (int(producer), int(number))
    except (ValueError, TypeError):
        return f"holds {value!r:.60}, which nobody sent"
    if (topic.decode(errors="replace"), int(partition)) != tp or value != make(tp, *who):
        return f"holds {value!r:.60}, which is not what was sent"
    return who


# ---- judgements ----------------------------------------------------------------------------

def check_order(told, tp, identities, whole):
    """Records of each producer come in order: once when it is idempotent; else a first time in
    order, with repeats of what came before. `whole`: from the first record on."""
    findings, newest = [], {}
    for offset, (producer, number) in identities:
        last = newest.get(producer)
        expected = 0 if last is None and whole else number if last is None else last + 1
        if number >= told.sent[producer, tp]:
            findings.append(f"{tp} offset {offset}: producer {producer} never sent {number}")
        elif number == expected:
            newest[producer] = number
        elif told.idempotent[producer] or number > expected:
            findings.append(f"{tp} offset {offset}: producer {producer}'s record {number} where "
                            f"{expected} is due")
            newest[producer] = max(number, newest.get(producer, -1))
    return findings


def _identify(tp, records, findings, what):
    out, last = [], -1
    for offset, value in records:
        if offset <= last:
            findings.append(f"{tp} {what}: offset {offset} after {last}")
        last = offset
        who = parse(tp, value)
        if isinstance(who, str):
            findings.append(f"{tp} {what}: offset {offset} {who}")
        else:
            out.append((offset, who))
    return out


def _promised(promises, found, start, tp, what, word):
    missing = [o for o in promises if o >= start and found.get(o) is None]
    other = [o for o in promises if o >= start and found.get(o) not in (None, promises[o])]
    out = []
    if missing:
        out.append(f"{tp} {what}: {len(missing)} {word} records are gone, the first at offset "
                   f"{min(missing)}, the last at {max(missing)}")
    if other:
        o = min(other)
        out.append(f"{tp} {what}: offset {o} holds {found[o]}, {word} was {promises[o]}")
    return out


def check_log(told, tp, start, end, records):
    """`records`: [(offset, value)] as read from `start` to the end."""
    findings = []
    identities = _identify(tp, records, findings, "log")
    found = dict(identities)
    if len(records) != end - start:
        findings.append(f"{tp} log: {len(records)} records between {start} and {end}")
    findings += _promised(told.acked[tp], found, start, tp, "log", "acknowledged")
    findings += _promised(told.seen[tp], found, start, tp, "log", "seen")
    findings += check_order(told, tp, identities, whole=start == 0)
    return findings[:FINDINGS_MAX]


def check_table(told, tp, rows, end):
    """`rows`: [(offset, value)] of the partition in the table, which keeps what the log drops."""
    findings = []
    identities = _identify(tp, sorted(rows), findings, "table")
    found = dict(identities)
    if len(rows) != len(found) or (found and max(found) + 1 != len(found)):
        findings.append(f"{tp} table: {len(rows)} rows, {len(found)} offsets up to "
                        f"{max(found, default=-1)}")
    if len(found) < end:
        findings.append(f"{tp} table: {len(found)} rows, the log ended at {end} before")
    findings += _promised(told.acked[tp], found, 0, tp, "table", "acknowledged")
    findings += _promised(told.seen[tp], found, 0, tp, "table", "seen")
    findings += check_order(told, tp, identities, whole=True)
    return findings[:FINDINGS_MAX]


def check_groups(promised, found):
    """`promised`: Told.offsets(); `found`: {(group, tp): offset, -1001 when there is none}."""
    findings = []
    for key, (acked, attempted) in promised.items():
        offset = found.get(key, -1001)
        if acked >= 0 and offset < acked:
            findings.append(f"group {key}: offset {offset}, {acked} was acknowledged")
        elif offset > attempted:
            findings.append(f"group {key}: offset {offset}, nobody committed above {attempted}")
    return findings


def check_ends(promised, found):
    return [f"{tp}: the log ends at {found.get(tp)}, {end} was acknowledged"
            for tp, end in promised.items() if found.get(tp, -1) < end]
