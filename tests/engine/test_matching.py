"""With a renderer that agrees with decode: answers as the engine gives them, one transfer a request, and no mismatch."""

import pytest

import asks
import wire
from conftest import started

MODES = {
    "whole": {},
    "stream": {"stream": True},
    "stream-usage": {"stream": True, "usage": True},
}
CASES = [
    pytest.param(api, mode, tokens, id=f"{api}-{name}-{tokens}")
    for api in asks.APIS
    for name, mode in MODES.items()
    if name != "stream-usage" or api.on_request
    for tokens in (40, 300)  # within one block of the KV cache, and more than one
]
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}}]
VARIANTS = [
    pytest.param(asks.CHAT, {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "caf\u00e9 </s> \u2028 \U0001f600"}]}]}, id="system-and-parts"),
    pytest.param(asks.CHAT, {"tools": TOOLS, "tool_choice": "auto"}, id="tools"),
    pytest.param(asks.CHAT, {"chat_template_kwargs": {"enable_thinking": False}}, id="template-kwargs"),
    pytest.param(asks.CHAT, {"max_completion_tokens": 5, "seed": 7, "stop": ["never said"]}, id="caps"),
    pytest.param(asks.CHAT, {"logprobs": True, "top_logprobs": 2}, id="logprobs"),
    pytest.param(asks.CHAT, {"n": 2, "temperature": 0.5, "seed": 7}, id="two-choices"),
    pytest.param(asks.CHAT, {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}, id="continuous-usage"),
    pytest.param(asks.COMPLETIONS, {"prompt": asks.ids(50)}, id="completion-of-ids"),
    pytest.param(asks.COMPLETIONS, {"logprobs": 1}, id="completion-logprobs"),
    pytest.param(asks.RESPONSES, {"instructions": "be brief"}, id="responses-instructions"),
    pytest.param(asks.MESSAGES, {"system": "be brief", "stop_sequences": ["never said"]}, id="messages-system"),
]


def compare(fleet, matching, books, api, body, transfers=1):
    ours = wire.post(matching.url, api.path, body)
    moved = books.settled(transfers)
    theirs = wire.post(fleet.url("decode"), api.path, body)

    assert asks.normal(api, ours) == asks.normal(api, theirs)
    assert (moved["transfers"], moved["failed"], moved["failed_notifications"], moved["expired"]) == (transfers, 0, 0, 0)
    assert moved["bytes"] > 0 and moved["hits"] > 0
    assert matching.metrics().series("llm_d_coordinator_prompt_token_mismatch_total") == []
    return ours, theirs


@pytest.mark.parametrize("api, mode, tokens", CASES)
def test_an_answer_is_the_engines_own(fleet, matching, books, api, mode, tokens):
    ours, theirs = compare(fleet, matching, books, api, api.body(tokens=tokens, **mode))

    assert asks.text(api, ours) == asks.text(api, theirs) and asks.text(api, ours)
    assert len(asks.usages(ours)) == len(asks.usages(theirs))


@pytest.mark.parametrize("api, more", VARIANTS)
def test_an_unusual_request_is_answered_as_by_the_engine(fleet, matching, books, api, more):
    compare(fleet, matching, books, api, api.body() | more, transfers=more.get("n", 1))  # each choice fetches for itself


@pytest.mark.parametrize("api", asks.APIS, ids=repr)
def test_the_cached_tokens_told_are_those_of_prefill(fleet, matching, api):
    """The second time prefill has the prompt's whole blocks in its cache. Decode would count what it fetched."""
    body = api.body(tokens=300)
    first, second = (asks.usages(wire.post(matching.url, api.path, body))[-1] for _ in range(2))

    assert cached(first) == 0
    assert 0 < cached(second) < asks.prompt_tokens(second)
    assert asks.prompt_tokens(first) == asks.prompt_tokens(second)


def cached(usage):
    for place in ("prompt_tokens_details", "input_tokens_details"):
        if usage.get(place):
            return usage[place]["cached_tokens"]
    return usage["cache_read_input_tokens"]


@pytest.mark.parametrize(
    "api, more",
    [
        pytest.param(asks.CHAT, {"model": "nope"}, id="chat-model"),
        pytest.param(asks.MESSAGES, {"model": "nope"}, id="messages-model"),
        pytest.param(asks.CHAT, {"stream_options": {"include_usage": True}}, id="options-without-stream"),
        pytest.param(asks.CHAT, {"stream": True, "stream_options": "x"}, id="malformed-options"),
        pytest.param(asks.CHAT, {"max_tokens": 1, "min_tokens": 5}, id="min-above-max"),
        pytest.param(asks.CHAT, {"messages": "x"}, id="malformed-messages"),
        pytest.param(asks.COMPLETIONS, {"prompt": asks.ids(5000)}, id="too-long"),
    ],
)
def test_a_refusal_is_the_engines_own(fleet, matching, api, more):
    body = api.body() | more
    ours, theirs = wire.post(matching.url, api.path, body), wire.post(fleet.url("decode"), api.path, body)

    assert (ours.status, ours.body) == (theirs.status, theirs.body)
    assert ours.status >= 400


@pytest.fixture(scope="module")
def decode_alone(fleet, tmp_path_factory):
    yield from started(tmp_path_factory.mktemp("decode-alone"), fleet.url("gateway"), steps=("decode",))


@pytest.mark.parametrize("api", asks.APIS, ids=repr)
def test_without_a_prefill_decode_computes_for_itself_and_lives(fleet, decode_alone, books, api):
    """vLLM's decode dies if it is told to fetch KV and not from where."""
    body = api.body(tokens=300)
    ours, theirs = wire.post(decode_alone.url, api.path, body), wire.post(fleet.url("decode"), api.path, body)

    assert asks.normal(api, ours) == asks.normal(api, theirs)
    assert books.moved()["transfers"] == 0
