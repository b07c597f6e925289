"""A proxy that keeps what passes: what the coordinator sends to a worker and what comes back, as bytes. One request a
connection, whole bodies; only for tests that look at legs.
"""

import contextlib
import http.client
import http.server
import threading
import urllib.parse


class Leg:
    def __init__(self, path, headers, body, status, answer):
        self.path, self.headers, self.body, self.status, self.answer = path, headers, body, status, answer
        self.phase = headers.get("x-llm-d-epp-profile")


class Tap:
    def __init__(self, target):
        self.legs = []
        parts = urllib.parse.urlsplit(target)
        tap = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                passed = {name: value for name, value in headers.items() if name not in ("host", "connection", "content-length")}
                with contextlib.closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)) as worker:
                    worker.request("POST", self.path, body, passed)
                    response = worker.getresponse()
                    answer = response.read()
                tap.legs.append(Leg(self.path, headers, body, response.status, answer))
                self.send_response(response.status)
                self.send_header("content-type", response.getheader("content-type"))
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self):
        """The legs since the last time."""
        legs, self.legs = self.legs, []
        return legs

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
