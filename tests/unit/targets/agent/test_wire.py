"""The frames between host and agent: whole or not at all, wherever the bytes are cut."""

import contextlib
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.agent.wire import (
    MAX_PAYLOAD,
    Decoder,
    Frame,
    Type,
    Wire,
    WireError,
    command_payload,
)

frames = st.lists(
    st.builds(Frame, st.sampled_from(Type), st.integers(0, 0xFFFF), st.binary(max_size=300)),
    max_size=8,
)


@given(frames, st.lists(st.integers(1, 40), max_size=30))
def test_frames_survive_any_cut(sent, cuts):
    data = b"".join(frame.encode() for frame in sent)
    decoder, received, at = Decoder(), [], 0
    for cut in [*cuts, len(data)]:
        received += decoder.feed(data[at : at + cut])
        at += cut
    assert received == sent


@given(st.binary(max_size=200))
def test_any_bytes_give_frames_or_a_wire_error(data):
    with contextlib.suppress(WireError):
        assert all(isinstance(frame, Frame) for frame in Decoder().feed(data))


def test_a_length_beyond_the_limit_is_refused_before_it_is_awaited():
    with pytest.raises(WireError, match="length 4194305"):
        Decoder().feed((MAX_PAYLOAD + 1).to_bytes(4, "little") + b"\x10\0\0\0")


def test_bytes_that_a_full_socket_refuses_are_sent_later():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire = Wire(ours)
        frame = Frame(Type.INPUT, 2, b"x" * MAX_PAYLOAD)
        wire.send(frame)
        assert wire.has_unsent
        assert wire.backlog < len(frame.encode())
        decoder = Decoder()
        received: list[Frame] = []
        while not received:
            received = decoder.feed(theirs.recv(1 << 20))
            wire.flush()
        assert received == [frame]
        assert not wire.has_unsent


def test_a_closed_connection_is_told_apart_from_silence():
    ours, theirs = socket.socketpair()
    with ours:
        wire = Wire(ours)
        assert wire.receive() == []
        theirs.close()
        assert wire.receive() is None


def test_a_command_carries_its_folder_its_count_and_its_variables():
    payload = command_payload(("echo", "a b", ""), {"LANG": "C"}, "/tmp")
    assert payload == b"/tmp\x003\x00echo\x00a b\x00\x00LANG=C\x00"


@pytest.mark.parametrize("argv", [("a\0b",), ("echo", "\0")])
def test_a_nul_character_is_refused(argv):
    with pytest.raises(ValueError, match="NUL"):
        command_payload(argv, {}, "/")


def taken(count):
    return Frame(Type.TAKEN, 0, (count % (1 << 32)).to_bytes(4, "little")).encode()


def drained(connection):
    found = b""
    with contextlib.suppress(BlockingIOError):
        while data := connection.recv(1 << 16):
            found += data
    return found


@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=12),
    st.integers(1024, 4096),
    st.lists(st.integers(0, 1 << 12), max_size=40),
)
def test_unacknowledged_bytes_stay_within_the_window_and_all_arrive(sizes, ahead, takes):
    """The agent reads now and then; a console has no flow control of its own."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        wire = Wire(ours, ahead=ahead)
        sent = [Frame(Type.INPUT, n, bytes([n]) * size) for n, size in enumerate(sizes)]
        for frame in sent:
            wire.send(frame)
        arrived = drained(theirs)
        told = 0
        for take in [*takes, *[1 << 20] * 60]:
            assert len(arrived) - told <= ahead
            assert wire.has_unsent == (wire.backlog > 0 and len(arrived) - told < ahead)
            told = min(told + take, len(arrived))
            theirs.sendall(taken(told))
            assert wire.receive() == []  # it is between the two ends alone
            arrived += drained(theirs)
        assert Decoder().feed(arrived) == sent
        assert wire.backlog == 0


def test_the_count_of_acknowledged_bytes_wraps_around():
    """It has 32 bits; a long measurement transfers more."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        wire = Wire(ours, ahead=100)
        wire._sent = wire._taken = (1 << 32) - 50  # as after 4 GiB
        wire.send(Frame(Type.INPUT, 2, b"x" * 192))
        assert len(drained(theirs)) == 100
        theirs.sendall(taken((1 << 32) + 50))
        wire.receive()
        assert len(drained(theirs)) == 100
        assert not wire.has_unsent


def test_without_a_window_nothing_is_waited_for():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire = Wire(ours)
        frame = Frame(Type.INPUT, 2, b"x" * 5000)
        for _ in range(10):
            wire.send(frame)
        assert wire.backlog == 0


def test_bytes_that_are_no_frame_are_kept_for_the_message():
    with pytest.raises(WireError) as caught:
        Decoder().feed(Frame(Type.READY, 0, b"6.1").encode() + b"Kernel panic - not syncing")
    assert caught.value.rest == b"Kernel panic - not syncing"


def test_a_command_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match=r"the command is too long \(4194309 bytes\)"):
        command_payload(("x" * MAX_PAYLOAD,), {}, "/")
