"""However a worker cuts, ends or packs its answer, the official clients read the same from the coordinator."""

import pytest

FAULTS = [
    "split=1",
    "split-at=40,split-at=333,split-at=700",
    "crlf",
    "crlf,split=1",
    "no-final-blank",
    "no-length",
    "gzip",
    "gzip,split=7",
]
HELLO = [{"role": "user", "content": "hello there"}]
USAGE = {"stream_options": {"include_usage": True}}


def chat(client, claude, headers, stream):
    answer = client.chat.completions.create(model="m", messages=HELLO, stream=stream, extra_headers=headers, **(USAGE if stream else {}))
    if not stream:
        return answer.choices[0].message.content, answer.usage.prompt_tokens
    chunks = list(answer)
    return "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices), chunks[-1].usage.prompt_tokens


def completions(client, claude, headers, stream):
    answer = client.completions.create(model="m", prompt="once upon", stream=stream, extra_headers=headers, **(USAGE if stream else {}))
    if not stream:
        return answer.choices[0].text, answer.usage.prompt_tokens
    chunks = list(answer)
    return "".join(c.text for chunk in chunks for c in chunk.choices), chunks[-1].usage.prompt_tokens


def responses(client, claude, headers, stream):
    answer = client.responses.create(model="m", input="hello there", stream=stream, extra_headers=headers)
    response = list(answer)[-1].response if stream else answer
    return response.output_text, response.usage.input_tokens


def messages(client, claude, headers, stream):
    body = {"model": "m", "max_tokens": 100, "messages": HELLO, "extra_headers": headers}
    if stream:
        with claude.messages.stream(**body) as events:
            answer = events.get_final_message()
    else:
        answer = claude.messages.create(**body)
    usage = answer.usage
    return answer.content[0].text, usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens


APIS = [chat, completions, responses, messages]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.__name__)
def test_a_stream_reads_the_same(client, claude, api, fault):
    if api is responses and fault == "no-final-blank":
        return  # by the rules of event streams a last event without its blank line is none, and here it is the one that counts
    for way in ({}, {"x-sim-fault-prefill": "cached=3"}):  # untouched, and with prefill's cached tokens written into it
        assert api(client, claude, {**way, "x-sim-fault-decode": fault}, True) == api(client, claude, {}, True)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.__name__)
def test_an_answer_reads_the_same(client, claude, api, fault):
    phases = ("decode",) if "gzip" in fault else ("render", "prefill", "decode")  # the others are asked not to compress
    for phase in phases:
        assert api(client, claude, {f"x-sim-fault-{phase}": fault}, False) == api(client, claude, {}, False)
    assert api(client, claude, {"x-sim-fault-prefill": "cached=3", "x-sim-fault-decode": fault}, False) == api(client, claude, {}, False)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.__name__)
def test_an_event_may_be_large(client, claude, api):
    text, _ = api(client, claude, {"x-sim-fault-decode": "huge-event=3000000"}, True)

    assert text.startswith("x" * 3000000)
