"""UDP packets between two guests of one host, over sizes of packets: claim S20.

Two guests on one network of their host, whose kernel moves their packets (vhost-net); one sends, with the document's
iperf -u -b 1G -t 10 -P 2. With the receiver's port mirrored every packet is copied once more. A sender that could not
offer what it was asked for shows a plateau only where it was held back: its virtual processor had time left.
"""

import pytest

from pytest_vperf import Quantity, Unavailable, mirrored, processors

pytestmark = [
    pytest.mark.saturation,
    pytest.mark.parametrize("guests", ["kvm"], indirect=True),
]

#: Bytes of payload, up to the greatest packet that is not taken apart.
SIZES = (64, 128, 256, 512, 1024, 1470)
TIME = 10
VHOST = "the sender's vhost-net thread"
#: The document's machines. Where KVM is emulated itself, guests have one processor (`Guests.start`).
VCPUS, MEMORY = 2, "4 GiB"


class TwoGuests:
    """Two guests with a network between them, and loads of packets of one size.

    A mirror of Open vSwitch's is of a port of its own: then the network is a bridge of its, and else the kernel's.
    """

    def __init__(self, guests, iperf, mirrored_by="tc"):
        size = {
            "vcpus": 1 if guests.daemon.details.get("emulated") == "yes" else VCPUS,
            "memory": guests.memory_each(2, MEMORY),
        }
        network = guests.ovs_network if mirrored_by == "ovs" else guests.network
        self.sender, self.receiver = (
            guests.start(network=network, vhost=True, **size) for _ in range(2)
        )
        self._host, self._iperf = guests.host, iperf
        self._who = (
            processors.virtual_cpu("the sender's processor", self.sender.identity, source=True),
            processors.vhost(VHOST, self.sender.identity),
            processors.virtual_cpu("the receiver's processor", self.receiver.identity),
            processors.vhost("the receiver's vhost-net thread", self.receiver.identity),
        )

    def packets(self, size):
        return self._iperf.load(
            self.sender,
            to=self.receiver,
            length=size,
            **{"rate": "1 Gbit/s", "time": TIME, "streams": 2},
            on=self._host,
            who=self._who,
        )

    def copied_packets(self, mirror):
        """The same with a mirror, which is seen to copy: by far the most of what arrives is also in its count."""

        def packets(size):
            before, load = mirror.copied, self.packets(size)
            copied, arrived = mirror.copied - before, TIME * load.carried.value
            assert copied >= 0.9 * arrived, f"{copied} of {arrived:.0f} packets were copied"
            return load

        return packets


@pytest.mark.parametrize("by", ["tc", "ovs"])
def test_packets_with_a_mirrored_port(claim, guests, iperf, by):
    proven = claim("saturation.packets.mirrored.guest.kvm")
    two = TwoGuests(guests, iperf, by)
    with mirrored(two.receiver, host=guests.host, by=by) as mirror:
        proven.saturates(two.copied_packets(mirror), over=SIZES)


def test_packets_without_a_mirror(claim, guests, iperf):
    proven = claim("saturation.packets.plain.guest.kvm")
    proven.saturates(TwoGuests(guests, iperf).packets, over=SIZES)


@pytest.mark.parametrize("by", ["tc", "ovs"])
def test_a_mirror_costs_packets(claim, guests, iperf, by):
    proven = claim("saturation.packets.mirrored_over_plain.guest.kvm")
    two = TwoGuests(guests, iperf, by)

    def with_a_mirror():
        with mirrored(two.receiver, host=guests.host, by=by) as mirror:
            return two.copied_packets(mirror)(min(SIZES)).carried

    proven.compares(with_a_mirror, to=lambda: two.packets(min(SIZES)).carried)


@pytest.mark.parametrize("by", ["tc", "ovs"])
def test_the_senders_vhost_thread_has_no_time_left(claim, guests, iperf, by):
    proven = claim("saturation.vhost.mirrored.guest.kvm")
    two = TwoGuests(guests, iperf, by)
    with mirrored(two.receiver, host=guests.host, by=by) as mirror:
        packets = two.copied_packets(mirror)

        def share():
            load = packets(min(SIZES))
            (found,) = (each for each in load.busy if each.name == VHOST)
            if found.had_time_left and not load.counts:
                raise Unavailable(
                    "the sender had no time left, and its vhost-net thread had: this is no plateau of the thread's",
                    remedy="a host with a quicker processor, not an emulated one",
                )
            return Quantity(found.share, "%", signed=True)

        proven.holds(share)
