"""Waiting until the brokers agree on who is there: leaders and coordinators follow from that, and
each learns of the others by a poll of its own."""
from brokers import until
from raw import Client


def shown(broker):
    """How many brokers it tells its clients of."""
    with Client(broker.address) as c:
        return len(c.metadata([]).Brokers)


def agreed(fleet):
    """-> the fleet, when all that live show all that live"""
    def agree():
        live = fleet.live()
        return all(shown(b) == len(live) for b in live)
    until(agree, 15)
    return fleet
