"""Bad input is refused before any target starts, with exit status 4 and a text that names it."""

from __future__ import annotations

import json

import pytest

USES = """
    from samplers import around
    def test_it(claim):
        open("measured", "w").close()
        claim("start.quick").holds(around(350))
"""


def refused(project: pytest.Pytester, *options: str) -> str:
    """The text of the usage error."""
    result = project.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert not (project.path / "measured").exists()
    errors = [line for line in result.errlines if line]
    assert errors[0].startswith("ERROR: ")
    return "\n".join(errors).removeprefix("ERROR: ")


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (
            "--claims-budget=soon",
            "--claims-budget: 'soon' is not a time such as '60 s' or '2 min': "
            "'soon' is not a number with a unit, such as '400 ms'",
        ),
        (
            "--claims-budget=3 MB",
            "--claims-budget: '3 MB' is not a time such as '60 s' or '2 min': *",
        ),
        (
            "--density-memory=much",
            "--density-memory is 'much', not one such as '6 GiB': "
            "'much' is not a number with a unit, such as '400 ms'",
        ),
        ("--density-memory=3 s", "--density-memory is '3 s', not one such as '6 GiB': *"),
        ("--density-floor=0 MiB", "--density-floor: '0 MiB' is not more than 0"),
        ("--density-max=0", "--density-max: '0' is not a whole number from 1 on"),
        ("--density-max=many", "--density-max: 'many' is not a whole number from 1 on"),
        ("--scale-count=many", "--scale-count: 'many' is not a whole number from 1 to 9999"),
        ("--scale-count=0", "--scale-count: '0' is not a whole number from 1 to 9999"),
        ("--claims-budget=0 s", "--claims-budget: '0 s' is not more than 0"),
        ("--claims-budget=-1 min", "--claims-budget: '-1 min' is not more than 0"),
        (
            "--claims-tolerance=5",
            "--claims-tolerance: a tolerance is more than 0 % and less than 100 %, "
            "such as '2 %' or 0.02, not '5'",
        ),
        (
            "--claims-tolerance=2 ms",
            "--claims-tolerance: '2 ms' is not a percentage or ratio such as '2 %' or 0.02",
        ),
        (
            "--claims-alpha=0.5",
            "--claims-alpha: the chance of a wrong verdict is from 0.000001 to 0.2, "
            "such as 0.01, not '0.5'",
        ),
        (
            "--claims-beta=low",
            "--claims-beta: 'low' is not a chance such as 0.01: "
            "'low' is not a number with a unit, such as '400 ms'",
        ),
        (
            "--claims-pairs=3",
            "--claims-pairs: must be a whole number from 4 to 1000000, not '3'",
        ),
        ("--claims-sessions=2", "--claims-sessions: '2' is not 1 or 3"),
        ("--claims-seed=x", "--claims-seed: 'x' is not a whole number from 0 on"),
        (
            "--claims-json=no/such/folder/x",
            "--claims-json: */no/such/folder/x cannot be written: No such *",
        ),
        ("--claims-json=thresholds", "--claims-json: */thresholds is not a file"),
        ("--claims-json=", "--claims-json: the file's name is empty"),
        ("--claims-thresholds=nowhere", "--claims-thresholds: */nowhere is not a folder"),
        ("--guest-kernel=nowhere", "--guest-kernel: */nowhere is not a file"),
        ("--vperf-kernel=nowhere", "--vperf-kernel: */nowhere does not exist"),
        ("--vperf-kernel=", "--vperf-kernel: the file's name is empty"),
        (
            "--vperf-kernel=thresholds/any.yaml",
            "--vperf-kernel: guest kernel */thresholds/any.yaml: not a Linux kernel for x86 "
            "(no boot header at offset 0x202); give a bzImage, usually named vmlinuz-[*]",
        ),
        ("--baseline-kernel=thresholds", "--baseline-kernel: */thresholds is not a file"),
        ("--container-image=no.tar", "--container-image: */no.tar is not a file"),
        ("--container-runtime=runc,", "--container-runtime: '' is not a name"),
        ("--container-runtime=../runc", "--container-runtime: '../runc' is not a name"),
        (
            "--vperf-accelerator=hvf",
            "--vperf-accelerator: 'hvf' is not known; there are kvm, tcg and auto",
        ),
        ("--vperf-accelerator=auto,kvm", "--vperf-accelerator: auto stands alone"),
        (
            "--hw=lba",
            # An installed plugin brings profiles of its own.
            "there is no hardware profile 'lba'; did you mean 'lab'? (there are auto, any, *here, *lab*)",
        ),
    ],
)
@pytest.mark.parametrize("claims", [True, False], ids=["claims", "claims-nothing"])
def test_bad_options_are_usage_errors(
    project: pytest.Pytester, option: str, text: str, claims: bool
) -> None:
    project.makepyfile(USES if claims else "def test_it(): pass")
    lines = pytest.LineMatcher([refused(project, option)])
    lines.fnmatch_lines([text])


def test_a_baseline_kernel_needs_another_kernel(project: pytest.Pytester) -> None:
    """On the command line it is a mistake; in the ini file it waits for a run with --vperf-kernel."""
    project.makepyfile(USES)
    head = bytearray(0x1000)
    head[0x1FE:0x206] = b"\x55\xaa\0\0HdrS"
    (project.path / "vmlinuz").write_bytes(head)
    assert refused(project, "--baseline-kernel=vmlinuz") == (
        "--baseline-kernel: there is no head to compare it with: --vperf-kernel=FILE"
    )
    project.makeini("[pytest]\nbaseline_kernel = vmlinuz\n")
    assert project.runpytest().ret == 0
    project.makeini("[pytest]\nbaseline_kernel = nowhere\n")
    (project.path / "measured").unlink()
    lines = pytest.LineMatcher([refused(project)])
    lines.fnmatch_lines(["--baseline-kernel: */nowhere does not exist"])


def test_contradicting_modes_are_refused(project: pytest.Pytester) -> None:
    project.makepyfile(USES)
    assert refused(project, "--claims-strict", "--claims-advisory") == (
        "--claims-strict and --claims-advisory contradict each other: give one of them"
    )
    project.makeini("[pytest]\nclaims_strict = true\nclaims_advisory = true\n")
    assert refused(project) == (
        "claims_strict = true and claims_advisory = true contradict each other: give one of them"
    )
    assert project.runpytest("--claims-advisory").ret == 0


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("claims_budget = long", "--claims-budget: 'long' is not a time such as*"),
        (
            "claims_tolerance = 200%",
            "--claims-tolerance: a tolerance is more than 0 % and *, not '200%'",
        ),
        ("claims_alpha = 0", "--claims-alpha: the chance of a wrong verdict is from *, not '0'"),
        ("claims_beta = one", "--claims-beta: 'one' is not a chance such as 0.01: *"),
        ("claims_pairs = 1e3", "--claims-pairs: must be a whole number from 4 to *, not '1e3'"),
        ("claims_sessions = 5", "--claims-sessions: '5' is not 1 or 3"),
        ("claims_strict = perhaps", "claims_strict: *perhaps*"),
        ("container_runtime = ../runc", "--container-runtime: '../runc' is not a name"),
        (
            "vperf_accelerator = hvf",
            "--vperf-accelerator: 'hvf' is not known; there are kvm, tcg and auto",
        ),
    ],
)
@pytest.mark.parametrize("asks", ["claim", "containers", "pods", "tmp_path"])
def test_bad_ini_settings_are_usage_errors(
    project: pytest.Pytester, setting: str, text: str, asks: str
) -> None:
    project.makepyfile(f"def test_it({asks}): pass")
    project.makeini(f"[pytest]\n{setting}\n")
    pytest.LineMatcher([refused(project)]).fnmatch_lines([text])
    project.makeini("[pytest]\n")
    pytest.LineMatcher([refused(project, "-o", setting.replace(" ", ""))]).fnmatch_lines([text])


def test_a_profile_in_the_ini_file_is_looked_for_when_something_claims(
    project: pytest.Pytester,
) -> None:
    project.makeini("[pytest]\nclaims_hw = nowhere\n")
    project.makepyfile("def test_it(): pass")
    assert project.runpytest().ret == 0
    project.makepyfile(USES)
    assert refused(project).startswith("there is no hardware profile 'nowhere'")


def test_an_unknown_required_target_is_refused(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VPERF_REQUIRE", "container,po")
    project.makepyfile(USES)
    assert refused(project) == (
        "VPERF_REQUIRE: 'po' is not known; there are host, container, pod, guest, domu and all"
    )


def test_the_command_line_wins_over_the_ini_file(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nclaims_budget = long\nclaims_hw = nowhere\n")
    project.makepyfile(USES)
    result = project.runpytest("--claims-budget=2 min", "--hw=auto")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["claims: hardware here, any (by fingerprint)", "claims: budget 120 s per claim"]
    )


@pytest.mark.parametrize("options", [(), ("--collect-only",)])
def test_a_wrong_threshold_file_is_a_usage_error(
    project: pytest.Pytester, options: tuple[str, ...]
) -> None:
    path = project.path / "thresholds" / "here.yaml"
    path.write_text(path.read_text().replace("at_most", "at_mots"))
    project.makepyfile(USES)
    text = refused(project, *options)
    assert text.startswith(
        "thresholds/here.yaml:8:5: claims.start.quick.at_mots: there is no such key"
    )
    assert "at_most" in text


def test_the_users_folders_are_read(project: pytest.Pytester) -> None:
    project.makepyfile(USES)
    folder = project.mkdir("mine")
    (folder / "here.yaml").write_text(
        (project.path / "thresholds/here.yaml").read_text().replace("400 ms", "100 ms")
    )
    result = project.runpytest("--claims-thresholds=mine", "--claims-thresholds=thresholds")
    result.stdout.fnmatch_lines(
        ["  limit     median ≤ 100 ms", "  profile   here (mine/here.yaml:*"]
    )


def test_a_named_profile_of_another_machine_says_so(project: pytest.Pytester) -> None:
    import json

    project.makepyfile(
        """
        from samplers import around
        def test_it(claim): claim("start.elsewhere").holds(around(150))
        """
    )
    result = project.runpytest("--hw=lab", "--claims-json=out.json")
    result.stdout.fnmatch_lines(
        [
            "claims: hardware lab, any (named; this machine differs: *No Such Processor*)",
            "  profile   lab (*",
            "  differs   *No Such Processor*",
        ]
    )
    document = json.loads((project.path / "out.json").read_text())
    assert document["profile"]["named"] is True
    assert document["profile"]["matches"] is False
    (record,) = document["claims"]
    assert record["hardware"]["matches"] is False
    assert any("No Such Processor" in text for text in record["hardware"]["mismatches"])


def test_every_record_says_that_the_machine_is_another_one(project: pytest.Pytester) -> None:
    import json

    project.makepyfile(
        """
        import pytest
        from samplers import around, missing

        @pytest.fixture
        def machine(): missing()

        def test_any(claim): claim("start.alike").compares(around(1), to=around(1))
        def test_missing(claim): claim("start.elsewhere").holds(missing)
        def test_none(claim): claim("copy.rate").holds(around(1, "MB/s"))
        def test_fixture(claim, machine): pass
        """
    )
    for options in ([], ["-n1"]):
        project.runpytest("--hw=lab", "--claims-json=out.json", *options)
        found = json.loads((project.path / "out.json").read_text())["claims"]
        assert len(found) == 4
        for record in found:
            assert record["hardware"]["matches"] is False
            assert any("No Such Processor" in text for text in record["hardware"]["mismatches"])
    project.runpytest("--claims-json=out.json")
    for record in json.loads((project.path / "out.json").read_text())["claims"]:
        assert record["hardware"]["matches"] is True


def test_an_unknown_claim_fails_its_test(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from samplers import around
        def test_it(claim): claim("start.quikc").holds(around(150))
        """
    )
    result = project.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E * no threshold file has a claim 'start.quikc'; did you mean 'start.quick'? (*"]
    )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            'claim("start.alike").holds(around(1))',
            "claim 'start.alike' is a comparison (ratio ≤ 1.1, thresholds/any.yaml:*): "
            "use claim('start.alike').compares(sample, to=other)",
        ),
        (
            'claim("start.quick").compares(around(1), to=around(2))',
            "claim 'start.quick' is not a comparison (≤ 400 ms, thresholds/here.yaml:*): "
            "use claim('start.quick').holds(sample)",
        ),
        (
            'claim("copy.level").near(around(1), to=around(2))',
            "claim 'copy.level' is not a comparison (near 70 MB/s ± 10 %, thresholds/here.yaml:*): "
            "use claim('copy.level').holds(sample)",
        ),
        (
            'claim("start.half").holds(around(1))',
            "claim 'start.half' is a comparison (near 0.5 ± 5 %, thresholds/any.yaml:*): "
            "use claim('start.half').near(sample, to=other)",
        ),
        (
            'claim("start.half").compares(around(1), to=around(2))',
            "claim 'start.half' is a comparison with a value to be near to (near 0.5 ± 5 %, "
            "thresholds/any.yaml:*): use claim('start.half').near(sample, to=other)",
        ),
        (
            'claim("start.no_worse").near(around(1), to=around(2))',
            "claim 'start.no_worse' is a comparison with a limit (no worse, thresholds/any.yaml:*): "
            "use claim('start.no_worse').compares(sample, to=other)",
        ),
    ],
)
def test_the_wrong_method_names_the_right_one(
    project: pytest.Pytester, call: str, text: str
) -> None:
    project.makepyfile(f"from samplers import around\ndef test_it(claim): {call}")
    result = project.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E *ClaimError: {text}"])


def test_help_lists_the_options_and_markers(project: pytest.Pytester) -> None:
    project.runpytest("--help").stdout.fnmatch_lines(
        ["performance claims (pytest-vperf):", "  --hw=NAME *", "*--claims-strict*"]
    )
    project.runpytest("--markers").stdout.fnmatch_lines(
        [
            "@pytest.mark.vperf(tolerance='2 %', alpha=0.01, beta=0.01, pairs=512, budget='60 s'): how *",
            "@pytest.mark.startup: a claim about how fast a target starts",
        ]
    )


def test_help_says_how_claims_are_judged_and_who_wins(project: pytest.Pytester) -> None:
    text = " ".join(" ".join(project.runpytest("--help").outlines).split())
    for option, default in {
        "tolerance=PERCENT": "2 %; ini: claims_tolerance",
        "alpha=CHANCE": "0.01; ini: claims_alpha",
        "beta=CHANCE": "0.01; ini: claims_beta",
        "pairs=N": "512; ini: claims_pairs",
        "budget=TIME": "60 s; ini: claims_budget",
        "sessions=N": "3; ini: claims_sessions",
    }.items():
        help_ = text.partition(f"--claims-{option} ")[2]
        assert help_.partition("(default: ")[2].startswith(f"{default})")
    assert (
        "the more specific wins: judge in the threshold file, then the marker vperf, "
        "then the option, then the ini file"
    ) in text


def test_the_marker_is_known_to_strict_markers(project: pytest.Pytester) -> None:
    project.makepyfile("import pytest\n@pytest.mark.vperf(tolerance='5 %')\ndef test_it(): pass\n")
    project.runpytest("--strict-markers").assert_outcomes(passed=1)


def test_containers_are_parametrized_by_runtime(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        def test_it(containers): pass
        def test_started(container): pass
        @pytest.mark.parametrize("container_runtime", ["crun"], indirect=True)
        def test_own(containers): pass
        @pytest.mark.parametrize("size, container_runtime", [(1, "crun")], indirect=["container_runtime"])
        def test_two(containers, size): pass
        @pytest.mark.parametrize(argnames=["container_runtime"], argvalues=[["crun"]], indirect=True)
        def test_list(containers): pass
        @pytest.mark.parametrize("container_runtimes", ["x"])
        def test_like(containers, container_runtimes): pass
        """
    )
    result = project.runpytest("--collect-only", "-q", "--container-runtime=runc,runsc")
    assert [line.partition("::")[2] for line in result.outlines if "::" in line] == [
        "test_it[runc]",
        "test_it[runsc]",
        "test_started[runc]",
        "test_started[runsc]",
        "test_own[crun]",
        "test_two[1-crun]",
        "test_list[crun]",
        "test_like[runc-x]",
        "test_like[runsc-x]",
    ]


def test_pods_are_parametrized_by_accelerator(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        def test_it(pods): pass
        @pytest.mark.parametrize("pods", ["kvm"], indirect=True)
        def test_own(pods): pass
        @pytest.mark.parametrize("pods_per_host", [3])
        def test_like(pods, pods_per_host): pass
        """
    )
    result = project.runpytest("--collect-only", "-q", "--vperf-accelerator=kvm,tcg")
    assert [line.partition("::")[2] for line in result.outlines if "::" in line] == [
        "test_it[kvm]",
        "test_it[tcg]",
        "test_own[kvm]",
        "test_like[kvm-3]",
        "test_like[tcg-3]",
    ]


MARKED = """
    import pytest
    from samplers import around
    @pytest.mark.vperf(tolerence="5 %")
    def test_it(claim): claim("start.quick").holds(around(350))
"""


def test_a_bad_marker_ends_the_run_before_anything_is_measured(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(MARKED)
    result = project.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*::test_it: the marker vperf has no keyword 'tolerence'*did you mean 'tolerance'?*"]
    )


def test_a_bad_marker_ends_xdist_as_a_usage_error(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(MARKED)
    result = project.runpytest_subprocess("-n1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["*claims cannot be judged: *the marker vperf has no keyword*"])


def test_a_claim_is_judged_by_what_its_marker_says(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from samplers import around
        pytestmark = pytest.mark.vperf(budget="2 min", beta=0.02)
        @pytest.mark.vperf(tolerance="5 %")
        def test_it(claim): claim("start.no_worse").compares(around(100), to=around(110))
        def test_other(claim): claim("start.alike").compares(around(100), to=around(100))
        """
    )
    project.runpytest("--claims-json=out.json", "--claims-alpha=0.02")
    first, second = json.loads((project.path / "out.json").read_text())["claims"]
    assert first["criterion"] == "no worse by more than 5 %"
    assert first["budget_s"] == 120
    plan = first["plan"]
    assert {key: plan[key] for key in ("tolerance", "alpha", "beta", "budget", "claims")} == {
        "tolerance": 0.05,
        "alpha": 0.02,
        "beta": 0.02,
        "budget": 120,
        "claims": 2,
    }
    assert plan["alpha_each"] == 0.01
    assert plan["origins"] == {
        "tolerance": "marker",
        "alpha": "--claims-alpha",
        "beta": "marker",
        "pairs": "default",
        "budget": "marker",
    }
    assert second["plan"]["origins"]["tolerance"] == "criterion"
