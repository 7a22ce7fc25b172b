"""The judge of the crash tests notices each kind of loss: it is shown doctored logs."""
import pytest

import model

TP = ("t", 0)


@pytest.fixture
def told():
    """Two producers, an idempotent (0) and a plain one (1); 20 records each, alternating."""
    t = model.Told()
    t.idempotent = {0: True, 1: False}
    for offset in range(40):
        t.sent[offset % 2, TP] += 1
        t.ack(TP, offset, offset % 2, offset // 2)
    return t


def log(count=40):
    return [(o, model.make(TP, o % 2, o // 2)) for o in range(count)]


def check_both(told, records):
    end = max((o for o, _ in records), default=-1) + 1
    return (model.check_log(told, TP, 0, end, records),
            model.check_table(told, TP, records, end))


def test_what_was_sent_is_well(told):
    assert check_both(told, log()) == ([], [])
    assert model.check_log(told, TP, 10, 40, log()[10:]) == []


@pytest.mark.parametrize("what, change", {
    "the last record is gone": lambda r: r[:-1],
    "all is gone": lambda r: [],
    "one in the middle is gone": lambda r: r[:7] + r[8:],
    "one is there twice at the end": lambda r: r + [(40, r[38][1])],
    "two are swapped": lambda r: [*r[:4], (4, r[6][1]), r[5], (6, r[4][1]), *r[7:]],
    "a bit is flipped": lambda r: [*r[:9], (9, r[9][1][:-1] + b"?"), *r[10:]],
    "another's bytes": lambda r: [*r[:9], (9, model.make(("t", 1), 1, 4)), *r[10:]],
    "a value is null": lambda r: [*r[:9], (9, None), *r[10:]],
    "an offset is there twice": lambda r: r[:9] + [r[8]] + r[9:],
    "never sent": lambda r: r + [(40, model.make(TP, 0, 20))],
}.items())
def test_doctored(told, what, change):
    in_log, in_table = check_both(told, change(log()))
    assert in_log and in_table


def test_rows_that_the_log_had_are_missed(told):
    assert model.check_table(model.Told(), TP, [], 0) == []
    assert model.check_table(told, TP, log()[:30], 40)


def test_plain_producers_may_repeat_but_not_reorder(told):
    again = log() + [(40, model.make(TP, 1, 18)), (41, model.make(TP, 1, 19))]
    assert check_both(told, again) == ([], [])
    told.sent[1, TP] += 2
    assert check_both(told, again + [(42, model.make(TP, 1, 21))])[0]


def test_seen_is_never_unseen(told):
    told.see(TP, 40, model.make(TP, 0, 20))
    told.sent[0, TP] += 1
    assert model.check_log(told, TP, 0, 40, log())
    told.see(TP, 40, model.make(TP, 1, 20))
    assert told.findings


def test_one_offset_is_not_given_twice(told):
    told.ack(TP, 39, 0, 20)
    assert told.findings


def test_groups(told):
    told.attempt("g", TP, 10)
    told.committed("g", TP, 10)
    told.attempt("g", TP, 15)
    promised = told.offsets()
    assert model.check_groups(promised, {("g", TP): 10}) == []
    assert model.check_groups(promised, {("g", TP): 15}) == []
    assert model.check_groups(promised, {("g", TP): 9})
    assert model.check_groups(promised, {("g", TP): 16})
    assert model.check_groups(promised, {})


def test_ends(told):
    assert model.check_ends(told.ends(), {TP: 40}) == []
    assert model.check_ends(told.ends(), {TP: 39})
    assert model.check_ends(told.ends(), {})
