"""The dashboard in a real browser, during a run of real jobs: as an owner, as a colleague and as
an operator. Nothing is logged as an error, and axe-core finds nothing serious."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.people.users import Serve, User, needs_root, serving, shell, submit, until
from tools.chromium import MISSING, PATH
from tools.chromium import chromium as started_chromium

from shockwave.cli.client import Client

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = [needs_root, pytest.mark.skipif(PATH is None, reason=MISSING)]
PATIENCE_MILLISECONDS = 180_000
PAGES = {"/": "Cluster", "/queue": "Queue", "/plan": "Plan", "/fairness": "Fairness",
         "/history": "History"}  # fmt: skip
EVIL = "<img src=x onerror=alert(1)>"
DRAWN_AGAIN = """() => new Promise((done) => {
    dispatchEvent(new Event("resize"));
    requestAnimationFrame(() => requestAnimationFrame(() =>
        done(document.activeElement.getAttribute("aria-label"))));
})"""
TRAIN = """
echo "hello from $SHOCKWAVE_JOB"
n=0
while [ $n -lt 500 ]; do
  n=$((n + 1))
  printf '{"event": "epoch", "time": %s, "epoch": %d, "seconds": 1.0, "loss": 0.%d}\\n' \\
    $(date +%s) $n $n >> $SHOCKWAVE_DIR/reports-$SHOCKWAVE_GENERATION.jsonl
  sleep 1
done
"""


@pytest.fixture(scope="module")
def serve(users: list[User]) -> Iterator[Serve]:
    with serving("--policy", "shockwave", "--gpus-per-node", "2") as started:
        yield started


@pytest.fixture(scope="module")
def jobs(serve: Serve, alice: User, bob: User) -> dict[str, str]:
    """Alice's job runs, another one waits for room; Bob has one that ended."""
    more: dict[str, Any] = {"epochs": 500, "epoch_seconds": {32: 1.0}, "batch_sizes": [32]}
    training = shell(TRAIN, name="alices-training", model=EVIL, gpus=2, **more)
    made = {"runs": alice.ask(serve.url, lambda c: submit(c, training))}
    until(serve.url, made["runs"], "running")
    waiting = shell(TRAIN, name="alices-next", gpus=4, **more)
    made["waits"] = alice.ask(serve.url, lambda c: submit(c, waiting))
    made["done"] = bob.ask(serve.url, lambda c: submit(c, shell("true", name="bobs-own")))
    until(serve.url, made["done"], "finished", "failed")
    return made


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with started_chromium() as browser:
        yield browser


@contextmanager
def signed_in(chromium: Browser, link: str, refusals: int = 0, **options: Any) -> Iterator[Page]:
    """Somebody's browser; fails afterwards if anything went wrong in it.

    ``refusals`` is how often the scheduler is given input that it refuses.
    """
    context = chromium.new_context(**options)
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    page = context.new_page()
    trouble: list[str] = []
    page.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("dialog", lambda dialog: trouble.append(f"a dialog: {dialog.message}"))
    page.goto(link)
    page.wait_for_selector("h1:has-text('Cluster')")
    yield page
    context.close()
    refused = [text for text in trouble if "status of 422" in text]
    assert len(refused) == refusals
    assert [text for text in trouble if text not in refused] == []


def follow(page: Page, path: str) -> None:
    """To a page by its link, as people get there."""
    page.click(f"#pages a[href='{path}']")
    page.wait_for_selector(f"h1:has-text('{PAGES[path]}')")


def check_access(page: Page) -> None:
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip("axe-playwright-python is not installed, so access was not checked")
    page.evaluate(Path(found.origin).with_name("axe.min.js").read_text("utf-8"))
    wanted = {"resultTypes": ["violations"]}
    violations = page.evaluate("options => axe.run(document, options)", wanted)["violations"]
    serious = [
        (item["id"], [node["html"][:200] for node in item["nodes"][:3]])
        for item in violations
        if item["impact"] in ("serious", "critical")
    ]
    assert not serious, f"{page.url}: {serious}"


def test_an_owner_sees_the_story_of_their_job_and_takes_it_back(
    serve: Serve, chromium: Browser, alice: User, jobs: dict[str, str]
) -> None:
    Client(serve.url).post("links")  # an operator's request opens the port
    link = alice.ask(serve.url, lambda c: c.post("links"))["url"]
    with signed_in(chromium, link, viewport={"width": 1280, "height": 900}) as page:
        assert "code=" not in page.url
        page.wait_for_selector("a.gpu.held:has-text('alices-training')")
        follow(page, "/queue")
        page.click("th.c-gpus button")
        page.select_option("select", value=alice.name)
        page.wait_for_url(f"**/queue?sort=gpus&owner={alice.name}")
        assert page.locator("tbody tr").count() == 2
        page.click("a:has-text('alices-training')")
        page.wait_for_selector("#story")
        page.wait_for_selector(".log:has-text('hello from')")
        page.focus("input[aria-label=rank]")
        page.wait_for_selector("#metrics h3:has-text('loss')")
        page.wait_for_selector("#speed svg")
        assert page.locator("img").count() == 0, "the model of the job became markup"
        assert EVIL in page.locator("#content").inner_text()
        check_access(page)
        assert page.evaluate(DRAWN_AGAIN) == "rank", "the focus is lost when a page is drawn again"
        page.goto(page.url.replace(jobs["runs"], jobs["waits"]))
        page.click("button:has-text('Change …')")
        page.fill("dialog input[name=weight]", "0.5")
        page.focus("dialog select")
        page.evaluate(DRAWN_AGAIN)
        page.click("dialog button:has-text('Change')")
        page.wait_for_selector(".notice:has-text('It was changed.')")
        assert Client(serve.url).get("jobs", jobs["waits"])["weight"] == 0.5, "what was typed"
        page.click("button:has-text('Hold')")
        page.wait_for_selector(".heading .state:has-text('held')")
        page.click("button:has-text('Release')")
        page.wait_for_selector(".heading .state:has-text('waiting')")
        page.click("button:has-text('Cancel …')")
        page.click("dialog button:has-text('Cancel the job')")
        page.wait_for_selector(".heading .state:has-text('cancelled')")
        follow(page, "/queue")
        page.wait_for_selector("a:has-text('alices-training')")
        assert page.locator("a:has-text('alices-next')").count() == 0
        page.click("button:has-text('Sign out')")
        page.wait_for_selector("h1:has-text('Sign in')")
        # A link that is pasted into the page that is open there; only its hash is new.
        again = alice.ask(serve.url, lambda c: c.post("links"))["url"]
        page.goto(again.replace("/#", "/queue?sort=gpus#"))
        page.wait_for_selector("h1:has-text('Queue')")
        page.click("button:has-text('Sign out')")
        page.wait_for_selector("h1:has-text('Sign in')")
        again = alice.ask(serve.url, lambda c: c.post("links"))["url"]
        page.evaluate("hash => { location.hash = hash; }", again.partition("#")[2])
        page.wait_for_selector("h1:has-text('Cluster')")
        assert "code=" not in page.url


def test_a_colleague_sees_that_it_is_there_and_nothing_else(
    serve: Serve, chromium: Browser, bob: User, alice: User, jobs: dict[str, str]
) -> None:
    Client(serve.url).post("links")
    link = bob.ask(serve.url, lambda c: c.post("links"))["url"]
    with signed_in(
        chromium, link, viewport={"width": 375, "height": 800}, color_scheme="dark"
    ) as page:
        sent: list[str] = []
        page.on("response", lambda answer: sent.append(answer.url))
        for path in PAGES:
            follow(page, path)
            page.wait_for_selector("section svg, tbody tr, #futures")
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{path} is wider than a phone"
            check_access(page)
            text = page.content()
            assert "alices-training" not in text
            assert EVIL not in text
        page.goto(f"{link.partition('/#')[0]}/jobs/{jobs['runs']}")
        page.wait_for_selector("#story")
        assert alice.name in page.locator("#content").inner_text()
        assert page.locator("#output, .actions").count() == 0
        assert "alices-training" not in page.content()
        assert not [url for url in sent if url.endswith("/metrics") or "/logs" in url]


def test_an_operator_sees_all_and_drains_a_node(
    serve: Serve, chromium: Browser, jobs: dict[str, str]
) -> None:
    client = Client(serve.url)
    client.patch("tenants", "vision", body={"weight": 2, "types": {"gpu": {"most": 1}}})
    link = client.post("links")["url"]
    with signed_in(chromium, link) as page:
        for path in PAGES:
            follow(page, path)
            page.wait_for_selector("section svg, tbody tr, #futures")
            if path == "/fairness":
                page.wait_for_selector("#promises tr:has-text('vision') + tr:has-text('gpu')")
            check_access(page)
        page.wait_for_selector("tr:has-text('bobs-own')")  # on the page of the day
        follow(page, "/")
        node = page.locator("article.node:has-text('n1')")
        node.locator("button:has-text('Drain')").click()
        node.locator(".state:has-text('drained')").wait_for()
        node.locator("button:has-text('Resume')").click()
        node.locator(".state").wait_for(state="detached")
        page.reload()
        page.wait_for_selector("article.node")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"


TENANTS = """
[tenants.vision]
users = ["{alice}"]
weight = 2
most = 3
[tenants.idle-team]
users = ["nobody"]
"""


def test_what_if_is_asked_by_keyboard_on_a_phone(
    users: list[User], chromium: Browser, alice: User
) -> None:
    """What is missing is said at once; types, elastic jobs and declared tenants are understood."""
    flags = ("--slots", "A100:2,T4:2", "--round", "60", "--what-if-seconds", "1800")
    with serving(*flags, config=TENANTS.format(alice=alice.name)) as serve:
        known: dict[str, Any] = {"epochs": 500, "epoch_seconds": {1: 1.0}}
        elastic = shell(TRAIN, name="elastic", gpus={"min": 1, "max": 2}, **known)
        running = alice.ask(serve.url, lambda c: submit(c, elastic))
        until(serve.url, running, "running")
        Client(serve.url).post("links")
        link = alice.ask(serve.url, lambda c: c.post("links"))["url"]
        phone = {"width": 390, "height": 800}
        with signed_in(
            chromium, link, refusals=1, viewport=phone, color_scheme="dark", has_touch=True
        ) as page:
            asked: list[str] = []
            page.on("request", lambda sent: asked.append(sent.url) if sent.post_data else None)
            follow(page, "/plan")
            declared = page.locator("#what-if select[name=tenant] option[value=idle-team]")
            declared.wait_for(state="attached")
            problem = page.locator("#what-if .problem")

            def enter(**fields: str) -> None:
                page.locator("#what-if form").evaluate("form => form.reset()")
                for name, value in fields.items():
                    field = page.locator(f"#what-if [name={name}]")
                    if field.evaluate("field => field.nodeName") == "SELECT":
                        field.select_option(value)
                    else:
                        field.fill(value)
                page.focus("#what-if [name=policy]")
                page.keyboard.press("Enter")

            for fields, words, focus in (
                ({}, "Nothing would be different yet", "gpus"),
                ({"type": "T4"}, "How many T4 more?", "gpus"),
                ({"factor": "2"}, "Which tenant?", "tenant"),
                ({"tenant": "vision"}, "What would be different for vision", "factor"),
                ({"job": "some", "lasts": "1h"}, "a number such as 2, or 1-4", "job"),
                ({"job": "2", "lasts": "a while"}, "such as 90m, 1h30m or 2d", "lasts"),
            ):
                enter(**fields)
                problem.filter(has_text=words).wait_for()
                assert page.evaluate("document.activeElement.name") == focus
            enter(gpus="-3")
            assert page.evaluate("document.activeElement.matches(':invalid')")
            assert asked == [], "what cannot be was sent"
            enter(policy="fiffo")
            problem.filter(has_text="no such policy").wait_for()
            page.focus("#what-if [name=gpus]")
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.name") == "type"
            enter(gpus="2", type="H100", job="1-2", lasts="10m", tenant="vision", most="4")
            page.wait_for_selector("#what-if .answer :text('The job would start')")
            assert problem.count() == 0
            assert page.locator("#what-if .answer tbody tr").count() >= 4
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, "the answer is wider than a phone"
            check_access(page)
        (job,) = Client(serve.url).get("jobs")["items"]
        assert job["name"] == "elastic", "what was only asked about was submitted"
