"""The official client libraries, as their users call them, against the coordinator and straight at the engine."""

import anthropic
import openai
import pytest

import asks

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather at a place",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}, "at": {"type": "integer"}}, "required": ["place"]},
    },
}


def openai_at(url):
    return openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=120)


def anthropic_at(url):
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=120)


@pytest.fixture
def two(fleet, matching):
    """A function asked of the coordinator and of the engine; both answers."""
    return lambda ask: (ask(matching.url), ask(fleet.url("decode")))


def both(two, ask):
    ours, theirs = two(ask)
    assert ours == theirs
    return ours


def test_chat(two):
    question = [{"role": "system", "content": "be brief"}, {"role": "user", "content": asks.prompt()}]

    def ask(url):
        answer = openai_at(url).chat.completions.create(model="m", messages=question, temperature=0, max_tokens=10)
        return answer.choices[0].message.content, answer.choices[0].finish_reason, answer.usage.prompt_tokens, answer.usage.completion_tokens

    text, *_ = both(two, ask)
    assert text


def test_chat_stream(two):
    question = [{"role": "user", "content": asks.prompt()}]

    def ask(url):
        chunks = list(
            openai_at(url).chat.completions.create(
                model="m", messages=question, temperature=0, max_tokens=10, stream=True, stream_options={"include_usage": True}
            )
        )
        text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        usages = [chunk.usage for chunk in chunks if chunk.usage]
        return text, len(usages), usages[0].prompt_tokens, usages[0].completion_tokens

    assert both(two, ask)[1] == 1


def test_a_chat_stream_that_asks_for_no_usage_gets_none(matching):
    chunks = list(openai_at(matching.url).chat.completions.create(model="m", messages=[{"role": "user", "content": asks.prompt()}], max_tokens=5, stream=True))
    assert all(not chunk.usage and chunk.choices for chunk in chunks)


def test_chat_with_tools_and_a_tools_answer(two):
    question = [
        {"role": "user", "content": asks.prompt()},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"place": "here"}'}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    ]

    def ask(url):
        answer = openai_at(url).chat.completions.create(model="m", messages=question, tools=[WEATHER], temperature=0, max_tokens=10)
        return answer.choices[0].message.content, answer.usage.prompt_tokens

    both(two, ask)


def test_completions(two):
    prompt = asks.prompt()

    def ask(url):
        answer = openai_at(url).completions.create(model="m", prompt=prompt, temperature=0, max_tokens=10)
        return answer.choices[0].text, answer.usage.prompt_tokens

    both(two, ask)


def test_completions_stream(two):
    prompt = asks.prompt()

    def ask(url):
        return "".join(chunk.choices[0].text for chunk in openai_at(url).completions.create(model="m", prompt=prompt, temperature=0, max_tokens=10, stream=True))

    assert both(two, ask)


def test_responses(two):
    question = asks.prompt()

    def ask(url):
        answer = openai_at(url).responses.create(model="m", input=question, instructions="be brief", temperature=0, max_output_tokens=10, store=False)
        return answer.output_text, answer.status, answer.usage.input_tokens, answer.usage.output_tokens

    assert both(two, ask)[0]


def test_responses_stream(two):
    question = asks.prompt()

    def ask(url):
        events = list(openai_at(url).responses.create(model="m", input=question, temperature=0, max_output_tokens=10, store=False, stream=True))
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        return text, events[0].type, events[-1].type, events[-1].response.usage.input_tokens, events[-1].response.output_text

    assert both(two, ask)[1:3] == ("response.created", "response.completed")


def test_messages(two):
    question = [{"role": "user", "content": asks.prompt()}]

    def ask(url):
        answer = anthropic_at(url).messages.create(model="m", system="be brief", messages=question, extra_body={"temperature": 0}, max_tokens=10)
        usage = answer.usage
        return answer.content[0].text, answer.stop_reason, usage.input_tokens + (usage.cache_read_input_tokens or 0), usage.output_tokens

    assert both(two, ask)[0]


def test_messages_stream(two):
    question = [{"role": "user", "content": asks.prompt()}]

    def ask(url):
        with anthropic_at(url).messages.stream(model="m", messages=question, extra_body={"temperature": 0}, max_tokens=10) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        return text, final.stop_reason, final.usage.output_tokens

    assert both(two, ask)[0]


def test_the_models_are_the_engines(two):
    assert both(two, lambda url: [model.id for model in openai_at(url).models.list()]) == ["m"]


def test_an_unknown_model_is_the_clients_exception(two):
    def ask(url):
        with pytest.raises(openai.NotFoundError) as chat:
            openai_at(url).chat.completions.create(model="nope", messages=[{"role": "user", "content": "hello"}])
        with pytest.raises(anthropic.NotFoundError) as messages:
            anthropic_at(url).messages.create(model="nope", max_tokens=3, messages=[{"role": "user", "content": "hello"}])
        return chat.value.message, messages.value.message

    both(two, ask)
