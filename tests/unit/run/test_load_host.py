"""The place of the other host, given by ``--load-host``."""

from __future__ import annotations

import pytest

SHOWS = """
    from pytest_vperf.run.stash import claims_session
    def test_it(request):
        print(f"load host: {claims_session(request.config).settings.load_host!r}")
"""


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), "''"),
        (("--load-host=embedded",), "''"),
        (("--load-host=ssh://me@load:2222",), "'ssh://me@load:2222'"),
        (("-o", "load_host=ssh://load"), "'ssh://load'"),
        (("-o", "load_host=ssh://load", "--load-host=embedded"), "''"),
    ],
)
def test_other_host_is_embedded_or_named(
    pytester: pytest.Pytester, options: tuple[str, ...], shown: str
) -> None:
    pytester.makepyfile(SHOWS)
    result = pytester.runpytest("-s", *options)
    result.stdout.fnmatch_lines([f"*load host: {shown}*"])


def test_bad_ssh_urls_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SHOWS)
    result = pytester.runpytest("--load-host=load.example")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: --load-host: 'load.example' is not ssh://[[]user@[]]host[[]:port[]], nor 'embedded'"
        ]
    )
