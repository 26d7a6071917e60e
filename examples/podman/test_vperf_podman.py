"""Claims about real containers of podman, and what is left of them."""

import pytest

pytest_plugins = "pytester"

LIMITS = "hardware: {name: any, match: {}}\nclaims: {startup.podman: {at_most: 60 s}}\n"
TEST = """
    import pytest
    from pytest_vperf import TimedOut

    def test_start(claim, podmans):
        claim("startup.podman").holds(lambda: podmans.start().startup_time)

    def test_commands(podman, tmp_path):
        done = podman.run(["sh", "-c", "cat; echo $A; pwd"], input=b"in ", env={"A": "1"}, cwd="/tmp")
        assert done.text == "in 1\\n/tmp\\n"
        (tmp_path / "a").write_bytes(b"there")
        podman.put(tmp_path / "a", "/b")
        podman.get("/b", tmp_path / "c")
        assert (tmp_path / "c").read_bytes() == b"there"
        with pytest.raises(TimedOut):
            podman.run(["sleep", "4321"], timeout=1)
        assert "4321" not in podman.run(["ps"]).text
"""


def test_podman(pytester: pytest.Pytester) -> None:
    pytester.mkdir("thresholds").joinpath("any.yaml").write_text(LIMITS)
    pytester.makepyfile(TEST)
    run = pytester.runpytest_subprocess("--claims-strict", "--claims-sessions=1")
    assert run.ret == 0
    run.stdout.fnmatch_lines(["holds *startup.podman *podman", "claims: 1 held"])
