"""Many streams at once, every API among them: no error of ours, every answer whole, one transfer a request."""

import collections
import http.client
import os
import threading
import time

import asks
import wire
from conftest import until

CLIENTS = 64
SECONDS = float(os.environ.get("ENGINE_LOAD_SECONDS", "120"))
OUTPUT = 24


def whole(api, frames):
    """The stream came to its own end, and told as many tokens as were asked for."""
    usage = [data for _, data in frames if isinstance(data, dict)]
    if api is asks.RESPONSES:
        assert frames[-1][0] == "response.completed", frames[-1]
        return frames[-1][1]["response"]["usage"]["output_tokens"]
    if api is asks.MESSAGES:
        assert frames[-1][0] == "message_stop", frames[-1]
        return usage[-2]["usage"]["output_tokens"]
    assert frames[-1] == (None, "[DONE]"), frames[-1]
    return usage[-1]["usage"]["completion_tokens"]


class Client(threading.Thread):
    def __init__(self, url, number, end):
        super().__init__()
        self.url, self.number, self.end = url, number, end
        self.answered, self.tokens, self.errors = collections.Counter(), 0, []

    def run(self):
        for turn in range(1 << 30):
            if time.monotonic() > self.end or self.errors:
                return
            api = asks.APIS[(self.number + turn) % len(asks.APIS)]
            try:
                self.tokens += self.one(api, tokens=200 if turn % 4 == 0 else 40)
                self.answered[api.name] += 1
            except (AssertionError, OSError, http.client.HTTPException, KeyError) as error:
                self.errors.append(f"{api}: {error!r}")

    def one(self, api, tokens):
        with wire.Stream(self.url, api.path, api.body(stream=True, usage=True, tokens=tokens, output=OUTPUT)) as stream:
            if stream.status != 200:
                raise AssertionError(f"status {stream.status}: {stream.response.read()[:300]}")
            told = whole(api, list(stream.frames()))
            assert told == OUTPUT or api is asks.MESSAGES and 0 < told <= OUTPUT, f"{told} tokens"
            return told


def test_64_streams_at_once(matching, books, record_property):
    errors_before = matching.count("request_error_total")
    clients = [Client(matching.url, number, time.monotonic() + SECONDS) for number in range(CLIENTS)]
    began = time.monotonic()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    took = time.monotonic() - began
    answered = sum((client.answered for client in clients), collections.Counter())
    requests = sum(answered.values())
    moved = books.settled(requests)

    record_property("figure", f"{CLIENTS} clients, {took:.0f} s: {requests} streams, {sum(c.tokens for c in clients)} tokens, {moved['transfers']:.0f} transfers")
    assert [error for client in clients for error in client.errors] == []
    assert matching.count("request_error_total") == errors_before
    assert (moved["transfers"], moved["failed"], moved["failed_notifications"], moved["expired"]) == (requests, 0, 0, 0)
    assert set(answered) == {api.name for api in asks.APIS}
    assert matching.metrics().series("llm_d_coordinator_prompt_token_mismatch_total") == []
    until(lambda: matching.count("request_running") == 0)
