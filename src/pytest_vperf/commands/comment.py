"""``vperf comment``: the page of a run as one comment of a pull request, which is updated and not repeated.

A comment is found again by its first line, which Markdown does not show, and only among those of the account that
writes it: what somebody else put there is left alone.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_vperf.reporting.console import say, tell

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from pytest_vperf.commands.answers import Comment

DONE, REFUSED, MISUSED = 0, 1, 2
#: What a comment may be called: it stands in a comment of HTML.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,99}")
#: GitHub's limit; GitLab's is larger.
MOST = 65_536
_PAGE = 100
#: Pages of comments that are looked through, bytes that an answer may have, and seconds that it may take.
_PAGES, _BYTES, _SECONDS = 100, 32 << 20, 30
#: The account of a workflow's own token, which may not ask who it is.
_ACTIONS = "github-actions[bot]"


class CommentProblem(Exception):
    """The host refuses, or it is not known; the message says what to do."""


class _Host(NamedTuple):
    """Where comments are.

    Attributes:
        comments: the address of those of the pull request.
        one: of one of them, with ``{}`` for its number.
        user: the address that says who we are.
        headers: with the token.
        method: that changes one.
        who: the key of the account's name.
        usual: the account, where the host does not say.
        rights: what the token has to be allowed, for the message.
    """

    comments: str
    one: str
    user: str
    headers: Mapping[str, str]
    method: str
    who: str
    usual: str
    rights: str


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "comment",
        help="put a page of --claims-markdown into a pull request, as one comment",
        description="Writes FILE as a comment of the pull request that this job is about, or changes the one "
        "of the same NAME that it wrote before. In GitHub Actions the token is GITHUB_TOKEN, with "
        "'pull-requests: write'; in GitLab's CI it is GITLAB_TOKEN, a project access token with the scope 'api'.",
        epilog="Exit status: 0 if the comment is there; 1 if the host refused; 2 if this is no such job, or FILE "
        "cannot be read.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the page")
    parser.add_argument(
        "--name", default="gate", help="what tells several comments apart (default: gate)"
    )
    parser.set_defaults(command=_comment, fail=parser.error)


def _comment(arguments: argparse.Namespace) -> int:
    import requests

    if not NAME.fullmatch(arguments.name):
        arguments.fail(f"--name: {arguments.name!r}: letters, digits, blanks and . _ - alone")
    try:
        page = arguments.file.read_text("utf-8")
        host = _host(os.environ)
    except (OSError, ValueError) as error:
        say("vperf comment", f"{arguments.file}: {getattr(error, 'strerror', '') or error}")
        return MISUSED
    except CommentProblem as error:
        say("vperf comment", str(error))
        return MISUSED
    body = f"<!-- pytest-vperf: {arguments.name} -->\n{page}"
    if len(body) > MOST:
        say("vperf comment", f"{arguments.file}: {len(body)} characters, more than {MOST}")
        return MISUSED
    try:
        tell(f"comment: {write(host, body)}")
    except CommentProblem as error:
        say("vperf comment", str(error))
        return REFUSED
    except requests.RequestException as error:
        say("vperf comment", f"{type(error).__name__}: {error}")
        return REFUSED
    return DONE


def write(host: _Host, body: str) -> str:
    """Write the comment, and return whether it was ``written`` or ``updated``.

    Args:
        host: where.
        body: its first line is what it is found by.

    Raises:
        CommentProblem: the host refuses.
        requests.RequestException: it does not answer.
    """
    mark = body.partition("\n")[0]
    us = _who(host)
    for each in _comments(host):
        author = each.user or each.author
        ours = author is not None and getattr(author, host.who) == us
        if ours and (each.body or "").startswith(mark):
            _ask(host, host.method, host.one.format(each.id), json={"body": body})
            return "updated"
    _ask(host, "POST", host.comments, json={"body": body})
    return "written"


def _who(host: _Host) -> str:
    from pytest_vperf.commands import answers

    try:
        data = _ask(host, "GET", host.user)
    except CommentProblem:
        if not host.usual:
            raise
        return host.usual
    try:
        name: str = getattr(answers.account(data), host.who)
    except answers.NotUnderstood as error:
        raise CommentProblem(f"GET {host.user}: the answer is not understood: {error}") from None
    if not name:
        raise CommentProblem(f"GET {host.user}: the answer has no {host.who}")
    return name


def _comments(host: _Host) -> Iterator[Comment]:
    from pytest_vperf.commands import answers

    for page in range(1, _PAGES + 1):
        data = _ask(host, "GET", host.comments, params={"per_page": _PAGE, "page": page})
        try:
            found = answers.comments(data)
        except answers.NotUnderstood as error:
            raise CommentProblem(
                f"GET {host.comments}: the answer is not understood: {error}"
            ) from None
        yield from found
        if len(found) < _PAGE:
            return
    raise CommentProblem(f"{host.comments} has more than {_PAGES * _PAGE} comments")


def _ask(host: _Host, method: str, address: str, **more: Any) -> bytes:
    """The body of the answer, which may be of any shape, but not of any size."""
    import requests

    more |= {"headers": dict(host.headers), "timeout": _SECONDS, "allow_redirects": False}
    with requests.request(method, address, stream=True, **more) as answer:
        if answer.status_code in (401, 403, 404):
            raise CommentProblem(
                f"{method} {address}: {answer.status_code}: the token has to be allowed {host.rights}"
            )
        if not answer.ok or answer.is_redirect:
            raise CommentProblem(f"{method} {address}: {answer.status_code} {answer.reason}")
        body, ends = bytearray(), time.monotonic() + _SECONDS
        for part in answer.iter_content(1 << 16):
            body += part
            if len(body) > _BYTES:
                raise CommentProblem(f"{method} {address}: more than {_BYTES >> 20} MiB")
            if time.monotonic() > ends:
                raise CommentProblem(f"{method} {address}: no whole answer within {_SECONDS} s")
    return bytes(body)


def _host(environment: Mapping[str, str]) -> _Host:
    """The host of the job that this is.

    Raises:
        CommentProblem: it is none of a pull request.
    """
    if environment.get("GITHUB_ACTIONS") == "true":
        return _github(environment)
    if environment.get("GITLAB_CI") == "true":
        return _gitlab(environment)
    raise CommentProblem("this is no job of GitHub Actions or of GitLab's CI")


def _github(environment: Mapping[str, str]) -> _Host:
    token = _given(
        environment, "GITHUB_TOKEN", "pass it with env: GITHUB_TOKEN: ${{ github.token }}"
    )
    repository = _given(environment, "GITHUB_REPOSITORY")
    api = environment.get("GITHUB_API_URL", "https://api.github.com")
    try:
        event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_text("utf-8"))
        number = int((event.get("pull_request") or event["issue"])["number"])
    except (KeyError, TypeError, ValueError, OSError):
        raise CommentProblem("this job is not about a pull request: on: pull_request") from None
    return _Host(
        comments=f"{api}/repos/{repository}/issues/{number}/comments",
        one=f"{api}/repos/{repository}/issues/comments/{{}}",
        user=f"{api}/user",
        headers={"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"},
        method="PATCH",
        who="login",
        usual=_ACTIONS,
        rights="'pull-requests: write', which those of pull requests from forks are not",
    )


def _gitlab(environment: Mapping[str, str]) -> _Host:
    token = _given(environment, "GITLAB_TOKEN", "a project access token with the scope 'api'")
    api, project, number = (
        _given(environment, name, "this job is not about a merge request")
        for name in ("CI_API_V4_URL", "CI_PROJECT_ID", "CI_MERGE_REQUEST_IID")
    )
    notes = f"{api}/projects/{project}/merge_requests/{number}/notes"
    return _Host(
        comments=notes,
        one=f"{notes}/{{}}",
        user=f"{api}/user",
        headers={"PRIVATE-TOKEN": token},
        method="PUT",
        who="username",
        usual="",
        rights="the scope 'api'",
    )


def _given(environment: Mapping[str, str], name: str, hint: str = "") -> str:
    if not (value := environment.get(name, "")):
        raise CommentProblem(f"{name} is not set{f': {hint}' if hint else ''}")
    return value
