"""--libvirt-uri: anything but an address of a daemon that runs machines is refused before any target starts."""

from __future__ import annotations

import pytest

SHOWS = """
    from pytest_vperf.run.stash import claims_session
    def test_it(request):
        print("uris:", dict(claims_session(request.config).settings.libvirt_uris))
"""
USES = """
    from samplers import around
    def test_it(claim):
        open("measured", "w").close()
        claim("start.quick").holds(around(350))
"""
EXAMPLE = "give qemu:///system, qemu+ssh://root@HOST/system or xen:///system"


def refused(project: pytest.Pytester, *options: str) -> str:
    """The text of the usage error."""
    result = project.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert not (project.path / "measured").exists()
    errors = [line for line in result.errlines if line]
    assert errors[0].startswith("ERROR: ")
    return "\n".join(errors).removeprefix("ERROR: ")


def shown(project: pytest.Pytester, *options: str) -> str:
    """The daemons that a run would use."""
    result = project.runpytest("-s", *options)
    assert result.ret == 0
    (line,) = [line for line in result.outlines if "uris: " in line]
    return line.rpartition("uris: ")[2]


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("", f"'' names no driver of libvirt that starts machines here: {EXAMPLE}"),
        (
            "lxc:///system",
            f"'lxc:///system' names no driver of libvirt that starts machines here: {EXAMPLE}",
        ),
        (
            "root@host",
            f"'root@host' names no driver of libvirt that starts machines here: {EXAMPLE}",
        ),
        (
            "qemu+rsh://host/system",
            "'qemu+rsh://host/system': 'rsh' is not a transport of libvirt; "
            "there are unix, ssh, libssh, libssh2, tls, tcp, ext",
        ),
        ("qemu:///", f"'qemu:///': the path is not /system: {EXAMPLE}"),
        ("qemu+ssh://host:x/system", f"'qemu+ssh://host:x/system' is not an address: {EXAMPLE}"),
    ],
)
@pytest.mark.parametrize("claims", [True, False], ids=["claims", "claims-nothing"])
def test_bad_addresses_are_refused(
    project: pytest.Pytester, uri: str, text: str, claims: bool
) -> None:
    project.makepyfile(USES if claims else "def test_it(): pass")
    assert refused(project, f"--libvirt-uri={uri}") == f"--libvirt-uri: {text}"


def test_two_addresses_of_one_driver_are_refused(project: pytest.Pytester) -> None:
    project.makepyfile(USES)
    assert (
        refused(
            project,
            "--libvirt-uri=qemu:///system",
            "--libvirt-uri=xen+ssh://host/",
            "--libvirt-uri=qemu+ssh://host/system",
        )
        == "--libvirt-uri: two for qemu: qemu:///system and qemu+ssh://host/system"
    )


def test_one_address_of_each_driver_is_accepted(project: pytest.Pytester) -> None:
    project.makepyfile(SHOWS)
    assert shown(project) == "{}"
    found = shown(project, "--libvirt-uri=xen+ssh://root@h/", "--libvirt-uri", "qemu:///session")
    assert found == "{'xen': 'xen+ssh://root@h/', 'qemu': 'qemu:///session'}"


def test_the_command_line_comes_before_the_ini_file(project: pytest.Pytester) -> None:
    project.makepyfile(SHOWS)
    project.makeini("[pytest]\nlibvirt_uri = qemu:///system xen:///system\n")
    assert shown(project) == "{'qemu': 'qemu:///system', 'xen': 'xen:///system'}"
    assert shown(project, "--libvirt-uri=qemu:///session") == "{'qemu': 'qemu:///session'}"


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (
            "hyperv://host/",
            f"'hyperv://host/' names no driver of libvirt that starts machines here: {EXAMPLE}",
        ),
        (
            "xen:/// xen+ssh://host/",
            "two for xen: xen:/// and xen+ssh://host/",
        ),
    ],
)
def test_bad_addresses_in_the_ini_file_are_refused(
    project: pytest.Pytester, setting: str, text: str
) -> None:
    project.makepyfile(USES)
    project.makeini(f"[pytest]\nlibvirt_uri = {setting}\n")
    assert refused(project) == f"--libvirt-uri: {text}"
