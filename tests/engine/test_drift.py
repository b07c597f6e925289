"""With a renderer that disagrees: the engine notices nothing (it counts a full hit), the client gets its answer, we count."""

import json

import pytest

import asks
import wire
from conftest import started, until

STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
RENDERING = pytest.mark.parametrize("api", asks.RENDERING, ids=repr)


def shape(value):
    """The members and their order, without the values."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [shape(item) for item in value]
    return type(value).__name__


def shapes(api, answer):
    return json.dumps(shape(asks.comparable(api, answer)), indent=1)


def counted(coordinator, before, by, **labels):
    """The counter has moved by so much and, the request being over, no further."""
    if by:
        until(lambda: coordinator.mismatches(**labels) >= before + by)
    settled(coordinator)
    return coordinator.mismatches(**labels) - before


def settled(coordinator):
    until(lambda: coordinator.count("request_running") == 0)


@RENDERING
@STREAM
def test_a_request_whose_ids_differ_is_counted_once_and_answered_all_the_same(fleet, drifted, books, api, stream):
    before, own = drifted.mismatches(), drifted.mismatches(api_type=api.name, ids_forwarded="false", model_name="m")
    body = api.body(stream=stream)
    ours = wire.post(drifted.url, api.path, body)

    assert counted(drifted, before, 1) == 1
    assert drifted.mismatches(api_type=api.name, ids_forwarded="false", model_name="m") == own + 1
    moved = books.settled(1)
    theirs = wire.post(fleet.url("decode"), api.path, body)
    prompt = asks.prompt_tokens(asks.usages(theirs)[-1]) if asks.usages(theirs) else None
    assert (ours.status, ours.header("content-type")) == (200, theirs.header("content-type"))
    assert shapes(api, ours) == shapes(api, theirs)
    # W10: nothing in the engine tells a drifted transfer from a good one.
    assert (moved["transfers"], moved["failed"], moved["failed_notifications"]) == (1, 0, 0)
    assert prompt is None or moved["hits"] >= prompt - 1


@STREAM
def test_a_stream_that_asks_for_usage_is_counted_once(drifted, stream):
    before = drifted.mismatches()
    answer = wire.post(drifted.url, asks.CHAT.path, asks.CHAT.body(stream=stream, usage=True))

    assert counted(drifted, before, 1) == 1
    assert len(asks.usages(answer)) == 1


@STREAM
@pytest.mark.parametrize(
    "api, more",
    [
        pytest.param(asks.CHAT, {"chat_template_kwargs": {"enable_thinking": False}}, id="chat-without-thinking"),
        pytest.param(asks.COMPLETIONS, {}, id="completions"),
        pytest.param(asks.GENERATE, {}, id="generate"),
    ],
)
def test_a_request_whose_ids_agree_is_not_counted(drifted, api, more, stream):
    before = drifted.mismatches()
    assert wire.post(drifted.url, api.path, api.body(stream=stream) | more).status == 200

    assert counted(drifted, before, 0) == 0


@RENDERING
@STREAM
def test_forwarded_ids_end_the_drift(fleet, forwarding, api, stream):
    body = api.body(stream=stream, usage=True)
    before = forwarding.mismatches()
    ours = wire.post(forwarding.url, api.path, body)
    rendered = wire.post(fleet.url("drifted"), api.path + "/render", body).json()

    assert ours.status == 200
    assert asks.prompt_tokens(asks.usages(ours)[-1]) == len(rendered["token_ids"])
    assert counted(forwarding, before, 0) == 0


@STREAM
def test_ids_that_the_worker_ignores_because_of_the_content_are_counted_as_forwarded(forwarding, stream):
    """A text part with a media key beside it is no text for vLLM, which then renders for itself."""
    before = forwarding.mismatches()
    parts = [{"type": "text", "text": asks.prompt(), "image_url": None}]
    answer = wire.post(forwarding.url, asks.CHAT.path, asks.CHAT.body(stream=stream) | {"messages": [{"role": "user", "content": parts}]})

    assert answer.status == 200, answer.body
    assert counted(forwarding, before, 1) == 1
    assert forwarding.metrics().series("llm_d_coordinator_prompt_token_mismatch_total", ids_forwarded="false") == []


@pytest.fixture(scope="module")
def without_prefill(fleet, tmp_path_factory):
    options = {"renderer": fleet.url("drifted"), "steps": ("render", "decode"), "decode": {"forward_token_ids": True}}
    yield from started(tmp_path_factory.mktemp("without-prefill"), fleet.url("gateway"), **options)


@STREAM
def test_ids_that_the_worker_ignores_because_of_echo_are_counted_as_forwarded(without_prefill, stream):
    before = without_prefill.mismatches(ids_forwarded="true")
    plain = wire.post(without_prefill.url, asks.CHAT.path, asks.CHAT.body(stream=stream))
    assert plain.status == 200 and counted(without_prefill, before, 0) == 0
    echo = wire.post(without_prefill.url, asks.CHAT.path, asks.CHAT.body(stream=stream, echo=True))

    assert echo.status == 200, echo.body
    assert counted(without_prefill, before, 1) == 1


@pytest.mark.parametrize("more", [{"echo": True}, {"prompt_logprobs": 1}], ids=["echo", "prompt-logprobs"])
def test_what_decode_could_not_compute_is_refused_before_prefill(drifted, more):
    """Decision 28: the prompt's KV is fetched, so its logits are not there."""
    answer = wire.post(drifted.url, asks.CHAT.path, asks.CHAT.body() | more)

    assert answer.status == 400
    assert answer.json()["error"]["param"] == "/" + next(iter(more))
