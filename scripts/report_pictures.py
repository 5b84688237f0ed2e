#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens one of our pages (report.html, scaling.html, ablation.html, status.html) in Chromium at phone and desktop
width, light and dark, and takes screenshots.

    python3 scripts/report_pictures.py runs/book/report.html pictures/     PAGE_360_light.png and three more, some seconds

Prints for each the time until its charts were drawn, and the problems: console messages, requests to other hosts, text
wider than the screen. Exits 1 if there are problems. Needs playwright (pip) and a chromium in PATH.
"""
import os
import shutil
import sys
import time

WIDTHS, SCHEMES = (360, 1400), ("light", "dark")


def open_page(browser, page, width, scheme, picture):
    """Seconds until the charts are drawn, and the problems."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab, wrong = context.new_page(), []
    tab.on("console", lambda message: wrong.append(f"console: {message.text}"))
    tab.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    tab.on("request", lambda request: None if request.url.startswith(("file:", "data:")) else wrong.append(f"asks for {request.url}"))
    start = time.monotonic()
    tab.goto("file://" + os.path.abspath(page))
    if tab.query_selector("script#data"):  # a page without charts has none
        tab.wait_for_selector("html[data-drawn]", timeout=30000)
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    seconds = time.monotonic() - start
    wide = tab.evaluate("document.documentElement.scrollWidth") - width
    if wide > 0:
        wrong.append(f"{wide} pixels too wide")
    tab.screenshot(path=picture, full_page=True)
    context.close()
    return seconds, wrong


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    page, folder = sys.argv[1:]
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("report_pictures.py: there is no playwright; pip install playwright")
    if not os.path.isfile(page):
        sys.exit(f"report_pictures.py: {page}: no such file; trireme report RUN writes one")
    if chromium is None:
        sys.exit("report_pictures.py: there is no chromium in PATH; apt-get install chromium")
    os.makedirs(folder, exist_ok=True)
    name, failed = os.path.splitext(os.path.basename(page))[0], False
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for width in WIDTHS:
            for scheme in SCHEMES:
                picture = os.path.join(folder, f"{name}_{width}_{scheme}.png")
                seconds, wrong = open_page(browser, page, width, scheme, picture)
                failed = failed or bool(wrong)
                print(f"{picture}: drawn within {seconds:.2f} s{''.join('; ' + what for what in wrong)}")
        browser.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
