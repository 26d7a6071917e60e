"""The command line itself."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_vperf
from pytest_vperf.cli import main


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"vperf {pytest_vperf.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["cure"], ["clean", "--all"]])
def test_bad_options_are_usage_errors(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage: vperf" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["doctor", "selfcheck", "calibrate", "claims", "clean", "schema"]
)
def test_help_of_each_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert f"usage: vperf {command}" in capsys.readouterr().out


def test_schema_is_json_schema(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["schema"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["properties"].keys() >= {"hardware", "claims"}
    goal = tmp_path / "schema.json"
    assert main(["schema", "--output", str(goal)]) == 0
    assert goal.read_text("utf-8") == printed


def test_an_unwritable_schema_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    goal = tmp_path / "no folder" / "schema.json"
    assert main(["schema", "--output", str(goal)]) == 1
    assert capsys.readouterr().err == f"vperf schema: {goal}: No such file or directory\n"


@pytest.mark.parametrize("words", [["schema"], ["claims"], ["claims", "--json"]], ids=" ".join)
def test_a_full_disk_is_reported_in_one_line(words: list[str]) -> None:
    program = "import sys; from pytest_vperf.cli import main; sys.exit(main())"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        1,
        "vperf: standard output: No space left on device\n",
    )


def test_an_untrusted_runs_folder_is_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such.sock")
    assert main(["clean"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"vperf: other users may write to {tmp_path}, ")
    assert err.count("\n") == 1


# A long command with something to clean up.
LONG = """
import sys, time
from pytest_vperf.commands import clean; from pytest_vperf import cli

def run(*, dry_run):
    try:
        print("works", flush=True)
        time.sleep(60)
    finally:
        print("cleaned up", flush=True)

clean.run = run
sys.exit(cli.main(["clean"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_command_cleans_up_and_says_so(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "works\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "cleaned up\n", "vperf: interrupted\n")


def test_the_module_runs_like_the_command() -> None:
    command = [sys.executable, "-m", "pytest_vperf", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"vperf {pytest_vperf.__version__}\n"


def test_help_and_version_import_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from pytest_vperf.cli import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'docker', 'pint', 'pydantic', 'pytest', 'rich', 'scipy', 'yaml'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
