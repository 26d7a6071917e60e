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


def test_what_the_socket_does_not_take_is_sent_later():
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


def test_a_closed_end_is_told_apart_from_silence():
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
