"""The server of the view: answers the one who has its address, and nobody else."""

from __future__ import annotations

import gzip
import http.client
import socket
import threading
from collections.abc import Iterator, Mapping

import pytest

from trueline.web.server import Answer, ViewServer


class Echo:
    """A view that says what it was asked for."""

    def page(self) -> Answer:
        return Answer(b"<!doctype html>" + b"x" * 5_000, "text/html; charset=utf-8", "default-src 'none'")

    def answer(self, name: str, words: Mapping[str, str]) -> Answer | None:
        if name == "data/gone":
            raise FileNotFoundError("calls.db <b>")
        return Answer(f"{name} {sorted(words.items())}".encode()) if name.startswith("data/") else None


@pytest.fixture
def server() -> Iterator[ViewServer]:
    made = ViewServer(Echo())
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join(5)


def asked(
    server: ViewServer, path: str, *, method: str = "GET", host: str | None = None, accept: str = ""
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    headers = {"Host": host or f"127.0.0.1:{server.server_port}", "Accept-Encoding": accept}
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    found = response.status, dict(response.getheaders()), response.read()
    connection.close()
    return found


def test_the_page_and_its_data_are_served_under_the_token(server: ViewServer) -> None:
    status, headers, content = asked(server, f"/{server.token}/")
    assert status == 200 and content.startswith(b"<!doctype html>")
    assert headers["Content-Security-Policy"] == "default-src 'none'" and headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in headers and "Access-Control-Allow-Origin" not in headers
    assert asked(server, f"/{server.token}/data/call?position=3")[2] == b"data/call [('position', '3')]"
    assert server.url == f"http://127.0.0.1:{server.server_port}/{server.token}/"


def test_long_answers_are_compressed_for_those_who_can_read_it(server: ViewServer) -> None:
    _, headers, content = asked(server, f"/{server.token}/", accept="gzip, br")
    assert headers["Content-Encoding"] == "gzip" and len(gzip.decompress(content)) > len(content)


@pytest.mark.parametrize("path", ["/", "/data/call", "/wrong/", "/wrong/data/call", "//", "/%00/"])
def test_without_the_token_nothing_is_told(server: ViewServer, path: str) -> None:
    status, _, content = asked(server, path)
    assert status == 403 and content == b"403 Forbidden\n"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", ""])
def test_a_foreign_host_header_is_refused(server: ViewServer, host: str) -> None:
    assert asked(server, f"/{server.token}/", host=host or " ")[0] == 403


def test_localhost_is_this_server_too(server: ViewServer) -> None:
    assert asked(server, f"/{server.token}/", host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize("name", ["../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "run.json", "data"])
def test_a_path_is_never_opened(server: ViewServer, name: str) -> None:
    assert asked(server, f"/{server.token}/{name}")[0] == 404


def test_the_token_alone_without_a_slash_is_not_the_page(server: ViewServer) -> None:
    assert asked(server, f"/{server.token}")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "<b>"])
def test_nothing_can_be_changed(server: ViewServer, method: str) -> None:
    status, headers, content = asked(server, f"/{server.token}/", method=method)
    assert status == 405 and headers["Allow"] == "GET, HEAD" and content == b"405 Method Not Allowed\n"


@pytest.mark.parametrize("line", [b"GET /\r\n\r\n", b"\x16\x03\x01 hello\r\n\r\n", b"GET / HTTP/9\r\n\r\n"])
def test_what_is_no_request_gets_no_page(server: ViewServer, line: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=5) as line_of_bytes:
        line_of_bytes.sendall(line)
        answer = line_of_bytes.makefile("rb").read()
    assert not answer.startswith(b"HTTP/1.1 200") and b"doctype" not in answer and b"<" not in answer


def test_what_cannot_be_read_any_more_is_told_on_the_terminal_alone(
    server: ViewServer, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, content = asked(server, f"/{server.token}/data/gone")
    assert status == 500 and content == b"500 Internal Server Error\n"
    assert capsys.readouterr().err == "trueline view: data/gone: FileNotFoundError: calls.db <b>\n"
    assert asked(server, f"/{server.token}/")[0] == 200, "the rest is served as before"


def test_head_has_no_content(server: ViewServer) -> None:
    status, headers, content = asked(server, f"/{server.token}/", method="HEAD")
    assert status == 200 and content == b"" and int(headers["Content-Length"]) > 5_000
