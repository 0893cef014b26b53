"""A headless Chromium, driven over its debugging pipe; the standard library is enough for that."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE_S = 60  # only a hang reaches it


class Browser:
    """One Chromium with a profile of its own. Use as a context; pages come from page()."""

    def __init__(self, program="chromium"):
        self.profile = tempfile.mkdtemp(prefix="samerun-chromium-")
        to_child, self.to_browser = os.pipe()
        self.from_browser, from_child = os.pipe()
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
                   "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--force-color-profile=srgb",
                   "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"]

        def as_three_and_four():  # the browser reads from 3 and writes to 4
            os.dup2(to_child, 103)
            os.dup2(from_child, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        with open(os.path.join(self.profile, "log"), "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, close_fds=False, preexec_fn=as_three_and_four,
                                            start_new_session=True)
        os.close(to_child)
        os.close(from_child)
        self.last_id, self.rest, self.events = 0, b"", []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        """The next message. RuntimeError when there will be none."""
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.from_browser], [], [], max(0, deadline - time.monotonic()))
            data = os.read(self.from_browser, 1 << 16) if ready else b""
            if not data:
                raise RuntimeError("Chromium said nothing more" + ("" if ready else f" for {PATIENCE_S} s"))
            self.rest += data
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def page(self, **conditions):
        return Page(self, **conditions)


class Page:
    """A tab. Keeps what the page wrote to the console, what it threw, and what it asked the network for."""

    def __init__(self, browser, width=1280, height=900, dark=False, script=True):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        if not script:
            self.call("Emulation.setScriptExecutionDisabled", value=True)

    def call(self, method, **parameters):
        return self.browser.call(method, session=self.session, **parameters)

    def open(self, file):
        self.call("Page.navigate", url="file://" + os.path.abspath(file))
        while not any(True for _ in self.events("Page.loadEventFired")):
            self.browser.events.append(self.browser.receive())

    def events(self, method):
        """Parameters of what the browser told of this page."""
        return (e["params"] for e in self.browser.events if e.get("method") == method and e.get("sessionId") == self.session)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "the page threw"))
        return answer["result"].get("value")

    def complaints(self):
        """Errors and warnings of the page since it was opened."""
        found = [str(thrown["exceptionDetails"]) for thrown in self.events("Runtime.exceptionThrown")]
        found += [str(said["args"]) for said in self.events("Runtime.consoleAPICalled") if said["type"] in ("error", "warning", "assert")]
        return found + [log["entry"]["text"] for log in self.events("Log.entryAdded") if log["entry"]["level"] in ("error", "warning")]

    def requests(self):
        return [sent["request"]["url"] for sent in self.events("Network.requestWillBeSent")]

    def screenshot(self, file, whole=True):
        with open(file, "wb") as png:
            png.write(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
