"""A fake remote machine: the commands it gets, and its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.base import Completed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    #: Status and text: output where the status is 0, else the error.
    Answer = tuple[int, str]


class Far:
    """A machine elsewhere.

    Args:
        answers: by the beginning of a command, the first that fits; a list is answered from one by one, its last for
            ever. What is not in it succeeds silently.
        interrupt: at the end of a command that has this in it somebody presses Ctrl-C.
        more: answers, by words joined with ``_``.

    Attributes:
        told: the commands.
    """

    name = "host (lab kvm)"

    def __init__(
        self,
        answers: Mapping[str, Answer | list[Answer]] | None = None,
        *,
        interrupt: str = "",
        **more: Answer,
    ) -> None:
        both = {**(answers or {}), **more}
        self._answers = {_joined(words): answer for words, answer in both.items()}
        self._interrupt = interrupt
        self.told: list[str] = []

    def say(self, words: str, answer: Answer) -> None:
        """Give this answer to a command from now on, before all others."""
        others = {key: kept for key, kept in self._answers.items() if key != _joined(words)}
        self._answers = {_joined(words): answer, **others}

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        assert list(argv[:4]) == ["sh", "-c", 'PATH=$PATH:/usr/sbin:/sbin; exec "$@"', "sh"]
        self.told.append(" ".join(argv[4:]))
        if self._interrupt and self._interrupt in self.told[-1]:
            self._interrupt = ""
            raise KeyboardInterrupt
        for words, answer in self._answers.items():
            if _joined(self.told[-1]).startswith(words):
                if isinstance(answer, list):
                    answer = answer.pop(0) if len(answer) > 1 else answer[0]
                status, said = answer
                output = (b"", said.encode()) if status else (said.encode(), b"")
                return Completed(tuple(argv), status, *output, 0.0)
        return Completed(tuple(argv), 0, b"", b"", 0.0)


def _joined(words: str) -> str:
    return words.replace(" ", "_").replace("-", "_")
