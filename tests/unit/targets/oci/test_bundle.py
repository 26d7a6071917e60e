"""The bundle that OCI runtimes are given."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_vperf.targets.oci.bundle import Settings, write


def config(folder: Path, settings: Settings) -> dict[str, object]:
    write(folder, Path("/images/root"), "/vperf-1/a", settings)
    content: dict[str, object] = json.loads((folder / "config.json").read_text())
    return content


def kinds(content: dict[str, object]) -> list[str]:
    linux = content["linux"]
    assert isinstance(linux, dict)
    return [each["type"] for each in linux["namespaces"]]


def test_a_container_is_confined_as_by_runc_spec(tmp_path: Path) -> None:
    content = config(tmp_path, Settings(("/bin/true",)))
    assert content["root"] == {"path": "/images/root", "readonly": True}
    process, linux = content["process"], content["linux"]
    assert isinstance(process, dict)
    assert isinstance(linux, dict)
    assert process["args"] == ["/bin/true"]
    assert process["noNewPrivileges"] is True
    assert {tuple(held) for held in process["capabilities"].values()} == {
        ("CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE")
    }
    assert linux["cgroupsPath"] == "/vperf-1/a"
    assert linux["resources"] == {"devices": [{"allow": False, "access": "rwm"}]}
    assert sorted(kinds(content)) == ["ipc", "mount", "network", "pid", "uts"]


def test_memory_and_the_hosts_network_are_settings(tmp_path: Path) -> None:
    content = config(tmp_path, Settings(memory=4 << 20, network=False))
    linux = content["linux"]
    assert isinstance(linux, dict)
    assert linux["resources"]["memory"] == {"limit": 4 << 20}
    assert "network" not in kinds(content)
