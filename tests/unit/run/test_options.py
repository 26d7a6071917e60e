"""The options: declared once, beside a project's own, and found by their new names where an old one is given."""

from __future__ import annotations

import struct

import pytest

from pytest_vperf.run.options import OPTIONS, RENAMED, Option, Settings
from pytest_vperf.run.settings import READERS, read_settings

RENAMED_INI = {ini: f"vperf_{name}".replace("-", "_") for name, ini in RENAMED.items()}

#: A conftest file with options and ini settings of the old names.
THEIRS = f"""
    def pytest_addoption(parser):
        for name in {tuple(RENAMED)}:
            if name == "host-tools":
                parser.addoption("--host-tools", action="store_true")
            else:
                parser.addoption(f"--{{name}}", type=lambda text: text.upper())
        for ini in {tuple(RENAMED.values())}:
            parser.addini(ini, "theirs", type="args")
"""

#: What has to be given along with an option.
ALONG = {
    "baseline_kernel": ["--vperf-kernel=other"],
    "claims_base": ["--claims-head=env.A=2"],
    "same_on_purpose": ["--claims-head=env.A=2"],
}
#: The settings that an option changes, if these are not the one of its own.
CHANGES = {
    "claims_time": ["judge", "time"],
    "claims_baseline": ["level", "baseline"],
    "claims_head": ["level", "sides"],
    "vperf_kernel": ["level", "sides"],
    "same_on_purpose": [],
}


@pytest.fixture
def folder(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with the files that the values name."""
    pytester.mkdir("mine")
    head = bytearray(0x1000)
    head[0x1FE:0x206] = b"\x55\xaa\0\0HdrS"
    (pytester.path / "vmlinuz").write_bytes(head)
    (pytester.path / "fleet.yaml").write_text("engine: ssh\nhosts: {h1: type1}\n")
    (pytester.path / "other").write_bytes(head + b"more")
    own = b"QFI\xfb" + struct.pack(">IQIIQ", 2, 0, 0, 16, 1 << 30)
    (pytester.path / "own.qcow2").write_bytes(own.ljust(72, b"\0"))
    return pytester


def settings(folder: pytest.Pytester, *words: str) -> Settings:
    return read_settings(folder.parseconfig("--claims-seed=1", *words))


@pytest.mark.parametrize("ini", OPTIONS)
@pytest.mark.parametrize("where", ["command line", "ini"])
def test_each_option_is_one_setting(folder: pytest.Pytester, ini: str, where: str) -> None:
    option = OPTIONS[ini]
    along = ALONG.get(ini, [])
    usual = settings(folder, *along)
    value = option.example
    word = f"{option.name}={value}" if value else option.name
    if where == "ini" and option.typed:
        message = rf"^{ini} is no ini setting, .*: give {option.name} on the command line$"
        with pytest.raises(pytest.UsageError, match=message):
            settings(folder, *along, f"--override-ini={ini}={value}")
        return
    if where == "ini":
        quoted = f'"{value}"' if option.kind in ("texts", "paths") else value
        word = f"--override-ini={ini}={quoted or 'true'}"
    if ini == "claims_seed" and where == "ini":
        found = read_settings(folder.parseconfig(word))
        assert found.seed == 7
        return
    found = settings(folder, *along, word)
    changed = [
        name for name in Settings.__annotations__ if getattr(found, name) != getattr(usual, name)
    ]
    assert changed == CHANGES.get(ini, [OPTIONS[ini].setting])


def test_each_setting_has_an_option() -> None:
    assert {option.setting for option in OPTIONS.values()} == set(Settings.__annotations__)


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_each_option_is_described(option: Option) -> None:
    assert option.help
    assert not option.help.endswith(".")
    assert not (option.default and option.otherwise)
    assert bool(option.example) == (option.kind != "flag")
    assert not option.reads or option.reads in READERS
    assert bool(option.takes[0]) == (option.reads == "number")
    assert ("=" in option.usage) == (option.kind != "flag")
    assert option.ini.isidentifier()


def test_help_shows_each_option_in_the_order_of_the_table(pytester: pytest.Pytester) -> None:
    text = " ".join(" ".join(pytester.runpytest("--help").outlines).split())
    place = text.index("performance claims (pytest-vperf):")
    for option in OPTIONS.values():
        place = text.index(f" {option.usage} {option.help} (", place)
        shown = option.default or option.otherwise
        setting = "no ini setting" if option.typed else f"ini: {option.ini}"
        end = f"(default: {shown}; {setting})" if shown else f"({setting})"
        place = text.index(end, place)


def test_a_project_has_options_of_the_old_names(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(THEIRS)
    pytester.makeini(
        "[pytest]\n"
        + "".join(f"{ini} = their {ini}\n" for ini in RENAMED_INI)
        + "vperf_lab = kvm\n"
    )
    pytester.makepyfile(
        f"""
        from pytest_vperf.run.stash import claims_session

        def test_it(request):
            config = request.config
            names = ("--kernel", "--on", "--lab", "--accelerator")
            assert [config.getoption(name) for name in names] == ["A", "B", "C", "D"]
            assert config.getoption("--host-tools") is True
            for ini in {tuple(RENAMED_INI)}:
                assert config.getini(ini) == ["their", ini]
            settings = claims_session(config).settings
            assert (bool(settings.sides), settings.on, settings.labs) == (False, "", ("kvm",))
            assert (settings.accelerators, settings.host_tools) == (("tcg",), False)
        """
    )
    words = ("--kernel=a", "--on", "b", "--lab=c", "--accelerator=d", "--host-tools")
    pytester.runpytest(*words, "--vperf-accelerator=tcg").assert_outcomes(passed=1)


@pytest.mark.parametrize("old", RENAMED)
@pytest.mark.parametrize("claims", [True, False], ids=["claims", "claims-nothing"])
@pytest.mark.parametrize("by", ["command line", "addopts"])
def test_an_old_name_says_the_new_one(
    pytester: pytest.Pytester, old: str, claims: bool, by: str
) -> None:
    pytester.makepyfile("def test_it(claim): pass" if claims else "def test_it(): pass")
    word = f"--{old}" if old == "host-tools" else f"--{old}=kvm"
    if by == "addopts":
        pytester.makeini(f"[pytest]\naddopts = {word}\n")
    result = pytester.runpytest(*([word] if by == "command line" else []))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        f"ERROR: --{old} is called --vperf-{old} now"
    ]


@pytest.mark.parametrize("old", RENAMED_INI)
@pytest.mark.parametrize("by", ["ini", "toml", "-o"])
def test_an_old_ini_setting_says_the_new_one(pytester: pytest.Pytester, old: str, by: str) -> None:
    pytester.makepyfile("def test_it(): pass")
    words = ["-o", f"{old}=kvm"] if by == "-o" else []
    if by == "ini":
        pytester.makeini(f"[pytest]\n{old} = kvm\n")
    elif by == "toml":
        pytester.makepyprojecttoml(f"[tool.pytest.ini_options]\n{old} = 'kvm'\n")
    result = pytester.runpytest(*words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        f"ERROR: the ini setting {old} is called {RENAMED_INI[old]} now"
    ]


def test_other_unknown_options_are_refused_by_pytest(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--labs")
    result.stderr.fnmatch_lines(["*unrecognized arguments: --labs*"])


def test_a_broken_conftest_is_reported_first(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import no_such_module")
    result = pytester.runpytest("--lab=kvm")
    result.stderr.fnmatch_lines(["*ModuleNotFoundError: No module named 'no_such_module'"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--guest-image=vmlinuz"],
            "--guest-image: {folder}/vmlinuz cannot be a guest's image: it is not in the format qcow2, which qemu-img"
            " convert -O qcow2 makes",
        ),
        (
            ["--guest-kernel=vmlinuz"],
            "--guest-image: a guest's own image has its own kernel: leave out --guest-kernel",
        ),
        (
            ["--vperf-kernel=vmlinuz"],
            "--guest-image: guests with their own image would be the same on all sides, whatever the kernel of these:"
            " leave it out where sides have a setting kernel",
        ),
        (
            ["--claims-head=image=debian:12"],
            "--guest-image: guests with their own image would be the same on all sides, whatever the image of these:"
            " leave it out where sides have a setting image",
        ),
    ],
)
def test_a_guest_s_own_image_is_what_it_boots(
    folder: pytest.Pytester, words: list[str], message: str
) -> None:
    with pytest.raises(pytest.UsageError) as caught:
        settings(folder, "--guest-image=own.qcow2", *words)
    assert str(caught.value) == message.replace("{folder}", str(folder.path))
    assert settings(folder, "--guest-image=own.qcow2", "--claims-head=env.A=1").guest_image
