"""The report in a real Chromium: it draws, filters and prints, loads nothing, and is accessible.

What a link or a table behind a picture opens, the browser opens a moment later: it is expected, not looked up.

With ``VPERF_SCREENSHOTS=DIR`` the pictures of the page stay there.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Literal, NamedTuple

import pytest
import reported_runs
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

from pytest_vperf.reporting.html.page import SHOWN_AT_FIRST, page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS = (1280, 360)
SCHEMES = ("light", "dark")
#: A claim with each kind of picture.
DRAWN = {
    "claim-startup.pod.seabios": 3,  # samples, distribution, phases
    "claim-startup.pod.qboot": 4,  # history, too
    "claim-start.runsc": 4,  # samples, ratios, both arms, phases
    "claim-saturation.vhost": 1,
    "claim-priority.shares": 3,  # samples, distribution, two machines
    "claim-density.pods": 1,
}


class Opened(NamedTuple):
    """A page in the browser, with what it said on its console, and what it asked the network for."""

    page: Page
    complaints: list[str]
    requests: list[str]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens a run's page."""
    contexts = []

    def show(
        run, *, at: str = "", width: int = 1280, scheme: Literal["light", "dark"] = "light", **more
    ) -> Opened:
        file = tmp_path / "report.html"
        file.write_text(page(run), "utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, **more
        )
        contexts.append(context)
        found = Opened(context.new_page(), [], [])
        found.page.on("console", lambda told: found.complaints.append(f"{told.type}: {told.text}"))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.goto(f"{file.as_uri()}{at}")
        return found

    yield show
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_each_picture_is_drawn_readable_for_all_and_nothing_is_loaded(
    shown, width: int, scheme: str
) -> None:
    found = shown(reported_runs.everything(), width=width, scheme=scheme)
    for anchor, pictures in DRAWN.items():
        found.page.locator(f"[id='{anchor}'] a.name").click()
        detail = found.page.locator(f"[id='{anchor}'] + tr.detail")
        expect(detail.locator("figure.picture"), anchor).to_have_count(pictures)
        assert detail.locator("figure.picture svg.plot").count() >= pictures
    for summary in found.page.locator("figure.picture summary").all():
        summary.click()
    expect(found.page.locator("figure.picture table")).to_have_count(sum(DRAWN.values()))
    assert found.complaints == []
    assert len(found.requests) == 1
    assert found.page.evaluate("document.documentElement.scrollWidth") <= width
    results = Axe().run(found.page, options={"resultTypes": ["violations"]})
    assert results.violations_count == 0, results.generate_report()
    if folder := os.environ.get("VPERF_SCREENSHOTS"):
        for summary in found.page.locator("figure.picture summary").all():
            summary.click()
        found.page.screenshot(path=f"{folder}/report-{width}-{scheme}.png", full_page=True)
        found.page.evaluate("scrollTo(0, 0)")
        found.page.screenshot(path=f"{folder}/report-{width}-{scheme}-first.png")


def test_claims_are_searched_filtered_and_sorted(shown) -> None:
    found = shown(reported_runs.everything()).page
    visible = found.locator("tr.claim:visible a.name")
    assert visible.count() == 12
    found.fill("#search", "POD sea")
    assert visible.all_inner_texts() == ["startup.pod.seabios"]
    assert found.inner_text("#count") == "1 of 12 claims"
    found.fill("#search", "")
    found.select_option("#family", "startup")
    assert sorted(visible.all_inner_texts()) == [
        "startup.kvm",
        "startup.pod.qboot",
        "startup.pod.seabios",
    ]
    found.uncheck("input[value='not measured']")
    assert found.inner_text("#count") == "2 of 12 claims"
    found.click("text=✗ 1 >> nth=0")  # of a family, in the table of verdicts
    assert found.inner_text("#count") == "1 of 12 claims"
    found.select_option("#family", "")
    for box in found.locator("#controls input[type=checkbox]").all():
        box.check()
    found.click("th[data-sort=gap] button")
    assert visible.all_inner_texts()[:2] == ["startup.pod.qboot", "startup.pod.seabios"]
    found.click("th[data-sort=gap] button")
    assert visible.all_inner_texts()[:2] == ["startup.pod.seabios", "startup.pod.qboot"]
    assert found.get_attribute("th[data-sort=gap]", "aria-sort") == "descending"


def test_a_link_opens_its_claim_and_a_second_click_closes_it(shown) -> None:
    opened = shown(reported_runs.everything(), at="#claim-startup.kvm").page
    detail = opened.locator("tr.detail")
    assert "no /dev/kvm here" in detail.inner_text()
    opened.click("[id='claim-startup.kvm'] a.name")
    expect(detail).to_have_count(0)
    opened.click("[id='claim-startup.kvm'] a.name")
    expect(detail).to_have_count(1)


def test_the_keyboard_is_enough(shown) -> None:
    opened = shown(reported_runs.everything()).page
    opened.focus("#search")
    for _ in range(200):
        opened.keyboard.press("Tab")
        if opened.evaluate("document.activeElement.className") == "name":
            break
    opened.keyboard.press("Enter")
    expect(opened.locator("tr.detail")).to_have_count(1)
    assert opened.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"


def test_what_is_open_is_printed(shown, tmp_path: Path) -> None:
    opened = shown(
        reported_runs.of_many(SHOWN_AT_FIRST + 50, 4),
        at="#claim-family3.claim.number3",
        scheme="dark",
    ).page
    opened.emulate_media(media="print")
    assert opened.locator("tr.claim:visible").count() == SHOWN_AT_FIRST + 50
    assert opened.locator("figure.picture svg:visible").count() >= 2
    assert not opened.is_visible("#controls")
    assert (
        opened.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    printed = opened.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert len(printed) > 10_000


def test_without_scripts_all_claims_are_listed(shown) -> None:
    opened = shown(reported_runs.of_many(SHOWN_AT_FIRST + 50, 4), java_script_enabled=False).page
    assert opened.locator("tr.claim:visible").count() == SHOWN_AT_FIRST + 50
    assert not opened.is_visible("#controls")


def test_hostile_texts_stay_texts(shown) -> None:
    found = shown(reported_runs.attacking())
    links = found.page.locator("tr.claim a.name")
    for k in range(links.count()):
        links.nth(k).click()
    for summary in found.page.locator("summary").all():
        if summary.is_visible():
            summary.click()
    expect(found.page.locator("tr.detail")).to_have_count(links.count())
    assert "attacked" not in found.page.title().replace("document.title='attacked'", "").replace(
        "]0;attacked", ""
    )
    assert found.page.locator("img, iframe, svg [onload], object").count() == 0
    assert found.complaints == []
    assert len(found.requests) == 1


def test_links_of_nowhere_do_no_harm(shown) -> None:
    found = shown(reported_runs.everything(), at="#%E0%A4%A")
    assert found.page.locator("tr.claim:visible").count() == 12
    assert found.complaints == []


def test_many_claims_open_and_are_found(shown) -> None:
    found = shown(reported_runs.of_many(5000, 100))
    timing = found.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    print(f"5,000 claims with 100 samples each: open after {timing:.0f} ms")
    visible = found.page.locator("tr.claim:visible")
    assert visible.count() == SHOWN_AT_FIRST
    found.page.fill("#search", "number4711")
    assert visible.count() == 1
    visible.locator("a.name").click()
    expect(found.page.locator("figure.picture svg.plot")).to_have_count(3)
    found.page.fill("#search", "")
    found.page.click("#more")
    assert visible.count() == 5000
    assert found.complaints == []
