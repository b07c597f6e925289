"""Requests and answers as they are on the wire: for the tests that compare bytes, frames and headers."""

import http.client
import json
import re
import urllib.parse


class Answer:
    def __init__(self, response, body):
        self.status = response.status
        self.headers = [(name.lower(), value) for name, value in response.getheaders()]
        self.body = body

    def header(self, name):
        values = [value for key, value in self.headers if key == name]
        return ", ".join(values) if values else None

    def json(self):
        return json.loads(self.body)

    @property
    def streamed(self):
        return (self.header("content-type") or "").startswith("text/event-stream")

    def frames(self):
        return frames(self.body)


def connect(url, timeout):
    parts = urllib.parse.urlsplit(url)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)


def encode(body):
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def post(url, path, body, headers=None, timeout=120):
    """One request on a connection of its own; body: bytes as they are, or a value."""
    connection = connect(url, timeout)
    try:
        connection.request("POST", path, encode(body), {"content-type": "application/json"} | (headers or {}))
        response = connection.getresponse()
        return Answer(response, response.read())
    finally:
        connection.close()


def get(url, path, timeout=20):
    connection = connect(url, timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return Answer(response, response.read())
    finally:
        connection.close()


class Stream:
    """An event stream, frame by frame; leaving it early closes the connection."""

    def __init__(self, url, path, body, timeout=120):
        self.connection = connect(url, timeout)
        self.connection.request("POST", path, encode(body), {"content-type": "application/json"})
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave()

    def leave(self):
        self.response.close()
        self.connection.close()

    def frames(self):
        """Raises http.client.IncompleteRead if the answer is cut."""
        lines = []
        while line := self.response.readline():
            if line.strip():
                lines.append(line)
            elif lines:
                yield frame(b"".join(lines))
                lines = []
        assert not lines, f"the stream ends inside an event: {lines}"


def frame(text):
    """The name of an event (None: it has none) and its data: a value, or the text where that is no JSON."""
    name, data = None, []
    for line in text.decode().splitlines():
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
    data = "\n".join(data)
    try:
        return name, json.loads(data)
    except ValueError:
        return name, data


def frames(body):
    parts = body.split(b"\n\n")
    assert parts[-1] == b"", f"the stream does not end with a blank line: {parts[-1]!r}"
    return [frame(part) for part in parts[:-1]]


# ---- metrics

SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Metrics:
    """One look at a metrics page."""

    def __init__(self, url):
        answer = get(url, "/metrics")
        assert answer.status == 200
        self.samples = []
        for line in answer.body.decode().splitlines():
            match = SAMPLE.match(line)
            if match:
                self.samples.append((match[1], dict(LABEL.findall(match[2] or "")), float(match[3])))

    def series(self, name, **labels):
        return [value for known, its, value in self.samples if known == name and labels.items() <= its.items()]

    def sum(self, name, **labels):
        return sum(self.series(name, **labels))
