"""Clients that leave in mid-stream, and a decode worker that dies in mid-stream."""

import http.client
import time

import pytest

import asks
import wire
from conftest import Books, started, until

RUNNING, WAITING, KV_USAGE = "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"
LONG = 3000  # tokens: many seconds


def load(fleet, name):
    page = wire.Metrics(fleet.url(name))
    return page.sum(RUNNING) + page.sum(WAITING)


def idle(fleet, *names):
    """no request runs or waits"""
    return all(load(fleet, name) == 0 for name in names)


def pinned(fleet, name):
    return wire.Metrics(fleet.url(name)).sum(KV_USAGE)


def begin(coordinator, api, frames=6):
    """A long stream, some frames in."""
    stream = wire.Stream(coordinator.url, api.path, api.body(stream=True, output=LONG, tokens=300))
    assert stream.status == 200
    reader = stream.frames()
    for _ in range(frames):
        next(reader)
    return stream, reader


@pytest.mark.parametrize("api", asks.APIS, ids=repr)
def test_when_a_client_leaves_the_engine_stops_within_a_second_and_no_kv_stays_pinned(fleet, matching, api, record_property):
    until(lambda: idle(fleet, "prefill", "decode"))
    stream, _ = begin(matching, api)
    until(lambda: load(fleet, "decode") == 1)
    stream.leave()
    left = time.monotonic()
    until(lambda: idle(fleet, "decode"), 1)
    record_property("figure", f"{api}: stopped after {time.monotonic() - left:.2f} s")

    until(lambda: pinned(fleet, "prefill") == 0 and pinned(fleet, "decode") == 0, 5)
    books = Books(fleet.url("decode"))
    answer = wire.post(matching.url, api.path, api.body(tokens=300))
    moved = books.settled(1)
    assert answer.status == 200
    assert (moved["transfers"], moved["failed"], moved["expired"]) == (1, 0, 0)
    assert moved["hits"] >= asks.prompt_tokens(asks.usages(answer)[-1]) - 1


def test_clients_that_leave_early_stop_the_engines(fleet, matching, record_property):
    """At whichever moment. Blocks that prefill had finished before it heard of that wait for a decode that never comes, until the engine lets them go
    (VLLM_NIXL_ABORT_REQUEST_TIMEOUT)."""
    until(lambda: idle(fleet, "prefill", "decode"))
    for moment in (0, 0.02, 0.05, 0.1, 0.2):  # before, in and after prefill, wherever that is on this machine
        stream = wire.connect(matching.url, 5)
        stream.request("POST", asks.CHAT.path, wire.encode(asks.CHAT.body(stream=True, tokens=3000, output=50)), {"content-type": "application/json"})
        time.sleep(moment)
        stream.close()
    until(lambda: idle(fleet, "prefill", "decode"), 5)
    record_property("figure", f"left early, five times: {pinned(fleet, 'prefill'):.2%} of prefill's KV waits for a decode")
    assert wire.post(matching.url, asks.CHAT.path, asks.CHAT.body()).status == 200


# ---- a worker that dies


@pytest.fixture
def mortal(fleet):
    """Decode may be killed; afterwards it is there again, on its port."""
    port = fleet.members["decode"]["port"]
    yield port
    if not fleet.alive("decode"):
        fleet.start("decode", port=port)
    fleet.wait("decode")


def ending(reader):
    """What came after the worker's death: the frames, and whether the stream ended cleanly."""
    frames = []
    try:
        for frame in reader:
            frames.append(frame)
    except (http.client.HTTPException, OSError, AssertionError):
        return frames, False
    return frames, True


def test_when_decode_dies_streams_end_with_an_error_and_the_next_requests_wait_for_it(fleet, matching, mortal, tmp_path, record_property):
    streams = {api: begin(matching, api) for api in asks.APIS}
    until(lambda: load(fleet, "decode") == len(asks.APIS))
    fleet.kill("decode")
    for api, (stream, reader) in streams.items():
        frames, clean = ending(reader)
        stream.leave()
        check_ending(api, frames, clean)

    for api in asks.APIS:
        for stream in (False, True):
            answer = wire.post(matching.url, api.path, api.body(stream=stream))
            assert (answer.status, answer.json()["error"]["message"]) == (503, "no worker is there")  # the gateway's own words

    for direct in started(tmp_path, f"http://127.0.0.1:{mortal}", steps=("decode",)):  # without a gateway: ours
        answer = wire.post(direct.url, asks.CHAT.path, asks.CHAT.body())
        assert (answer.status, answer.header("retry-after"), answer.json()["error"]["code"]) == (503, "1", "upstream_unavailable")

    fleet.start("decode", port=mortal)
    fleet.wait("decode")
    for api in asks.APIS:
        assert wire.post(matching.url, api.path, api.body()).status == 200


def check_ending(api, frames, clean):
    """Decision 53: at an event's end, one error event in the API's shape, no [DONE], a clean end."""
    assert clean, (api, frames[-2:])
    event, data = frames[-1]
    assert not any(data == "[DONE]" for _, data in frames), api
    assert sum(1 for _, data in frames if isinstance(data, dict) and is_error(data)) == 1, (api, frames[-2:])
    if api is asks.MESSAGES:
        assert (event, data["type"]) == ("error", "error") and data["error"]["message"]
    elif api is asks.RESPONSES:
        assert (event, data["response"]["status"]) == ("response.failed", "failed") and data["response"]["error"]["message"]
    else:
        assert event is None and data["error"]["message"]


def is_error(data):
    return "error" in data or data.get("type") in ("error", "response.failed")
