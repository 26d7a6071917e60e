"""What ``vperf doctor`` says about the image with the tools, and about each tool. Nothing is built for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.machine.preflight import Readiness, find_program
from pytest_vperf.machine.tools import TOOLS
from pytest_vperf.targets import debian_build, debian_image, debian_sources
from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from pytest_vperf.targets.debian_image import Plan

NAME = "tools image"
NAMES = (NAME, *TOOLS)


def check() -> list[Readiness]:
    """Whether the image is built or can be, then whether it has, or would have, each tool."""
    try:
        plan = debian_image.planned(debian_sources.configured())
    except Unavailable as error:
        image, plan = Readiness(NAME, False, error.reason, error.remedy), None
    else:
        image = _image(plan)
    return [image, *(_tool(name, package, plan, image) for name, package in TOOLS.items())]


def _image(plan: Plan | None) -> Readiness:
    size = debian_image.size(plan) if plan is not None else None
    if plan is not None and size is not None:
        return Readiness(
            NAME, True, f"{plan.name}, {len(plan.packages)} packages, {size / 1e6:.0f} MB, is built"
        )
    builder = debian_build.check()
    if not builder.usable:
        return Readiness(NAME, False, f"it is not built, and {builder.why}", builder.remedy)
    return Readiness(
        NAME, True, "the first test that uses a tool builds it, which takes some minutes"
    )


def _tool(name: str, package: str, plan: Plan | None, image: Readiness) -> Readiness:
    if not image.usable:
        own = find_program(name)
        where = f"; with --host-tools, the host runs {own}" if own else ""
        return Readiness(name, False, f"the {NAME} is not usable{where}", image.remedy)
    if plan is None:
        maybe = ", where a package source has it" if package in debian_image.OPTIONAL else ""
        return Readiness(name, True, f"comes with the {NAME}{maybe}")
    if package in plan.packages:
        return Readiness(name, True, f"{plan.packages[package]}, in the {NAME}")
    reason = plan.without.get(package, "it is not there")
    remedy = "add a package source that has it to apt's, and run apt-get update"
    return Readiness(name, False, f"the {NAME} has none: {reason}", remedy)
