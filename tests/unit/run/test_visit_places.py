"""The place of a later visit to a test: never between two tests that share a fixture it would end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

CLAIM = """
    from samplers import around
    def test_claim(claim): claim("start.quick").holds(around(350))
"""


def runs(result: pytest.RunResult) -> list[str]:
    """The verbose terminal's lines for each run of a test, in order."""
    lines = [line.partition("::")[2].partition(" [")[0] for line in result.outlines]
    return [line.partition(" (")[0].rstrip() for line in lines if line]


def test_the_fixtures_of_a_module_are_not_ended_between_its_tests(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_1=CLAIM,
        test_2="""
        import pytest
        @pytest.fixture(scope="module")
        def table(): return []
        def test_create(table): table.append("row")
        def test_use_1(table): assert table == ["row"]
        def test_use_2(table): assert table == ["row"]
        """,
    )
    result = project.runpytest("-v", "-rN")
    assert runs(result) == [
        "test_claim session 1 of 3",
        "test_create PASSED",
        "test_use_1 PASSED",
        "test_use_2 PASSED",
        "test_claim session 2 of 3",
        "test_claim HELD",
    ]


def test_the_fixtures_of_a_class_are_not_ended_between_its_tests(project: pytest.Pytester) -> None:
    """A visit due within a class comes after it, in the middle of their module."""
    project.makepyfile(
        """
        from samplers import around
        def test_claim(claim): claim("start.quick").holds(around(350))
        class TestSteps:
            @classmethod
            def setup_class(cls): cls.log = []
            def test_1(self): self.log.append(1)
            def test_2(self): assert self.log == [1]
            def test_3(self): assert self.log == [1]
            def test_4(self): assert self.log == [1]
        def test_after(): pass
        """
    )
    result = project.runpytest("-v", "-rN")
    assert runs(result) == [
        "test_claim session 1 of 3",
        "TestSteps::test_1 PASSED",
        "TestSteps::test_2 PASSED",
        "TestSteps::test_3 PASSED",
        "TestSteps::test_4 PASSED",
        "test_claim session 2 of 3",
        "test_after PASSED",
        "test_claim HELD",
    ]


def test_the_fixtures_of_a_package_are_not_ended_between_its_modules(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(test_0=CLAIM)
    package = project.mkpydir("test_package")
    (package / "conftest.py").write_text(
        "import pytest\n@pytest.fixture(scope='package')\ndef table(): return []\n"
    )
    for number in (1, 2, 3):
        text = f"def test_{number}(table):\n    assert len(table) == {number - 1}\n    table.append(1)\n"
        (package / f"test_{number}.py").write_text(text)
    result = project.runpytest("-v", "-rN", "test_0.py", "test_package")
    assert runs(result) == [
        "test_claim session 1 of 3",
        "test_1 PASSED",
        "test_2 PASSED",
        "test_3 PASSED",
        "test_claim session 2 of 3",
        "test_claim HELD",
    ]


def test_a_folder_that_is_no_package_has_no_fixtures_to_end(project: pytest.Pytester) -> None:
    project.makepyfile(test_0=CLAIM)
    folder = project.mkdir("folder")
    for number in (1, 2, 3, 4):
        (folder / f"test_{number}.py").write_text(f"def test_{number}(): pass\n")
    result = project.runpytest("-v", "-rN", "test_0.py", "folder")
    assert runs(result) == [
        "test_claim session 1 of 3",
        "test_1 PASSED",
        "test_2 PASSED",
        "test_claim session 2 of 3",
        "test_3 PASSED",
        "test_4 PASSED",
        "test_claim HELD",
    ]


def test_a_fixture_with_parameters_is_not_made_anew_between_tests_of_one_parameter(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        import pytest
        from samplers import around
        @pytest.fixture(scope="module", params=[350, 450])
        def level(request): return [request.param]
        def test_claim(claim, level):
            if level[0] == 350: claim("start.quick").holds(around(level[0]))
            else: claim("start.alike").compares(around(1), to=around(1))
        def test_1(level): level.append(1)
        def test_2(level): assert level[1:] == [1]; level.append(2)
        def test_3(level): assert level[1:] == [1, 2]
        """
    )
    result = project.runpytest("-v", "-rN")
    result.stdout.fnmatch_lines(["* 6 passed, 2 held in *"])
    assert runs(result) == [
        "test_claim[350] session 1 of 3",
        *(f"test_{number}[350] PASSED" for number in (1, 2, 3)),
        "test_claim[450] HELD",
        *(f"test_{number}[450] PASSED" for number in (1, 2, 3)),
        "test_claim[350] session 2 of 3",
        "test_claim[350] HELD",
    ]


def test_several_that_are_due_come_at_the_first_place_for_each(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_1="""
        from samplers import around
        def test_a(claim): claim("start.quick").holds(around(350))
        def test_b(claim): claim("start.quick").holds(around(350))
        """,
        test_2="""
        def test_1(): pass
        def test_2(): pass
        def test_3(): pass
        """,
        test_3="""
        def test_4(): pass
        def test_5(): pass
        """,
    )
    result = project.runpytest("-v", "-rN")
    assert runs(result) == [
        "test_a session 1 of 3",
        "test_b session 1 of 3",
        "test_1 PASSED",
        "test_2 PASSED",
        "test_3 PASSED",
        "test_a session 2 of 3",
        "test_b session 2 of 3",
        "test_4 PASSED",
        "test_5 PASSED",
        "test_a HELD",
        "test_b HELD",
    ]
