"""The Responses API of the official openai client, unmodified, against coordinator and simulated fleet."""

import json

import httpx2
import openai
import pytest

from conftest import legs_since, openai_at, until

ASK = {"model": "m", "input": "hello there"}
TOOL = {
    "type": "function",
    "name": "weather",
    "description": "The weather at a place",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}, "at": {"type": "string"}}, "required": ["place"]},
}


def test_an_answer_is_the_workers(served, sim, worker_client):
    url, way, legs = served
    before = sim.stats()
    with openai_at(url) as client:
        ours = client.responses.create(**ASK, extra_headers=way)
    taken = legs_since(sim, before)
    theirs = worker_client.responses.create(**ASK)

    assert ours.output_text == theirs.output_text and ours.output_text
    assert ours.status == theirs.status == "completed"
    assert (ours.usage.input_tokens, ours.usage.output_tokens) == (theirs.usage.input_tokens, 12)
    assert taken == dict.fromkeys(legs, 1)


def test_a_stream_tells_the_whole_response_at_its_end(served):
    url, way, _ = served
    with openai_at(url) as client:
        whole = client.responses.create(**ASK, extra_headers=way)
        events = list(client.responses.create(**ASK, stream=True, extra_headers=way))

    assert [e.type for e in events[:4]] == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
    ]
    assert events[-1].type == "response.completed"
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.output_text == whole.output_text
    assert events[-1].response.usage.input_tokens == whole.usage.input_tokens


def test_the_streaming_helper_puts_the_answer_together(client):
    with client.responses.stream(**ASK) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()

    assert final.output_text == client.responses.create(**ASK).output_text


def test_a_cap_leaves_the_response_incomplete(client):
    answer = client.responses.create(**ASK, max_output_tokens=3)

    assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage.output_tokens == 3


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_cached_tokens_are_those_of_prefill(client, stream):
    answer = client.responses.create(**ASK, stream=stream, extra_headers={"x-sim-fault-prefill": "cached=5", "x-sim-fault-decode": "cached=7"})
    usage = list(answer)[-1].response.usage if stream else answer.usage

    assert usage.input_tokens_details.cached_tokens == 5
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_tool_definitions_and_instructions_reach_all_legs(client, sim, stream):
    answer = client.responses.create(**ASK, instructions="be brief", tools=[TOOL], stream=stream)
    response = list(answer)[-1].response if stream else answer
    bodies = [json.loads(sim.received(phase)[-1]["body"]) for phase in ("render", "prefill", "decode")]

    assert response.tools[0].name == "weather" and response.instructions == "be brief"
    assert all(body["tools"] == [TOOL] and body["instructions"] == "be brief" for body in bodies)
    assert list(bodies[2]["tools"][0]["parameters"]["properties"]) == ["place", "at"]


def test_a_conversation_of_items_is_answered(client):
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "weather?"}]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"place": "Oslo"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "clear"},
    ]

    assert client.responses.create(model="m", input=items, tools=[TOOL]).output_text


@pytest.mark.parametrize(
    "status, expected, seen",
    [
        (400, openai.BadRequestError, 400),
        (401, openai.AuthenticationError, 401),
        (404, openai.NotFoundError, 404),
        (429, openai.RateLimitError, 429),
        (500, openai.InternalServerError, 500),
        (502, openai.InternalServerError, 502),
        (503, openai.InternalServerError, 503),
        (504, openai.InternalServerError, 504),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_decodes_status_becomes_the_clients_exception(client, stream, status, expected, seen):
    with pytest.raises(expected) as raised:
        client.responses.create(**ASK, stream=stream, extra_headers={"x-sim-fault-decode": f"status={status};retry-after=7"})

    assert raised.value.status_code == seen
    if status == 429:
        assert raised.value.response.headers["retry-after"] == "7"


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError, match="nope"):
        client.responses.create(model="nope", input="hello")


def test_a_stream_that_breaks_is_told_as_failed_or_raises(client):
    """At the end of an event the coordinator tells the failure in the API's words, within one it cuts the connection."""
    events = []
    with pytest.raises((openai.APIError, httpx2.TransportError)):
        events.extend(client.responses.create(**ASK, stream=True, extra_headers={"x-sim-fault-decode": "fin-after=1000"}))
        assert events[-1].type == "response.failed", events[-1]
        raise openai.APIError(events[-1].response.error.message, None, body=None)

    assert not events or events[-1].type != "response.completed"


def test_the_workers_own_error_event_comes_through(client):
    events = list(client.responses.create(**ASK, stream=True, extra_headers={"x-sim-fault-decode": "error-event-after=6"}))

    assert events[-1].type == "error" and "EngineCore" in events[-1].message
    assert events[-1].sequence_number == 6


def test_closing_a_stream_early_cancels_the_worker(client, sim):
    before = sim.stats()["cancelled_in"]["decode"]
    stream = client.responses.create(**ASK, stream=True, extra_headers={"x-sim-fault-decode": "event-interval=50,tokens=1000"})
    next(iter(stream))
    stream.close()

    until(lambda: sim.stats()["cancelled_in"]["decode"] == before + 1)
