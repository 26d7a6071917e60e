"""``vperf comment``: one comment of a pull request, updated and not repeated, by what the hosts' interfaces say."""

from __future__ import annotations

import functools
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from pytest_vperf import cli
from pytest_vperf.commands import comment as module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Captured = pytest.CaptureFixture[str]

MARK = "<!-- pytest-vperf: gate -->\n"


class Host:
    """What GitHub or GitLab keeps of a pull request.

    Attributes:
        comments: with ``id``, ``body`` and the author.
        asked: method, path and token of each request.
        user: who the token is; empty: it may not ask.
        writable: whether it may write.
    """

    def __init__(self, author: str, who: str) -> None:
        self.author, self.who = author, who
        self.comments: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.user = ""
        self.writable = True

    def add(self, body: str, by: str) -> None:
        self.comments.append(
            {"id": 100 + len(self.comments), "body": body, self.author: {self.who: by}}
        )

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: Any
    ) -> tuple[int, Any]:
        if path.endswith("/user"):
            return (200, {self.who: self.user}) if self.user else (403, {})
        if method == "GET":
            page, size = int(query["page"][0]), int(query["per_page"][0])
            return 200, self.comments[(page - 1) * size : page * size]
        if not self.writable:
            return 403, {}
        if method == "POST":
            self.add(body["body"], self.user or "github-actions[bot]")
            return 201, self.comments[-1]
        (found,) = (each for each in self.comments if str(each["id"]) == path.rpartition("/")[2])
        found["body"] = body["body"]
        return 200, found


@contextmanager
def serving(host: Host) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            host.asked.append((self.command, parts.path))
            host.headers.append(dict(self.headers))
            status, found = host.answer(self.command, parts.path, parse_qs(parts.query), body)
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_PUT = _do

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text("**gate: 1 slower**\n")
    for name in ("GITHUB_ACTIONS", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Host]:
    host = Host("user", "login")
    (tmp_path / "event.json").write_text('{"pull_request": {"number": 7}}')
    with serving(host) as url:
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setenv("GITHUB_API_URL", url)
        monkeypatch.setenv("GITHUB_REPOSITORY", "me/runc")
        monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))
        monkeypatch.setenv("GITHUB_TOKEN", "secret-token")
        yield host


@pytest.fixture
def gitlab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    host = Host("author", "username")
    host.user = "bot"
    with serving(host) as url:
        monkeypatch.setenv("GITLAB_CI", "true")
        monkeypatch.setenv("CI_API_V4_URL", f"{url}/api/v4")
        monkeypatch.setenv("CI_PROJECT_ID", "42")
        monkeypatch.setenv("CI_MERGE_REQUEST_IID", "7")
        monkeypatch.setenv("GITLAB_TOKEN", "secret-token")
        yield host


def comment(*words: str) -> int:
    return cli.main(["comment", "page.md", *words])


def bodies(host: Host) -> list[str]:
    return [each["body"] for each in host.comments]


def test_github_has_one_comment_which_is_updated(github: Host, tmp_path: Path) -> None:
    assert comment() == 0
    (tmp_path / "page.md").write_text("**gate: 2 slower**\n")
    assert comment() == 0
    assert bodies(github) == [f"{MARK}**gate: 2 slower**\n"]
    assert github.asked[2] == ("POST", "/repos/me/runc/issues/7/comments")
    assert github.asked[-1] == ("PATCH", "/repos/me/runc/issues/comments/100")
    assert {each["Authorization"] for each in github.headers} == {"Bearer secret-token"}


def test_gitlab_has_one_note_which_is_updated(gitlab: Host) -> None:
    assert [comment(), comment()] == [0, 0]
    assert bodies(gitlab) == [f"{MARK}**gate: 1 slower**\n"]
    assert gitlab.asked[-1] == ("PUT", "/api/v4/projects/42/merge_requests/7/notes/100")
    assert {each["PRIVATE-TOKEN"] for each in gitlab.headers} == {"secret-token"}


def test_it_is_found_after_many_others(github: Host) -> None:
    for number in range(205):
        github.add(f"comment {number}", "somebody")
    assert [comment(), comment()] == [0, 0]
    assert len(github.comments) == 206


def test_what_somebody_else_put_there_is_left_alone(github: Host) -> None:
    github.add(f"{MARK}not ours", "stranger")
    github.user = "our-app"
    assert [comment(), comment()] == [0, 0]
    assert bodies(github) == [f"{MARK}not ours", f"{MARK}**gate: 1 slower**\n"]


def test_names_tell_comments_apart(github: Host) -> None:
    assert [comment(), comment("--name=arm 64"), comment("--name=arm 64")] == [0, 0, 0]
    assert [each.partition("\n")[0] for each in bodies(github)] == [
        "<!-- pytest-vperf: gate -->",
        "<!-- pytest-vperf: arm 64 -->",
    ]


def test_a_token_that_may_not_write_is_said_and_not_shown(github: Host, capsys: Captured) -> None:
    github.writable = False
    assert comment() == 1
    said = capsys.readouterr().err
    assert (
        "/repos/me/runc/issues/7/comments: 403: the token has to be allowed 'pull-requests: write'"
        in said
    )
    assert "secret-token" not in said


def test_a_host_that_does_not_answer_is_said(
    github: Host, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:1")
    assert comment() == 1
    assert capsys.readouterr().err.startswith("vperf comment: ConnectionError: ")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], "page.0: Input should be an object"),
        ({"message": "?"}, "page: Input should be a valid array"),
        ([{"id": "../7"}], "page.0.id: Input should be a valid integer"),
        ([{"id": 7, "user": "somebody"}], "page.0.user: Input should be an object"),
        (None, "page: Input should be a valid array"),
    ],
)
def test_an_answer_of_another_shape_is_said(
    github: Host, capsys: Captured, found: Any, message: str
) -> None:
    github.answer = lambda method, path, query, body: (  # type: ignore[method-assign]
        (403, {}) if path.endswith("/user") else (200, [found] if found == [] else found)
    )
    assert comment() == 1
    said = capsys.readouterr().err
    assert "/comments: the answer is not understood: " in said
    assert message in said


def test_an_account_without_a_name_is_nobody(github: Host, capsys: Captured) -> None:
    github.answer = lambda *_: (200, {"login": ""})  # type: ignore[method-assign]
    assert comment() == 1
    assert "/user: the answer has no login" in capsys.readouterr().err


def test_pages_without_end_are_given_up(github: Host, capsys: Captured) -> None:
    page = [{"id": number, "body": ""} for number in range(100)]
    github.answer = lambda method, path, query, body: (  # type: ignore[method-assign]
        (403, {}) if path.endswith("/user") else (200, page)
    )
    assert comment() == 1
    assert "/comments has more than 10000 comments" in capsys.readouterr().err
    assert len(github.asked) == 101


def test_an_answer_without_end_is_given_up(
    github: Host, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BYTES", 1 << 20)
    github.answer = lambda *_: (200, {"login": "x" * (2 << 20)})  # type: ignore[method-assign]
    assert comment() == 1
    assert "/comments: more than 1 MiB" in capsys.readouterr().err


def test_an_answer_that_drips_is_given_up(
    github: Host, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SECONDS", -1)
    monkeypatch.setattr("requests.request", functools.partial(_patient, requests.request))
    github.user = "me"
    assert comment() == 1
    assert "/comments: no whole answer within -1 s" in capsys.readouterr().err


def _patient(ask: Any, *words: Any, **more: Any) -> Any:
    return ask(*words, **{**more, "timeout": 30})


def test_a_page_that_is_too_long_is_not_sent(github: Host, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("x" * 65_536)
    assert comment() == 2
    assert github.asked == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("GITHUB_ACTIONS", "", "this is no job of GitHub Actions or of GitLab's CI"),
        ("GITHUB_TOKEN", "", "GITHUB_TOKEN is not set: pass it with env: GITHUB_TOKEN: ${{ github.token }}"),
        ("GITHUB_EVENT_PATH", "none", "this job is not about a pull request: on: pull_request"),
    ],
)  # fmt: skip
def test_what_is_no_job_of_a_pull_request_is_said(
    github: Host,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    message: str,
) -> None:
    monkeypatch.setenv(name, value)
    assert comment() == 2
    assert capsys.readouterr().err == f"vperf comment: {message}\n"


@pytest.mark.parametrize("name", ["a --> <b>", "", "-"])
def test_a_name_that_would_end_its_comment_is_refused(github: Host, name: str) -> None:
    with pytest.raises(SystemExit):
        comment(f"--name={name}")
