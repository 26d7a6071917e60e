"""What a host of pull requests answers about comments, as far as it is needed; another shape is refused."""

from __future__ import annotations

from typing import TypeVar

from pytest_vperf.results.reading import Part, RecordProblem, WrongShape, checked

_Part = TypeVar("_Part", bound=Part)


class NotUnderstood(Exception):
    """An answer has another shape than the host documents; the message says where."""


class Account(Part):
    """Who wrote a comment, by GitHub's key or by GitLab's."""

    login: str = ""
    username: str = ""


class Comment(Part):
    """A comment of a pull request, or a note of a merge request."""

    id: int
    body: str | None = None
    user: Account | None = None
    author: Account | None = None


class _Page(Part):
    page: list[Comment]


def account(data: bytes) -> Account:
    """The account that a token is of.

    Raises:
        NotUnderstood: it is no account.
    """
    return _understood(Account, data)


def comments(data: bytes) -> list[Comment]:
    """A page of comments.

    Raises:
        NotUnderstood: it is no list of comments.
    """
    return _understood(_Page, b'{"page": ' + data + b"}").page


def _understood(part: type[_Part], data: bytes) -> _Part:
    try:
        return checked(part, data)
    except (RecordProblem, WrongShape) as error:
        raise NotUnderstood(str(error)) from None
