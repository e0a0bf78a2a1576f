"""A server on this machine that sends files, and misbehaves in many ways."""

from __future__ import annotations

import contextlib
import gzip
import re
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
        asked = re.search(r"\d+", self.headers.get("Range", ""))
        begin = int(asked[0]) if asked else 0
        self.server.asked.append((self.path, begin))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client has left
            WAYS.get(self.path, whole_file)(self, begin)

    def log_message(self, *arguments):
        pass

    def head(self, status: int = 200, **headers) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def send(self, body: bytes, begin: int = 0, **headers) -> None:
        """All of the body, or what follows `begin`, as HTTP wants it."""
        size = len(body)
        if begin:
            headers = {"Content_Range": f"bytes {begin}-{size - 1}/{size}", **headers}
        self.head(206 if begin else 200, **{"Content_Length": size - begin, **headers})
        self.wfile.write(body[begin:])


def whole_file(handler: Handler, begin: int) -> None:
    handler.send(CONTENT, begin)


def breaks_off_once(handler: Handler, begin: int) -> None:
    """In the middle; what is asked for afterwards is sent."""
    if begin:
        return handler.send(CONTENT, begin)
    handler.head(Content_Length=len(CONTENT))
    handler.wfile.write(CONTENT[:HALF])


def breaks_off_always(handler: Handler, begin: int) -> None:
    """After a fifth of the rest, at least 100 bytes; without saying how much there is."""
    headers = {"Content_Range": f"bytes {begin}-{len(CONTENT) - 1}/*"} if begin else {}
    handler.head(206 if begin else 200, **headers)
    rest = CONTENT[begin:]
    handler.wfile.write(rest[: max(100, len(rest) // 5)])


def for_ever(handler: Handler, begin: int) -> None:
    handler.head()
    while True:
        handler.wfile.write(CONTENT)


def for_ever_in_chunks(handler: Handler, begin: int) -> None:
    handler.protocol_version = "HTTP/1.1"
    handler.head(Transfer_Encoding="chunked")
    while True:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(CONTENT), CONTENT))


def resumed_for_ever(handler: Handler, begin: int) -> None:
    size = len(CONTENT)
    handler.head(206, Content_Range=f"bytes {begin}-{size - 1}/{size}")
    while True:
        handler.wfile.write(CONTENT)


def bad_chunks(handler: Handler, begin: int) -> None:
    handler.head(Transfer_Encoding="chunked")
    handler.wfile.write(b"5\r\nhello\r\nnonsense\r\n")


def another_range(handler: Handler, begin: int) -> None:
    if not begin:
        return handler.send(CONTENT)
    handler.send(CONTENT, begin, Content_Range=f"bytes {begin - 1}-{len(CONTENT) - 1}/*")


def of_another_size(handler: Handler, begin: int) -> None:
    if not begin:
        return handler.send(CONTENT)
    handler.send(CONTENT, begin, Content_Range=f"bytes {begin}-{len(CONTENT)}/{len(CONTENT) + 1}")


def odd_error(handler: Handler, begin: int) -> None:
    handler.send_response(503, "\x1b[2J\u202e".encode().decode("latin-1") + "x" * 5000)
    handler.end_headers()


def falls_silent(handler: Handler, begin: int) -> None:
    handler.head(Content_Length=len(CONTENT))
    handler.wfile.write(CONTENT[:HALF])
    handler.server.ended.wait()


def endless_head(handler: Handler, begin: int) -> None:
    handler.send_response(200)
    for k in range(100_000):
        handler.wfile.write(b"X-%d: y\r\n" % k)


def odd_lengths(handler: Handler, begin: int) -> None:
    """The file itself, whose length nobody can read."""
    handler.head(Content_Length="9" * 5000)
    handler.wfile.write(CONTENT)


WAYS: dict[str, Callable[[Handler, int], object]] = {
    "/packed_text": lambda answer, begin: answer.send(gzip.compress(CONTENT), begin),
    "/torn_text": lambda answer, begin: answer.send(gzip.compress(CONTENT)[:-9], begin),
    "/one_byte_more": lambda answer, begin: answer.send(CONTENT + b"x"),
    "/one_byte_less": lambda answer, begin: answer.send(CONTENT[:-1]),
    "/ignores_ranges": lambda answer, begin: answer.send(CONTENT),
    "/page_of_a_hotel": lambda answer, begin: answer.send(b"<html>Please log in.</html>"),
    "/refuses_ranges": lambda answer, begin: (
        answer.head(416, Content_Range=f"bytes */{len(CONTENT)}") if begin else answer.send(CONTENT)
    ),
    "/nameless_range": lambda answer, begin: (
        answer.send(CONTENT, begin, Content_Range="nonsense") if begin else answer.send(CONTENT)
    ),
    "/range_without_being_asked": lambda answer, begin: answer.send(CONTENT, HALF),
    "/another_file": lambda answer, begin: answer.send(OTHER, begin),
    "/not_there": lambda answer, begin: answer.send_error(404),
    "/redirects": lambda answer, begin: answer.head(302, Location="/file"),
    "/redirects_for_ever": lambda answer, begin: answer.head(302, Location="/redirects_for_ever"),
    "/redirects_to_a_file": lambda answer, begin: answer.head(302, Location="file:///etc/passwd"),
    "/no_http": lambda answer, begin: answer.wfile.write(
        b"\xff\xfe\0 nothing that HTTP knows\n" * 20
    ),
    "/hangs_up": lambda answer, begin: answer.connection.shutdown(socket.SHUT_RDWR),
    **{
        f"/{way.__name__}": way
        for way in (
            *(breaks_off_once, breaks_off_always, for_ever, for_ever_in_chunks, resumed_for_ever),
            *(bad_chunks, another_range, of_another_size, odd_error, falls_silent),
            *(endless_head, odd_lengths),
        )
    },
}


@contextmanager
def serving() -> Iterator[ThreadingHTTPServer]:
    """The server at work; `asked` has the path and the first byte of each request."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked, server.ended = [], threading.Event()
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
