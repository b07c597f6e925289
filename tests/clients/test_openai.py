"""Chat and completions of the official openai client, unmodified, against coordinator and simulated fleet."""

import asyncio
import json

import httpx2
import openai
import pytest

from conftest import legs_since, openai_at, until

HELLO = [{"role": "user", "content": "hello there"}]
CHAT = {"model": "m", "messages": HELLO}
COMPLETION = {"model": "m", "prompt": "once upon a time"}
ASK_ID = {"x-request-id": "client-test-1"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather at a place",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}, "at": {"type": "string"}, "aloud": {"type": "boolean"}},
            "required": ["place"],
        },
    },
}


def text_of(chunks):
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


# ---- answers


def test_a_chat_answer_is_the_workers(client, worker_client):
    ours, theirs = client.chat.completions.create(**CHAT), worker_client.chat.completions.create(**CHAT)

    assert ours.choices[0].message.content == theirs.choices[0].message.content
    assert ours.choices[0].finish_reason == theirs.choices[0].finish_reason
    assert ours.usage.completion_tokens == theirs.usage.completion_tokens == 12
    assert ours.usage.prompt_tokens == theirs.usage.prompt_tokens


def test_a_chat_stream_brings_the_text_of_the_whole_answer(client):
    whole = client.chat.completions.create(**CHAT)
    chunks = list(client.chat.completions.create(**CHAT, stream=True))

    assert text_of(chunks) == whole.choices[0].message.content
    assert [c.finish_reason for chunk in chunks for c in chunk.choices][-1] == whole.choices[0].finish_reason


def test_a_stream_that_asks_for_usage_gets_it_once(client):
    chunks = list(client.chat.completions.create(**CHAT, stream=True, stream_options={"include_usage": True}))
    with_usage = [chunk for chunk in chunks if chunk.usage]

    assert len(with_usage) == 1 and with_usage[0] is chunks[-1]
    assert with_usage[0].choices == [] and with_usage[0].usage.completion_tokens == 12


def test_a_stream_that_does_not_ask_for_usage_gets_none(client):
    chunks = list(client.chat.completions.create(**CHAT, stream=True))

    assert all(not chunk.usage for chunk in chunks)
    assert all(chunk.choices for chunk in chunks)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_every_way_gives_the_same_text_and_usage(served, sim, worker_client, stream):
    url, way, legs = served
    more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    before = sim.stats()
    with openai_at(url) as client:
        chat = client.chat.completions.create(**CHAT, **more, extra_headers=way)
        chat = list(chat) if stream else chat
        taken = legs_since(sim, before)
        completion = client.completions.create(**COMPLETION, **more, extra_headers=way)
        completion = list(completion) if stream else completion
    direct, direct_completion = worker_client.chat.completions.create(**CHAT), worker_client.completions.create(**COMPLETION)

    assert taken == dict.fromkeys(legs, 1)
    if stream:
        assert text_of(chat) == direct.choices[0].message.content
        assert "".join(c.text for chunk in completion for c in chunk.choices) == direct_completion.choices[0].text
        chat, completion = chat[-1], completion[-1]
    else:
        assert chat.choices[0].message.content == direct.choices[0].message.content
        assert completion.choices[0].text == direct_completion.choices[0].text
    assert chat.usage.prompt_tokens == direct.usage.prompt_tokens
    assert completion.usage.prompt_tokens == direct_completion.usage.prompt_tokens


@pytest.mark.parametrize("fault", ["", "usage-null-chunks", "no-cache-details", "no-usage", "force-include-usage"])
def test_no_kind_of_worker_puts_a_usage_frame_before_who_did_not_ask(served, fault):
    url, way, _ = served
    headers = {**way, "x-sim-fault-decode": fault, "x-sim-fault-probe": fault}
    with openai_at(url) as client:
        chats = list(client.chat.completions.create(**CHAT, stream=True, extra_headers=headers))
        completions = list(client.completions.create(**COMPLETION, stream=True, extra_headers=headers))

    for chunks in (chats, completions):
        assert chunks and all(chunk.choices and not chunk.usage for chunk in chunks)


def test_continuous_usage_comes_on_every_chunk(client):
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = list(client.chat.completions.create(**CHAT, stream=True, stream_options=options))

    assert all(chunk.usage.prompt_tokens == chunks[0].usage.prompt_tokens for chunk in chunks)
    assert [chunk.usage.completion_tokens for chunk in chunks][-3:] == [11, 12, 12]


@pytest.mark.parametrize("fault", ["", "usage-null-chunks"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_cached_tokens_are_those_of_prefill(client, stream, fault):
    more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    headers = {"x-sim-fault-prefill": "cached=5", "x-sim-fault-decode": f"cached=7,created-cache=3,{fault}"}
    chat = client.chat.completions.create(**CHAT, **more, extra_headers=headers)
    usage = list(chat)[-1].usage if stream else chat.usage

    assert usage.prompt_tokens_details.cached_tokens == 5
    assert usage.prompt_tokens_details.model_extra["created_cache_tokens"] == 3
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_a_worker_without_usage_is_a_worker(client):
    answer = client.chat.completions.create(**CHAT, extra_headers={"x-sim-fault-decode": "no-usage", "x-sim-fault-prefill": "no-usage"})

    assert answer.choices[0].message.content and answer.usage is None


def test_a_completion_answer_is_the_workers(client, worker_client):
    ours, theirs = client.completions.create(**COMPLETION), worker_client.completions.create(**COMPLETION)

    assert ours.choices[0].text == theirs.choices[0].text
    assert ours.usage.prompt_tokens == theirs.usage.prompt_tokens


def test_a_completion_stream_brings_the_text_of_the_whole_answer(client):
    whole = client.completions.create(**COMPLETION)
    chunks = list(client.completions.create(**COMPLETION, stream=True))

    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == whole.choices[0].text


def test_a_completion_with_token_ids_is_answered(client):
    answer = client.completions.create(model="m", prompt=[5, 6, 7, 8], max_tokens=3)

    assert answer.usage.prompt_tokens == 4 and answer.usage.completion_tokens == 3


def test_the_models_of_the_worker_are_listed(client):
    assert [model.id for model in client.models.list()] == ["m"]


def test_the_asynchronous_client_streams_many_at_once(coordinator):
    async def one(client):
        stream = await client.chat.completions.create(**CHAT, stream=True)
        return text_of([chunk async for chunk in stream])

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=coordinator.url + "/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(one(client) for _ in range(16)))

    texts = asyncio.run(all_of_them())

    assert len(set(texts)) == 1 and texts[0]


# ---- bytes


BODIES = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": COMPLETION,
    "/v1/responses": {"model": "m", "input": "hello there"},
    "/v1/messages": CHAT | {"max_tokens": 20},
    "/inference/v1/generate": {"model": "m", "token_ids": [5, 6, 7, 8], "sampling_params": {"max_tokens": 9}},
}


def apis(*left_out):
    return pytest.mark.parametrize("path, body", [pair for pair in BODIES.items() if pair[0] not in left_out], ids=lambda it: it if isinstance(it, str) else "")


@apis()
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_answer_of_one_leg_has_the_workers_bytes_and_length(decode_only, sim, path, body, stream):
    body = body | {"stream": stream}
    ours = httpx2.post(decode_only.url + path, json=body, headers=ASK_ID)
    theirs = httpx2.post(sim.url + path, json=body, headers=ASK_ID)

    assert ours.status_code == theirs.status_code == 200
    assert ours.content == theirs.content
    for header in ("content-type", "content-length"):
        assert ours.headers.get(header) == theirs.headers.get(header)


@apis("/v1/messages")  # which tells cached tokens by two members
def test_an_answer_of_three_legs_has_the_workers_bytes_and_length(coordinator, sim, path, body):
    """Prefill says nothing of cached tokens here, so that decode's answer is not touched. Asked directly, the worker has the
    prompt in no cache; through the coordinator it fetches all of it."""
    ours = httpx2.post(coordinator.url + path, json=body, headers=ASK_ID | {"x-sim-fault-prefill": "usage-null"})
    theirs = httpx2.post(sim.url + path, json=body, headers=ASK_ID)
    usage = theirs.json()["usage"]
    fetched = usage.get("prompt_tokens") or usage["input_tokens"]
    expected = theirs.content.replace(b'"cached_tokens":0', b'"cached_tokens":%d' % fetched)

    assert ours.status_code == theirs.status_code == 200
    assert ours.content == expected
    assert ours.headers["content-type"] == theirs.headers["content-type"]
    assert ours.headers["content-length"] == str(len(expected))


def test_the_bytes_of_the_prompt_are_the_same_on_all_legs(client, sim):
    client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "caf\u00e9 </s> \u2028"}], tools=[WEATHER], seed=9007199254740993
    )
    for member in ("messages", "tools", "seed"):
        raw = {phase: raw_member(sim.received(phase)[-1]["body"], member) for phase in ("render", "prefill", "decode")}
        assert raw["render"] and len(set(raw.values())) == 1, f"{member}: {raw}"


def raw_member(body, name):
    """The text of a top-level member as it stands in the body."""
    decoder = json.JSONDecoder()
    at = 1
    while True:
        while body[at] in " \t\r\n,":
            at += 1
        if body[at] == "}":
            return None
        key, at = decoder.raw_decode(body, at)
        at = body.index(":", at) + 1
        while body[at] in " \t\r\n":
            at += 1
        _, end = decoder.raw_decode(body, at)
        if key == name:
            return body[at:end]
        at = end


def test_prefill_and_decode_take_the_same_kv(client, sim):
    before = sim.stats()
    client.chat.completions.create(**CHAT)
    after = sim.stats()

    assert after["hits"] == before["hits"] + 1
    assert (after["misses"], after["altered"], after["stranded"]) == (before["misses"], before["altered"], before["stranded"])


# ---- errors


@pytest.mark.parametrize(
    "phase, status, expected",
    [
        ("decode", 400, openai.BadRequestError),
        ("decode", 401, openai.AuthenticationError),
        ("decode", 404, openai.NotFoundError),
        ("decode", 403, openai.PermissionDeniedError),
        ("decode", 422, openai.UnprocessableEntityError),
        ("decode", 429, openai.RateLimitError),
        ("decode", 500, openai.InternalServerError),
        ("decode", 502, openai.InternalServerError),
        ("decode", 503, openai.InternalServerError),
        ("decode", 504, openai.InternalServerError),
        ("prefill", 400, openai.BadRequestError),
        ("prefill", 429, openai.RateLimitError),
        ("prefill", 502, openai.InternalServerError),
        ("prefill", 503, openai.InternalServerError),
        ("render", 400, openai.BadRequestError),
        ("render", 503, openai.InternalServerError),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_workers_status_becomes_the_clients_exception(client, phase, status, expected, stream):
    with pytest.raises(expected) as raised:
        client.chat.completions.create(**CHAT, stream=stream, extra_headers={f"x-sim-fault-{phase}": f"status={status};retry-after=7"})

    assert raised.value.status_code == status
    assert raised.value.message and raised.value.request_id
    if status in (429, 503):
        assert raised.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize("phase, status", [("prefill", 500), ("prefill", 504), ("render", 500)])
def test_a_broken_worker_is_a_bad_gateway(client, phase, status):
    with pytest.raises(openai.InternalServerError) as raised:
        client.chat.completions.create(**CHAT, extra_headers={f"x-sim-fault-{phase}": f"status={status}"})

    assert raised.value.status_code == 502
    assert raised.value.type == "server_error"


@pytest.mark.parametrize("phase", ["render", "prefill", "decode"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_silent_worker_is_a_timeout(hasty, phase, stream):
    with openai_at(hasty.url) as client, pytest.raises(openai.InternalServerError) as raised:
        client.chat.completions.create(**CHAT, stream=stream, extra_headers={f"x-sim-fault-{phase}": "silence"})

    assert raised.value.status_code == 504
    assert raised.value.type == "timeout_error" and raised.value.code == "upstream_timeout"


def test_a_stream_that_falls_silent_ends_with_an_error(hasty):
    with openai_at(hasty.url) as client, pytest.raises((openai.APIError, httpx2.TransportError)):
        list(client.chat.completions.create(**CHAT, stream=True, extra_headers={"x-sim-fault-decode": "silence-after=600"}))


def test_a_worker_that_is_not_there_can_be_asked_again(nobody):
    with openai_at(nobody.url) as client, pytest.raises(openai.InternalServerError) as raised:
        client.chat.completions.create(**CHAT)

    assert raised.value.status_code == 503 and raised.value.code == "upstream_unavailable"
    assert raised.value.response.headers["retry-after"] == "1"


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as raised:
        client.chat.completions.create(model="nope", messages=HELLO)

    assert "nope" in raised.value.message


def test_what_the_worker_refuses_is_a_bad_request(client):
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(**CHAT, extra_body={"stream_options": {"include_usage": True}})

    assert "stream" in raised.value.message.lower()


def test_a_body_that_is_too_large_says_so(client):
    with pytest.raises(openai.APIStatusError) as raised:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x" * (2 << 20)}])

    assert raised.value.status_code == 413
    assert raised.value.code == "request_too_large"


def test_a_malformed_member_is_named(client):
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(**CHAT, extra_body={"stream": "yes"})

    assert raised.value.type == "invalid_request_error"
    assert raised.value.param == "/stream"


@pytest.mark.parametrize("fault", ["fin-after=400", "reset-after=400", "reset-after=0", "error-event-after=4", "status=500,reset-after=5"])
@pytest.mark.parametrize("api", ["chat", "completions"])
def test_a_stream_that_breaks_is_an_error_and_no_clean_end(client, api, fault):
    create, body = (client.chat.completions.create, CHAT) if api == "chat" else (client.completions.create, COMPLETION)
    with pytest.raises((openai.APIError, httpx2.TransportError)):
        list(create(**body, stream=True, extra_headers={"x-sim-fault-decode": fault}))


def test_an_answer_that_breaks_is_an_error(client):
    for fault in ("fin-after=100", "reset-after=100"):
        with pytest.raises((openai.APIError, httpx2.TransportError)):
            client.chat.completions.create(**CHAT, extra_headers={"x-sim-fault-decode": fault})


def test_a_retry_after_is_kept_by_the_client(coordinator, sim):
    before = sim.stats()["requests"]["decode"]
    with openai_at(coordinator.url, max_retries=1) as client:
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(**CHAT, extra_headers={"x-sim-fault-decode": "status=429;retry-after=1"})

    assert sim.stats()["requests"]["decode"] == before + 2


# ---- cancelling


def test_closing_a_stream_early_cancels_the_worker(client, sim):
    before = sim.stats()["cancelled_in"]["decode"]
    stream = client.chat.completions.create(**CHAT, stream=True, extra_headers={"x-sim-fault-decode": "event-interval=50,tokens=1000"})
    next(iter(stream))
    stream.close()

    until(lambda: sim.stats()["cancelled_in"]["decode"] == before + 1)


def test_leaving_before_the_first_byte_cancels_the_worker(coordinator, sim):
    before = sim.stats()["cancelled_in"]["decode"]
    with openai.OpenAI(base_url=coordinator.url + "/v1", api_key="none", max_retries=0, timeout=1) as client:
        with pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(**CHAT, extra_headers={"x-sim-fault-decode": "silence"})

    until(lambda: sim.stats()["cancelled_in"]["decode"] == before + 1)


# ---- tools


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_tool_definitions_reach_the_worker_as_they_were_sent(client, sim, stream):
    answer = client.chat.completions.create(**CHAT, tools=[WEATHER], tool_choice="auto", stream=stream)
    if stream:
        answer = list(answer)
    sent = json.loads(sim.received("decode")[-1]["body"])

    assert answer
    assert sent["tools"] == [WEATHER] and sent["tool_choice"] == "auto"
    assert list(sent["tools"][0]["function"]["parameters"]["properties"]) == ["place", "at", "aloud"]


def test_tool_results_reach_the_worker(client, sim):
    call = {"id": "call-1", "type": "function", "function": {"name": "weather", "arguments": '{"place": "Oslo"}'}}
    messages = HELLO + [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call-1", "content": '{"sky": "clear"}'},
    ]
    client.chat.completions.create(model="m", messages=messages, tools=[WEATHER])

    assert json.loads(sim.received("decode")[-1]["body"])["messages"] == messages
