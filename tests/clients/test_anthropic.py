"""The official anthropic client, unmodified, against coordinator and simulated fleet."""

import json

import anthropic
import httpx2
import pytest

from conftest import anthropic_at, legs_since, until

HELLO = [{"role": "user", "content": "hello there"}]
ASK = {"model": "m", "max_tokens": 100, "messages": HELLO}
TOOL = {
    "name": "weather",
    "description": "The weather at a place",
    "input_schema": {"type": "object", "properties": {"place": {"type": "string"}, "at": {"type": "string"}}, "required": ["place"]},
}


def prompt_of(usage):
    return usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)


def test_an_answer_is_the_workers(served, sim, worker_claude):
    url, way, legs = served
    before = sim.stats()
    with anthropic_at(url) as client:
        ours = client.messages.create(**ASK, extra_headers=way)
    taken = legs_since(sim, before)
    theirs = worker_claude.messages.create(**ASK)

    assert ours.content[0].text == theirs.content[0].text and ours.content[0].text
    assert ours.stop_reason == theirs.stop_reason == "end_turn"
    assert (prompt_of(ours.usage), ours.usage.output_tokens) == (prompt_of(theirs.usage), 12)
    assert taken == dict.fromkeys(legs, 1)


def test_a_stream_brings_the_text_of_the_whole_answer(served):
    url, way, _ = served
    with anthropic_at(url) as client:
        whole = client.messages.create(**ASK, extra_headers=way)
        with client.messages.stream(**ASK, extra_headers=way) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()

    assert text == whole.content[0].text == final.content[0].text
    assert final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == 12


def test_the_events_of_a_stream_are_those_of_the_api(claude):
    types = [event.type for event in claude.messages.create(**ASK, stream=True)]

    assert types[:2] == ["message_start", "content_block_start"]
    assert types[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert types[2:-3] == ["content_block_delta"] * 12


def test_a_cap_ends_the_answer(claude):
    assert claude.messages.create(model="m", max_tokens=3, messages=HELLO).stop_reason == "max_tokens"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_cached_tokens_are_those_of_prefill(claude, stream):
    headers = {"x-sim-fault-prefill": "cached=5", "x-sim-fault-decode": "cached=7,created-cache=2"}
    plain = claude.messages.create(**ASK).usage
    answer = claude.messages.create(**ASK, stream=stream, extra_headers=headers)
    usage = [event for event in answer if event.type == "message_delta"][0].usage if stream else answer.usage

    assert usage.cache_read_input_tokens == 5 and usage.cache_creation_input_tokens == 2
    assert prompt_of(usage) == prompt_of(plain)


def test_early_zero_counts_do_not_stay(claude):
    with claude.messages.stream(**ASK, extra_headers={"x-sim-fault-decode": "early-zero-usage"}) as stream:
        final = stream.get_final_message()

    assert prompt_of(final.usage) == prompt_of(claude.messages.create(**ASK).usage)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_worker_without_cache_members_is_left_alone_or_completed(claude, stream):
    answer = claude.messages.create(**ASK, stream=stream, extra_headers={"x-sim-fault-prefill": "no-usage", "x-sim-fault-decode": "no-cache-details"})
    usage = [event for event in answer if event.type == "message_delta"][0].usage if stream else answer.usage

    assert usage.cache_read_input_tokens is None and usage.input_tokens > 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_tool_definitions_and_system_reach_all_legs(claude, sim, stream):
    answer = claude.messages.create(**ASK, system="be brief", tools=[TOOL], tool_choice={"type": "auto"}, stream=stream)
    assert list(answer) if stream else answer.content
    bodies = [json.loads(sim.received(phase)[-1]["body"]) for phase in ("render", "prefill", "decode")]

    assert all(body["tools"] == [TOOL] and body["system"] == "be brief" for body in bodies)
    assert list(bodies[2]["tools"][0]["input_schema"]["properties"]) == ["place", "at"]


def test_tool_results_and_blocks_are_answered(claude):
    messages = HELLO + [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "weather", "input": {"place": "Oslo"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "clear"}, {"type": "text", "text": "so?"}]},
    ]

    assert claude.messages.create(model="m", max_tokens=9, messages=messages, tools=[TOOL]).content[0].text


@pytest.mark.parametrize(
    "status, expected",
    [
        (400, anthropic.BadRequestError),
        (401, anthropic.AuthenticationError),
        (403, anthropic.PermissionDeniedError),
        (404, anthropic.NotFoundError),
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
        (502, anthropic.InternalServerError),
        (503, anthropic.InternalServerError),
        (504, anthropic.InternalServerError),
    ],
)
@pytest.mark.parametrize("phase", ["decode", "prefill", "render"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_workers_status_becomes_the_clients_exception(claude, phase, stream, status, expected):
    with pytest.raises(expected) as raised:
        claude.messages.create(**ASK, stream=stream, extra_headers={f"x-sim-fault-{phase}": f"status={status};retry-after=7"})

    of_our_own = phase != "decode" and status in (500, 504)  # what an inner leg failed with is no answer to the client
    assert raised.value.status_code == (502 if of_our_own else status)
    assert raised.value.body["type"] == "error" and raised.value.body["error"]["message"]
    if status in (429, 503):
        assert raised.value.response.headers["retry-after"] == "7"


def test_an_unknown_model_is_not_found(claude):
    with pytest.raises(anthropic.NotFoundError, match="nope"):
        claude.messages.create(model="nope", max_tokens=3, messages=HELLO)


def test_the_coordinators_own_errors_are_of_the_api(claude):
    with pytest.raises(anthropic.BadRequestError) as raised:
        claude.messages.create(**ASK, extra_body={"stream": "yes"})

    assert raised.value.body["type"] == "error"
    assert raised.value.body["error"]["type"] == "invalid_request_error"


def test_a_body_that_is_too_large_says_so(claude):
    with pytest.raises(anthropic.APIStatusError) as raised:
        claude.messages.create(model="m", max_tokens=3, messages=[{"role": "user", "content": "x" * (2 << 20)}])

    assert raised.value.status_code == 413
    assert raised.value.body["error"]["type"] == "request_too_large"


@pytest.mark.parametrize("fault", ["reset-after=700", "fin-after=700", "reset-after=0", "error-event-after=4"])
def test_a_stream_that_breaks_raises(claude, fault):
    with pytest.raises((anthropic.APIError, httpx2.TransportError)):
        list(claude.messages.create(**ASK, stream=True, extra_headers={"x-sim-fault-decode": fault}))


def test_closing_a_stream_early_cancels_the_worker(claude, sim):
    before = sim.stats()["cancelled_in"]["decode"]
    with claude.messages.stream(**ASK | {"max_tokens": 5000}, extra_headers={"x-sim-fault-decode": "event-interval=50,tokens=1000"}) as stream:
        next(iter(stream))

    until(lambda: sim.stats()["cancelled_in"]["decode"] == before + 1)


def test_silence_and_refusal_of_workers_are_told_apart(hasty, nobody):
    with anthropic_at(hasty.url) as client, pytest.raises(anthropic.InternalServerError) as raised:
        client.messages.create(**ASK, stream=True, extra_headers={"x-sim-fault-decode": "silence"})
    assert (raised.value.status_code, raised.value.body["error"]["type"]) == (504, "timeout_error")

    with anthropic_at(nobody.url) as client, pytest.raises(anthropic.InternalServerError) as raised:
        client.messages.create(**ASK)
    assert (raised.value.status_code, raised.value.body["error"]["type"]) == (503, "overloaded_error")
    assert raised.value.response.headers["retry-after"] == "1"


def test_a_retry_after_is_kept_by_the_client(coordinator, sim):
    before = sim.stats()["requests"]["decode"]
    with anthropic_at(coordinator.url, max_retries=1) as client:
        with pytest.raises(anthropic.RateLimitError):
            client.messages.create(**ASK, extra_headers={"x-sim-fault-decode": "status=429;retry-after=1"})

    assert sim.stats()["requests"]["decode"] == before + 2
