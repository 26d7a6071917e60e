"""The exit status of a run says the truth, whatever a test does with a refuted claim or with none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
import threading, unittest
from contextlib import suppress

import pytest
from samplers import around, broken, missing

def refute(claim):
    with suppress(AssertionError):
        claim("start.alike").compares(around(450), to=around(350))
"""

#: Ways to get rid of a refuted claim.
SWALLOWED = {
    "in a test": """
def test_it(claim): refute(claim)
""",
    "skip": """
def test_it(claim):
    refute(claim)
    pytest.skip("enough")
""",
    "SkipTest": """
def test_it(claim):
    refute(claim)
    raise unittest.SkipTest("enough")
""",
    "xfail": """
def test_it(claim):
    refute(claim)
    pytest.xfail("enough")
""",
    "a mark that is not strict": """
@pytest.mark.xfail
def test_it(claim): claim("start.alike").compares(around(450), to=around(350))
""",
    "exit": """
def test_it(claim):
    refute(claim)
    pytest.exit("enough", 0)
""",
    "exit of a later test": """
def test_it(claim): refute(claim)
def test_then(): pytest.exit("enough", 0)
""",
    "exit at the end": """
@pytest.fixture(scope="session")
def ends():
    yield
    pytest.exit("enough", 0)
def test_it(claim, ends): refute(claim)
""",
    "set-up": """
@pytest.fixture
def refuted(claim): refute(claim)
def test_it(refuted): pass
""",
    "set-up that skips": """
@pytest.fixture
def refuted(claim):
    refute(claim)
    pytest.skip("enough")
def test_it(refuted): pass
""",
    "teardown": """
@pytest.fixture
def refuted(claim):
    yield
    refute(claim)
def test_it(refuted): pass
""",
    "teardown that skips": """
@pytest.fixture
def refuted(claim):
    yield
    refute(claim)
    pytest.skip("enough")
def test_it(refuted): pass
""",
    "a TestCase": """
class TestIt(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _claim(self, claim): self.claim = claim
    def test_it(self): refute(self.claim)
""",
    "a TestCase that skips": """
class TestIt(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _claim(self, claim): self.claim = claim
    def test_it(self):
        refute(self.claim)
        self.skipTest("enough")
""",
    "a thread": """
def test_it(claim):
    thread = threading.Thread(target=refute, args=(claim,))
    thread.start()
    thread.join()
""",
    "a thread that outlives its test": """
threads = []
@pytest.fixture(scope="module", autouse=True)
def join():
    yield
    for thread in threads: thread.join()
def test_it(claim):
    claim("start.alike").compares(around(100), to=around(100))
    threads.append(threading.Thread(target=refute, args=(claim,)))
    threads[0].start()
""",
}


def result_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["result"]
    return found


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("how", SWALLOWED)
def test_a_refuted_claim_ends_the_run_with_1(
    project: pytest.Pytester, how: str, workers: int
) -> None:
    project.makepyfile(HEAD + SWALLOWED[how])
    parallel = [f"-n{workers}"] if workers else []
    result = project.runpytest(*parallel, "--claims-json=out.json")
    exits = how.startswith("exit")
    # pytest-xdist itself ends with an internal error when a worker exits.
    assert result.ret == (3 if exits and workers else 1)
    assert result_of(project.path / "out.json")["word"] == "refuted"
    if not (how == "exit at the end" or (exits and workers)):  # pytest then prints no summary
        result.stdout.fnmatch_lines(
            ["claims: *1 refuted", "claims: result: refuted, exit status 1"]
        )
    # A thread that outlives its test has not judged all that the test named.
    if how != "a thread that outlives its test" and not workers:
        assert project.runpytest("--claims-advisory").ret == 0


@pytest.mark.parametrize("options", [(), ("-n1",)])
@pytest.mark.parametrize(
    "body",
    [
        """
@pytest.mark.xfail(strict=True)
def test_it(claim): claim("start.alike").compares(around(450), to=around(350))
""",
        """
@pytest.mark.xfail(strict=True)
def test_it(claim): refute(claim)
""",
        """
class TestIt(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _claim(self, claim): self.claim = claim
    @unittest.expectedFailure
    def test_it(self): self.claim("start.alike").compares(around(450), to=around(350))
""",
    ],
)
def test_a_refutation_that_must_happen_does_not_end_the_run_with_1(
    project: pytest.Pytester, body: str, options: tuple[str, ...]
) -> None:
    project.makepyfile(HEAD + body)
    result = project.runpytest(*options, "--claims-json=out.json")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["claims: 1 refuted", "claims: result: ok, exit status 0"])
    assert result_of(project.path / "out.json") == {
        "word": "ok",
        "exit_status": 0,
        "level": "refuted",
    }


NOTHING = {
    "never named": "def test_it(claim): pass",
    "an empty loop": """
def test_it(claim):
    for name in (): claim(name).holds(around(350))
""",
    "named in teardown": """
@pytest.fixture
def late(claim):
    yield
    claim("start.quick")
def test_it(late): pass
""",
    "never named in teardown": """
@pytest.fixture
def late(claim): yield
def test_it(late): pass
""",
    "a TestCase": """
class TestIt(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _claim(self, claim): self.claim = claim
    def test_it(self): pass
""",
}
UNJUDGED = {
    "named twice and judged once": """
def test_it(claim):
    claim("start.alike")
    claim("start.alike").compares(around(100), to=around(99))
""",
    "named in set-up": """
@pytest.fixture
def early(claim): return claim("start.alike")
def test_it(early): pass
""",
    "in a sampler that swallows": """
def test_it(claim):
    good = around(100)
    def sample():
        with suppress(TypeError):
            claim("start.alike").compares(around(100), to=around(99))
        return good()
    claim("start.alike").compares(sample, to=around(99))
""",
    "the wrong way": """
def test_it(claim):
    with suppress(TypeError):
        claim("start.alike").holds(around(100))
""",
}
CALL = "call .holds(…), .compares(…), .near(…) or .saturates(…)"


@pytest.mark.parametrize("options", [(), ("-n1",), ("--claims-advisory",)])
@pytest.mark.parametrize("how", NOTHING)
def test_a_test_that_asks_for_claim_and_judges_nothing_fails(
    project: pytest.Pytester, how: str, options: tuple[str, ...]
) -> None:
    project.makepyfile(HEAD + NOTHING[how])
    result = project.runpytest(*options)
    assert result.ret == 1
    text = f"claimed nothing: this test asks for `claim` and judges none: claim(NAME), then {CALL}"
    if how == "named in teardown":
        text = f"claim 'start.quick' was named but never judged: {CALL}"
    result.stdout.fnmatch_lines([text])


@pytest.mark.parametrize("how", UNJUDGED)
def test_a_test_that_does_not_judge_what_it_names_fails(project: pytest.Pytester, how: str) -> None:
    project.makepyfile(HEAD + UNJUDGED[how])
    result = project.runpytest()
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"claim 'start.alike' was named but never judged: {CALL}"])


def test_a_misspelt_name_cannot_be_swallowed(project: pytest.Pytester) -> None:
    project.makepyfile(
        f"""{HEAD}
def test_it(claim):
    with suppress(LookupError):
        claim("start.quik").holds(around(350))
    claim("start.alike").compares(around(100), to=around(99))
"""
    )
    result = project.runpytest()
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["claim 'start.quik' was never judged: *start.quick*", "*1 failed*"]
    )


def test_a_claim_may_be_named_in_set_up_and_judged_in_teardown(project: pytest.Pytester) -> None:
    project.makepyfile(
        f"""{HEAD}
@pytest.fixture
def late(claim):
    named = claim("start.alike")
    yield
    named.compares(around(100), to=around(99))
def test_it(late): pass
def test_skipped(late): pytest.skip("not today")
@pytest.fixture
def absent(claim): missing()
def test_absent(absent): pass
"""
    )
    result = project.runpytest("-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*::test_it PASSED*", "claims: 2 held, 1 not measured"])


def test_a_claim_in_the_sampler_of_another_is_an_error(project: pytest.Pytester) -> None:
    project.makepyfile(
        f"""{HEAD}
def test_it(claim):
    def sample():
        claim("start.quick").holds(around(350))
        return around(350)()
    claim("start.alike").compares(sample, to=around(350))
"""
    )
    result = project.runpytest()
    assert result.ret == 1
    text = (
        "claim 'start.quick' is judged inside a sample of claim 'start.alike': judge one after the "
        "other"
    )
    result.stdout.fnmatch_lines([f"*ClaimError: {text}"])


LEVELS = """
def test_held(claim): claim("start.alike").compares(around(100), to=around(99))
def test_refuted(claim): claim("start.alike").compares(around(120), to=around(99))
def test_open(claim): claim("start.quick").holds(around(400))
def test_missing(claim): claim("start.alike").compares(missing, to=around(99))
def test_elsewhere(claim): claim("start.elsewhere").holds(around(50))
def test_plain(): pass
"""


@pytest.mark.parametrize(
    ("level", "ok"),
    [
        ("advisory", "held refuted open missing elsewhere"),
        ("refuted", "held open elsewhere"),
        ("measured", "held open elsewhere"),
        ("strict", "held"),
    ],
)
def test_a_level_says_what_fails(project: pytest.Pytester, level: str, ok: str) -> None:
    project.makepyfile(HEAD + LEVELS)
    kinds = ("held", "refuted", "open", "missing", "elsewhere")
    for kind in kinds:
        result = project.runpytest("-k", f"test_{kind}", f"--claims-level={level}")
        word = {"refuted": "refuted", "missing": "nothing measured"}.get(kind, "not proven")
        status = 5 if kind == "missing" and level == "refuted" else 1
        if kind in ok.split():
            word, status = "ok", 0
        assert (kind, result.ret) == (kind, status)
        result.stdout.fnmatch_lines([f"claims: result: {word}, exit status {status}"])
    assert project.runpytest(f"--claims-level={level}").ret == int(level != "advisory")


@pytest.mark.parametrize(
    ("level", "status", "word"),
    [("refuted", 0, "ok"), ("measured", 1, "not proven"), ("strict", 1, "not proven")],
)
def test_one_claim_that_was_not_measured(
    project: pytest.Pytester, level: str, status: int, word: str
) -> None:
    project.makepyfile(HEAD + LEVELS)
    result = project.runpytest("-k", "missing or held", f"--claims-level={level}")
    assert result.ret == status
    result.stdout.fnmatch_lines([f"claims: result: {word}, exit status {status}"])


def test_a_broken_test_is_told_from_a_refuted_claim(project: pytest.Pytester) -> None:
    project.makepyfile(own=f"{HEAD}{LEVELS}\ndef test_broken(claim): assert False\n")
    for more, word in ((" or held", "broken"), (" or refuted", "refuted"), (" or open", "broken")):
        result = project.runpytest("-k", f"test_broken{more}", "--claims-json=out.json", "own.py")
        assert result.ret == 1
        result.stdout.fnmatch_lines([f"claims: result: {word}, exit status 1"])
        assert result_of(project.path / "out.json")["word"] == word


def test_a_run_without_tests_says_that_nothing_was_measured(project: pytest.Pytester) -> None:
    project.makepyfile(HEAD + LEVELS)
    result = project.runpytest("-k", "no_such_test", "--claims-json=out.json")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert result_of(project.path / "out.json") == {
        "word": "nothing measured",
        "exit_status": 5,
        "level": "refuted",
    }


def test_a_swallowed_refutation_is_named(project: pytest.Pytester) -> None:
    project.makepyfile(HEAD + SWALLOWED["a mark that is not strict"])
    result = project.runpytest()
    result.stdout.fnmatch_lines(
        ["claims: start.alike is refuted, and its test did not fail: *.py::test_it"]
    )


@pytest.mark.parametrize(
    ("ini", "options", "said"),
    [
        ("", ("--claims-level=hard",), "--claims-level=hard: there are the levels {}"),
        ("claims_level = hard", (), "claims_level = hard: there are the levels {}"),
        (
            "",
            ("--claims-level=measured", "--claims-strict"),
            "--claims-strict and --claims-level=measured contradict each other: give one of them",
        ),
    ],
)
def test_a_level_that_is_none_is_refused(
    project: pytest.Pytester, ini: str, options: tuple[str, ...], said: str
) -> None:
    project.makeini(f"[pytest]\n{ini}\n")
    result = project.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {said.format('advisory, refuted, measured, strict')}"])
