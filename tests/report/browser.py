"""Drives a real Chromium through its debugging pipe, with nothing but the standard library."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# The middle of an element, after bringing it into view and letting the page settle there; notes a click that comes.
_PLACE_OF = """(async () => {
  const find = () => document.querySelector(SELECTOR);
  find().scrollIntoView({block: 'center', behavior: 'instant'});
  for (let n = 0; n < 2; n++) await new Promise(requestAnimationFrame);
  const box = find().getBoundingClientRect();
  window.clickArrived = false;
  document.addEventListener('click', (event) => { window.clickArrived = find()?.contains(event.target) ?? false; },
                            {capture: true, once: true});
  return [box.x + box.width / 2, box.y + box.height / 2];
})()"""


class Browser:
    """One page in one browser. ``requests`` are the addresses it asked for, ``complaints`` its console errors."""

    def __init__(self, profile: Path, width: int = 1300, height: int = 900) -> None:
        assert CHROMIUM is not None
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe",
            f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank",
        ]  # fmt: skip

        def place() -> None:  # Chromium listens on descriptor 3 and answers on 4
            high = [fcntl.fcntl(number, fcntl.F_DUPFD, 10) for number in (to_browser, from_browser)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            command, preexec_fn=place, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        pages = self.send("Target.getTargets")["targetInfos"]
        target = next(page["targetId"] for page in pages if page["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(width, height)

    def resize(self, width: int, height: int) -> None:
        phone = width < 720
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def open(self, file: Path, fragment: str = "") -> None:
        self.send("Page.navigate", url=f"file://{file}#{fragment}")
        self.wait("document.readyState === 'complete' && document.documentElement.dataset.ready !== undefined")

    def run(self, program: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.send("Runtime.evaluate", expression=program, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        for _ in range(400):
            if self.run(f"Boolean({condition})"):
                return
            self.run("new Promise((done) => setTimeout(done, 25))")
        raise AssertionError(f"never came true: {condition}")

    def click(self, x: float, y: float) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            more = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click_on(self, selector: str) -> None:
        """Clicks in the middle of an element. A page that still moves, or that has not drawn yet, may let a click go
        past, as it would a person's: then it is clicked again."""
        for _ in range(20):
            self.click(*self.run(_PLACE_OF.replace("SELECTOR", json.dumps(selector))))
            if self.run("window.clickArrived !== false"):  # a new page knows of no click: this one led there
                return
        raise AssertionError(f"no click arrives at {selector}")

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {"Enter": {"text": "\r"}}.get(key, {})
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def send(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(parameters["exceptionDetails"]["text"])
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(parameters["entry"]["text"])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has gone"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        self._process.wait(timeout=30)
