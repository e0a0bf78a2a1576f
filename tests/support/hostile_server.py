"""A server on this machine that sends files, and misbehaves in many ways."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONTENT = bytes(range(256)) * 50
OTHER = bytes(reversed(range(256))) * 50
HALF = len(CONTENT) // 2


class Handler(BaseHTTPRequestHandler):
    """The path says how the answer goes wrong; see WAYS."""

    def do_GET(self):
        self.server.asked.append(self.path)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client has left
            WAYS.get(self.path, whole_file)(self)

    def log_message(self, *arguments):
        pass

    def head(self, status: int = 200, **headers) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def send(self, body: bytes) -> None:
        self.head(Content_Length=len(body))
        self.wfile.write(body)


def whole_file(handler: Handler) -> None:
    handler.send(CONTENT)


def breaks_off(handler: Handler) -> None:
    handler.head(Content_Length=len(CONTENT))
    handler.wfile.write(CONTENT[:HALF])


def breaks_off_silently(handler: Handler) -> None:
    """Without saying how much there is."""
    handler.head()
    handler.wfile.write(CONTENT[:HALF])


def for_ever(handler: Handler) -> None:
    handler.head()
    while True:
        handler.wfile.write(CONTENT)


def for_ever_in_chunks(handler: Handler) -> None:
    handler.protocol_version = "HTTP/1.1"
    handler.head(Transfer_Encoding="chunked")
    while True:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(CONTENT), CONTENT))


def bad_chunks(handler: Handler) -> None:
    handler.head(Transfer_Encoding="chunked")
    handler.wfile.write(b"5\r\nhello\r\nnonsense\r\n")


def odd_error(handler: Handler) -> None:
    handler.send_response(503, "\x1b[2J\u202e".encode().decode("latin-1") + "x" * 5000)
    handler.end_headers()


def falls_silent(handler: Handler) -> None:
    handler.head(Content_Length=len(CONTENT))
    handler.wfile.write(CONTENT[:HALF])
    handler.server.ended.wait()


def endless_head(handler: Handler) -> None:
    handler.send_response(200)
    for k in range(100_000):
        handler.wfile.write(b"X-%d: y\r\n" % k)


def odd_lengths(handler: Handler) -> None:
    """The file itself, whose length nobody can read."""
    handler.head(Content_Length="9" * 5000)
    handler.wfile.write(CONTENT)


WAYS: dict[str, Callable[[Handler], object]] = {
    "/packed_text": lambda answer: answer.send(gzip.compress(CONTENT)),
    "/torn_text": lambda answer: answer.send(gzip.compress(CONTENT)[:-9]),
    "/one_byte_more": lambda answer: answer.send(CONTENT + b"x"),
    "/one_byte_less": lambda answer: answer.send(CONTENT[:-1]),
    "/page_of_a_hotel": lambda answer: answer.send(b"<html>Please log in.</html>"),
    "/range_without_being_asked": lambda answer: answer.head(
        206, Content_Range=f"bytes {HALF}-{len(CONTENT) - 1}/{len(CONTENT)}"
    ),
    "/another_file": lambda answer: answer.send(OTHER),
    "/not_there": lambda answer: answer.send_error(404),
    "/redirects": lambda answer: answer.head(302, Location="/file"),
    "/redirects_for_ever": lambda answer: answer.head(302, Location="/redirects_for_ever"),
    "/redirects_to_a_file": lambda answer: answer.head(302, Location="file:///etc/passwd"),
    "/no_http": lambda answer: answer.wfile.write(b"\xff\xfe\0 nothing that HTTP knows\n" * 20),
    "/hangs_up": lambda answer: answer.connection.shutdown(socket.SHUT_RDWR),
    **{
        f"/{way.__name__}": way
        for way in (
            *(breaks_off, breaks_off_silently, for_ever, for_ever_in_chunks, bad_chunks),
            *(odd_error, falls_silent, endless_head, odd_lengths),
        )
    },
}


@contextmanager
def serving() -> Iterator[ThreadingHTTPServer]:
    """The server at work; `asked` has the path of each request."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked, server.ended = [], threading.Event()
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
