#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages of runs in a browser: python3 page_test.py QKVET [--screenshots DIR]

Tests a failing run, a passing one, and golden sets, at three widths, in light and in
dark: all parts are there, nothing is wider than the screen, words can be read and stay
within their pictures, the keyboard reaches what a pointer does, commands are copied
whole; and everything works without scripts. The browser is headless Chromium, driven by
its own protocol through a pipe; the test exits with 77 if none is installed.
"""
import base64
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

WIDTHS = (360, 900, 1600)
SKIPPED = 77
# A page of a run takes a second, and more on a busy machine.
PATIENCE = 120

# Elements wider than the screen, except in regions that scroll by themselves.
# (A phone shows such a page smaller, and calls that its inner width.)
TOO_WIDE = """(() => {
  const wide = document.documentElement.scrollWidth;
  return wide > screen.width ? [`${wide} px on a screen of ${screen.width}`] : [];
})()"""

# Words of a picture that are cut off by its border.
CUT_OFF = """[...document.querySelectorAll('svg.picture')].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  if (frame.width == 0) return [];
  return [...svg.querySelectorAll('text')].filter(text => {
    const box = text.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1 ||
           box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
  }).map(text => text.textContent);
})"""

# Words with a contrast of less than 4.5 (WCAG 2.1, AA) against the nearest
# background that is not transparent.
FAINT = """(() => {
  const parts = colour => colour.match(/[0-9.]+/g).map(Number);
  const light = rgb => rgb.slice(0, 3).map(c => c / 255).map(c =>
      c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = element => {
    for (let one = element; one; one = one.parentElement) {
      const colour = parts(getComputedStyle(one).backgroundColor);
      if (colour.length == 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const named = 'p, a, dt, dd, li, h1, h2, h3, h4, h5, summary, code, button, ' +
      'th, td, .sign, .word, .mark, .quiet, svg.picture > text:not(.number)';
  return [...document.querySelectorAll(named)].filter(one => {
    if (!one.textContent.trim() || !one.getClientRects().length) return false;
    const style = getComputedStyle(one);
    const ink = light(parts(one.closest('svg') ? style.fill : style.color));
    const paper = light(behind(one));
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    return ratio < 4.5;
  }).map(one => `${one.tagName} ${one.textContent.trim().slice(0, 40)}`);
})()"""

# Pictures and buttons without a name for a screen reader.
UNNAMED = """[...document.querySelectorAll('svg[role=img], button, [role=region]')]
  .filter(one => !(one.getAttribute('aria-label') || one.textContent.trim()))
  .map(one => one.outerHTML.slice(0, 80))"""


class Browser:
    """Headless Chromium with one page."""

    def __init__(self, program, folder):
        to_read, to_write = os.pipe(), os.pipe()

        def connect():
            # The protocol is spoken on 3 and 4, which the pipes may be already.
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10)
                    for end in (to_read[0], to_write[1])]
            for there, end in zip((3, 4), ends):
                os.dup2(end, there, inheritable=True)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={folder}/profile",
             "about:blank"],
            close_fds=False, preexec_fn=connect, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read[0])
        os.close(to_write[1])
        self.out, self.inbox = to_read[1], to_write[0]
        self.heard, self.looked_at = bytearray(), 0
        self.number, self.session = 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def message(self):
        while not (end := self.heard.find(b"\0", self.looked_at) + 1):
            self.looked_at = len(self.heard)
            more = os.read(self.inbox, 1 << 16)
            if not more:
                raise RuntimeError("the browser has ended")
            self.heard += more
        text = bytes(self.heard[:end - 1])
        del self.heard[:end]
        self.looked_at = 0
        return json.loads(text)

    def call(self, method, **words):
        self.number += 1
        message = {"id": self.number, "method": method, "params": words}
        if self.session:
            message["sessionId"] = self.session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.out, text):]
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def open(self, path):
        self.call("Page.navigate", url=path.as_uri())
        while not self.value(f"location.href == {path.as_uri()!r} && "
                             "document.readyState == 'complete'"):
            time.sleep(0.02)

    def show(self, width, height=900, dark=False, media=""):
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=height, screenWidth=width, screenHeight=height,
                  deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", media=media, features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression,
                           returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key, code, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode=code,
                      text=text if kind == "keyDown" else "")

    def tab(self):
        self.press("Tab", 9)

    def enter(self):
        self.press("Enter", 13, "\r")

    def screenshot(self, path):
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        self.process.kill()
        self.process.wait()


def nothing(found, what):
    assert not found, (what, found[:5])


def check_looks(browser, path, screenshots):
    for width in WIDTHS:
        for dark in (False, True):
            browser.show(width, dark=dark)
            browser.open(path)
            here = f"{path.name} at {width} px{', dark' if dark else ''}"
            nothing(browser.value(TOO_WIDE), f"{here}: wider than the screen")
            nothing(browser.value(CUT_OFF), f"{here}: words are cut off")
            nothing(browser.value(FAINT), f"{here}: words can hardly be read")
            nothing(browser.value(UNNAMED), f"{here}: without a name")
            if screenshots:
                browser.screenshot(screenshots / (
                    f"{path.stem}-{width}{'-dark' if dark else ''}.png"))
    browser.show(800)
    browser.open(path)
    for part in ("header h1", "nav a", "#grid table", "#coverage", "#laws",
                 "#environment dl"):
        assert browser.value(f"!!document.querySelector({part!r})"), part
    for link in browser.value("[...document.querySelectorAll('a')]"
                              ".map(one => one.getAttribute('href'))"):
        assert link.startswith("#"), ("the page leads elsewhere", link)
        assert browser.value(f"!!document.getElementById({link[1:]!r})"), link
    browser.show(800, media="print")
    assert browser.value("getComputedStyle(document.querySelector('nav')).display"
                         ) == "none"


def check_controls(browser, path):
    """Each check finds its own defect."""
    browser.show(360)
    browser.open(path)
    spoil = [
        (TOO_WIDE, "document.body.insertAdjacentHTML('beforeend', "
                   "'<div style=\"width:2000px\">x</div>')"),
        (FAINT, "document.body.insertAdjacentHTML('beforeend', "
                "'<p style=\"color:#aaa;background:#fff\">faint</p>')"),
        (UNNAMED, "document.body.insertAdjacentHTML('beforeend', "
                  "'<button></button>')"),
        (CUT_OFF, "document.body.insertAdjacentHTML('beforeend', "
                  "'<svg class=picture width=40 height=40><text x=30 y=20>cut "
                  "off</text></svg>')")]
    for check, mistake in spoil:
        nothing(browser.value(check), "before it is spoilt")
        browser.value(mistake)
        assert browser.value(check), ("a check that cannot fail", check)


def focused(browser, what):
    return browser.value(f"document.activeElement.matches({what!r})")


def check_keyboard(browser, path):
    """From the top of a failing page to its first command, and the effect of the
    command."""
    browser.show(800)
    browser.open(path)
    browser.call("Browser.grantPermissions", permissions=[
        "clipboardReadWrite", "clipboardSanitizedWrite"])
    browser.tab()
    assert focused(browser, "a.skip"), "the first stop skips what is in front"
    assert browser.value("document.activeElement.getBoundingClientRect().width"
                         ) > 40, "whoever is there sees it"
    browser.enter()
    assert browser.value("location.hash") == "#main"
    for _ in range(60):
        browser.tab()
        if focused(browser, "button.copy"):
            break
    assert focused(browser, "button.copy"), "no key leads to a command"
    assert browser.value("getComputedStyle(document.activeElement).outlineStyle"
                         ) == "solid", "the stop is not to be seen"
    wanted = browser.value("document.activeElement.parentElement"
                           ".querySelector('code').textContent")
    assert wanted.startswith("qkvet "), wanted
    browser.enter()
    said = browser.value("new Promise(done => setTimeout(() => done("
                         "document.activeElement.textContent), 300))")
    assert said == "Copied", said
    assert browser.value("navigator.clipboard.readText()") == wanted
    # A law's name is a link to its text, which was folded away.
    assert not browser.value("document.querySelector('#all-laws').open")
    browser.value("document.querySelector('#failures a').focus()")
    browser.enter()
    assert browser.value("new Promise(done => setTimeout(() => done("
                         "document.querySelector('#all-laws').open), 300))")
    # A key opens folded parts.
    browser.value("document.querySelector('#failures details:not([open]) summary')"
                  ".focus()")
    browser.enter()
    assert browser.value("document.activeElement.parentElement.open")


def check_without_scripts(browser, path, texts):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.show(800)
    browser.open(path)
    # No script of the page has run: buttons that need one are hidden.
    assert browser.value("[...document.querySelectorAll('button.copy')]"
                         ".every(one => one.hidden)")
    shown = browser.value("document.body.innerText")
    for text in texts:
        assert text in shown, (path.name, text)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)


def written(qkvet, folder, name, words, exit_code):
    ran = subprocess.run([qkvet, *words, "--html", f"{name}.html"], cwd=folder,
                         capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == exit_code, (ran.returncode, ran.stdout, ran.stderr)
    return folder / f"{name}.html"


def started(program, folder):
    """A browser; None, with the reason printed, if none starts."""
    def late(*_):
        raise RuntimeError(f"it says nothing for {PATIENCE} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    try:
        browser = Browser(program, folder)
    except (RuntimeError, OSError) as why:
        print(f"skipped: no chromium that starts here: {why}")
        return None
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(8 * PATIENCE)
    return browser


def main():
    qkvet = str(pathlib.Path(sys.argv[1]).absolute())
    screenshots = None
    if sys.argv[2:3] == ["--screenshots"]:
        screenshots = pathlib.Path(sys.argv[3]).absolute()
        screenshots.mkdir(parents=True, exist_ok=True)
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        print("skipped: no chromium is installed (apt-get install chromium)")
        return SKIPPED
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        plan = ["--cases", "300", "--sizes", "small"]
        failing = written(qkvet, folder, "failing", [
            "check", "--kernel", "faulty/no_scale", "--kernel",
            "faulty/tail_tile_unmasked", "--kernel", "scalar/plain", *plan], 1)
        # Its smallest outputs are large enough for maps.
        mapped = written(qkvet, folder, "mapped", [
            "check", "--kernel", "faulty/half_of_each_step_seen", "--fail-fast",
            "--diagnose", "0", *plan], 1)
        passing = written(qkvet, folder, "passing", [
            "check", "--kernel", "scalar/plain", "--law", "agrees_with_oracle",
            "--law", "weights_sum_to_one", *plan], 0)
        golden = written(qkvet, folder, "golden", [
            "golden", "verify", "--kernel", "faulty/no_scale", "hand_*"], 1)
        browser = started(program, folder)
        if browser is None:
            return SKIPPED
        try:
            for page in (failing, mapped, passing, golden):
                check_looks(browser, page, screenshots)
            check_controls(browser, failing)
            check_keyboard(browser, failing)
            check_without_scripts(browser, failing, [
                "FAILED", "The scores are not scaled.", "qkvet replay "])
            check_without_scripts(browser, mapped, ["expected and actual"])
            check_without_scripts(browser, passing, ["PASSED", "conforms"])
        finally:
            browser.close()
    print("pages of failing and of passing runs are fine at",
          ", ".join(map(str, WIDTHS)), "px")
    return 0


if __name__ == "__main__":
    sys.exit(main())
