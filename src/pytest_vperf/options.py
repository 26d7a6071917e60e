"""The plugin's options and markers: what the command line and the ini file may say.

Imported by every test run, so it only declares; `pytest_vperf.settings` reads and checks the values.
"""

from __future__ import annotations

import pytest

#: The accelerators a pod can be asked for.
ACCELERATORS = ("kvm", "tcg")
DEFAULT_BUDGET = "60 s"
DEFAULT_START_TIMEOUT = "120 s"
DEFAULT_RUNTIME = "runc"

#: One marker per family of claims, with the line that ``pytest --markers`` shows.
MARKERS = (
    ("startup", "a claim about how fast a target starts"),
    ("replace", "a claim about replacing what runs in a machine that is kept"),
    ("density", "a claim about how many targets one host carries"),
    ("footprint", "a claim about the memory a target needs"),
    ("cpu", "a claim about the speed of the processor in a target"),
    ("priority", "a claim about weights and shares of the processor"),
    ("memory", "a claim about the speed of memory in a target"),
    ("disk", "a claim about block devices and file systems"),
    ("network", "a claim about the throughput of the network"),
    ("response", "a claim about response times"),
    ("saturation", "a claim about where a growing load stops to bring more"),
    ("scale", "a claim about many targets at once"),
    ("kernel", "a claim that compares kernels or runtimes with a baseline"),
    ("slow", "a claim that takes minutes; leave it out with -m 'not slow'"),
)


def add_options(parser: pytest.Parser) -> None:
    """Declare the options, all in one group, and their ini settings."""
    group = parser.getgroup("vperf", "performance claims (pytest-vperf)")
    group.addoption(
        "--hw",
        dest="claims_hw",
        metavar="NAME",
        help="hardware profile to judge by; 'auto' matches this machine's fingerprint; "
        "the profile 'any' is always added (default: auto; ini: claims_hw)",
    )
    group.addoption(
        "--claims-strict",
        action="store_true",
        default=None,
        help="fail claims that end inconclusive, not comparable or not measured (ini: claims_strict)",
    )
    group.addoption(
        "--claims-advisory",
        action="store_true",
        default=None,
        help="judge and report, but never fail a test for a verdict (ini: claims_advisory)",
    )
    group.addoption(
        "--claims-budget",
        metavar="TIME",
        help=f"time one claim may sample, such as '60 s' or '2 min' (default: {DEFAULT_BUDGET}; "
        "ini: claims_budget)",
    )
    group.addoption(
        "--claims-json",
        metavar="FILE",
        help="write every claim with its verdict and all its samples to FILE (ini: claims_json)",
    )
    group.addoption(
        "--claims-thresholds",
        metavar="DIR",
        action="append",
        help="folder of threshold files, may be repeated; wins over the shipped ones "
        "(default: thresholds/ in the root folder; ini: claims_thresholds)",
    )
    group.addoption(
        "--claims-seed",
        metavar="N",
        help="seed of the random order of comparisons (default: drawn per run, and recorded; "
        "ini: claims_seed)",
    )
    group.addoption(
        "--container-runtime",
        metavar="NAME[,NAME]",
        action="append",
        help="OCI runtime for containers, such as runc or runsc; tests that ask for containers run "
        f"once for each (default: {DEFAULT_RUNTIME}; ini: container_runtime)",
    )
    group.addoption(
        "--container-image",
        metavar="REF|FILE.tar",
        help="image for containers and pods: a reference the engine has, or a file written by "
        "'docker export' (default: a small one, built locally; ini: container_image)",
    )
    group.addoption(
        "--guest-kernel",
        metavar="FILE",
        help="kernel that pods boot (default: the distribution's cloud kernel; ini: guest_kernel)",
    )
    group.addoption(
        "--accelerator",
        dest="pod_accelerator",
        metavar="NAME[,NAME]",
        action="append",
        help=f"accelerator for pods: {', '.join(ACCELERATORS)} (default: auto; ini: pod_accelerator)",
    )
    group.addoption(
        "--start-timeout",
        metavar="TIME",
        help="time one pod may take to start before it is given up "
        f"(default: {DEFAULT_START_TIMEOUT}; ini: start_timeout)",
    )
    parser.addini("start_timeout", "default of --start-timeout")
    parser.addini("claims_hw", "default of --hw")
    parser.addini("claims_strict", "default of --claims-strict", type="bool", default=False)
    parser.addini("claims_advisory", "default of --claims-advisory", type="bool", default=False)
    parser.addini("claims_budget", "default of --claims-budget")
    parser.addini("claims_json", "default of --claims-json, seen from the root folder")
    parser.addini(
        "claims_thresholds",
        "default of --claims-thresholds, seen from the root folder",
        type="args",
    )
    parser.addini("claims_seed", "default of --claims-seed")
    parser.addini("container_runtime", "default of --container-runtime")
    parser.addini("container_image", "default of --container-image")
    parser.addini("guest_kernel", "default of --guest-kernel, seen from the root folder")
    parser.addini("pod_accelerator", "default of --accelerator")


#: The options, as pytest keeps them; their ini settings have the same names.
_NAMES = (
    *("claims_hw", "claims_strict", "claims_advisory", "claims_budget", "claims_json"),
    *("claims_thresholds", "claims_seed", "container_runtime", "container_image"),
    *("guest_kernel", "pod_accelerator", "start_timeout"),
)


def given_on_command_line(config: pytest.Config) -> bool:
    """Whether any option of the plugin was given, and is to be checked although nothing may claim."""
    return any(config.getoption(name) is not None for name in _NAMES)


def given_in_ini(config: pytest.Config) -> bool:
    """Whether any setting of the plugin was given in the ini file, or with ``-o``."""
    try:
        return any(config.getini(name) for name in _NAMES)
    except (TypeError, ValueError, pytest.UsageError):
        return True  # one is not understood; reading the settings says which
