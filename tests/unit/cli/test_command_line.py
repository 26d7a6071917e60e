"""The command line itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_vperf
from pytest_vperf.cli import main


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"vperf {pytest_vperf.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["cure"], ["clean", "--all"]])
def test_what_is_not_understood_is_a_usage_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage: vperf" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["doctor", "clean", "schema"])
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


def test_schema_that_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    goal = tmp_path / "no folder" / "schema.json"
    assert main(["schema", "--output", str(goal)]) == 1
    assert capsys.readouterr().err == f"vperf schema: {goal}: No such file or directory\n"


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
