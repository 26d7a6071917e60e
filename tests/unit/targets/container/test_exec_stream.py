"""Parsing the engine's multiplexed stream."""

from __future__ import annotations

import socket
import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.container.container import Conversation, Demultiplexer
from pytest_vperf.targets.process import Output


def frame(output: int, payload: bytes) -> bytes:
    return bytes([output, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=50)), max_size=8),
    st.integers(min_value=1, max_value=17),
)
def test_frames_come_apart_however_they_are_cut(
    frames: list[tuple[int, bytes]], piece: int
) -> None:
    stream = b"".join(frame(output, payload) for output, payload in frames)
    taken = Output(1 << 20)
    frames_of = Demultiplexer(taken)
    for begin in range(0, len(stream), piece):
        frames_of.feed(stream[begin : begin + piece])
    assert taken.stdout == b"".join(payload for output, payload in frames if output == 1)
    assert taken.stderr == b"".join(payload for output, payload in frames if output == 2)


def test_the_received_half_of_a_frame_is_kept() -> None:
    taken = Output(1 << 20)
    Demultiplexer(taken).feed(frame(1, b"whole") + frame(1, b"half")[:10])
    assert taken.stdout == b"wholeha"


def test_output_is_taken_while_its_command_is_ended() -> None:
    """The engine would not tell the end of any other command in the container before it is rid of this one's."""
    ours, theirs = socket.socketpair()
    sent = threading.Event()

    def send() -> None:
        for _ in range(64):
            theirs.sendall(frame(1, bytes(1 << 20)))
        sent.set()

    output = Output(4 << 20)
    conversation = Conversation(ours, output)
    with theirs:
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        assert not conversation.run(b"", time.perf_counter() + 60)
        assert output.is_full
        assert not sent.is_set()
        with conversation.read_on():
            assert sent.wait(60)
    assert len(output.stdout) <= 4 << 20
