"""Serves one view on loopback: read-only, to whoever knows the token in its address, and to nobody else.

A page from elsewhere that is open in the same browser can send requests to any port of this machine. So every address
begins with a token that only the user was told, the ``Host`` header must name this server (a foreign name that was bent
to loopback does not), and nothing is answered but what the view itself gives: no path is ever opened because a request
names it.
"""

from __future__ import annotations

import gzip
import secrets
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

LOOPBACK = "127.0.0.1"
_COMPRESSED_FROM = 2_000
_SILENT_SECONDS = 30.0
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back. ``policy`` is the page's own rule for what it may load and run."""

    content: bytes
    kind: str = "application/json"
    policy: str = "default-src 'none'"


class View(Protocol):
    """What is served."""

    def page(self) -> Answer:
        """The page itself."""

    def answer(self, name: str, words: Mapping[str, str]) -> Answer | None:
        """What the page asks for afterwards; None where there is no such thing."""


class ViewServer(ThreadingHTTPServer):
    """A view at ``url`` until it is closed."""

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, view: View, port: int = 0) -> None:
        self.view = view
        self.token = secrets.token_urlsafe(18)
        super().__init__((LOOPBACK, port), _Handler)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def is_ours(self, host: str) -> bool:
        """Whether a ``Host`` header names this server."""
        return host in (f"{LOOPBACK}:{self.server_port}", f"localhost:{self.server_port}")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is nothing to tell."""


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer
    server_version = "trueline"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = _SILENT_SECONDS

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        self._respond(with_content=True)

    def do_HEAD(self) -> None:
        self._respond(with_content=False)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses (a method other than ours, a request that is none) is refused in our words, which
        repeat nothing of the request."""
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code))

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not told: the page makes many."""

    def _respond(self, *, with_content: bool) -> None:
        answer = self._answer()
        if isinstance(answer, HTTPStatus):
            self._refuse(answer, with_content=with_content)
        else:
            self._send(HTTPStatus.OK, answer, with_content)

    def _refuse(self, status: HTTPStatus, *, with_content: bool = True) -> None:
        self.close_connection = True
        words = Answer(f"{status.value} {status.phrase}\n".encode(), "text/plain; charset=utf-8")
        self._send(status, words, with_content)

    def _answer(self) -> Answer | HTTPStatus:
        if not self.server.is_ours(self.headers.get("Host", "")):
            return HTTPStatus.FORBIDDEN
        parts = urlsplit(self.path)
        token, slash, name = unquote(parts.path).removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            return HTTPStatus.FORBIDDEN
        if not slash:
            return HTTPStatus.NOT_FOUND
        try:
            if not name:
                return self.server.view.page()
            return self.server.view.answer(name, dict(parse_qsl(parts.query))) or HTTPStatus.NOT_FOUND
        except Exception as error:  # what is shown may be deleted or damaged while it is shown
            print(f"trueline view: {name or 'the page'}: {type(error).__name__}: {error}", file=sys.stderr)
            return HTTPStatus.INTERNAL_SERVER_ERROR

    def _send(self, status: HTTPStatus, answer: Answer, with_content: bool) -> None:
        content = answer.content
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", answer.policy)
        self.send_header("Content-Type", answer.kind)
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        if len(content) >= _COMPRESSED_FROM and "gzip" in self.headers.get("Accept-Encoding", ""):
            content = gzip.compress(content, compresslevel=1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_content:
            self.wfile.write(content)
