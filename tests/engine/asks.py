"""What the suite asks of each API, and how its answers are read: one row an API, and everything loops over the rows.

`normal` makes two answers to one question comparable: ids and times are masked, cached tokens are left out, and frames that
carry text are joined, since the engine puts into one frame whatever tokens are ready when it writes.
"""

import copy
import itertools
import json
import random

WORDS = "grant of patent license subject to the terms and conditions each contributor hereby grants to you perpetual".split()
_numbers = itertools.count(random.randrange(100_000, 700_000))  # an engine that was kept has the prompts of other runs in its cache


def prompt(tokens=40):
    """A prompt that nobody has asked yet; two words make about three tokens."""
    number = next(_numbers)
    words = [WORDS[(number * 7 + i * (number % 5 + 1)) % len(WORDS)] for i in range(tokens * 2 // 3)]
    return f"question {number}: " + " ".join(words)


def ids(tokens=40):
    number = next(_numbers)
    return [300 + number % 900, 300 + number // 900] + [300 + (number * 31 + i * (number % 7 + 1)) % 900 for i in range(tokens - 2)]


class Api:
    """One row; functions take the parsed answer or the list of frames."""

    def __init__(self, name, path, body, content, usage, renders=True, on_request=False, ids_prompt=False):
        self.name, self.path, self._body, self.content, self.usage = name, path, body, content, usage
        self.renders = renders  # decode makes the prompt from what the client sent, not from our ids
        self.on_request = on_request  # its streams tell usage only if asked to

    def body(self, stream=False, usage=False, tokens=40, output=12, **more):
        body = {"model": "m", **self._body(tokens, output), **more}
        if self.name != "vllm_generate":
            body["temperature"] = 0
        if stream:
            body["stream"] = True
        if stream and usage and self.on_request:
            body["stream_options"] = {"include_usage": True}
        return body

    def __repr__(self):
        return self.name


def generate_body(tokens, output):
    return {"token_ids": ids(tokens), "sampling_params": {"max_tokens": output, "temperature": 0, "ignore_eos": True}}


# `content`: where a frame or a body carries output, as (test, get, put).
class Place:
    """Where output stands in a frame: in which frames, and the path to it."""

    def __init__(self, *path, event=None, empty=""):
        self.path, self.event, self.empty = path, event, empty

    def get(self, value, event=None):
        """The output, or None where there is none."""
        if self.event and event != self.event:
            return None
        for key in self.path:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def put(self, value, output):
        for key in self.path[:-1]:
            value = value[key]
        value[self.path[-1]] = output


CHAT = Api(
    "chat_completions",
    "/v1/chat/completions",
    lambda tokens, output: {"messages": [{"role": "user", "content": prompt(tokens)}], "max_tokens": output, "ignore_eos": True},
    (Place("choices", 0, "message", "content"), Place("choices", 0, "delta", "content")),
    ("usage",),
    on_request=True,
)
COMPLETIONS = Api(
    "completions",
    "/v1/completions",
    lambda tokens, output: {"prompt": prompt(tokens), "max_tokens": output, "ignore_eos": True},
    (Place("choices", 0, "text"), Place("choices", 0, "text")),
    ("usage",),
    renders=False,
    on_request=True,
)
RESPONSES = Api(
    "responses",
    "/v1/responses",
    lambda tokens, output: {"input": prompt(tokens), "max_output_tokens": output, "store": False, "ignore_eos": True},
    (Place("output", 0, "content", 0, "text"), Place("delta", event="response.output_text.delta")),
    ("response", "usage"),
)
MESSAGES = Api(
    "messages",
    "/v1/messages",
    lambda tokens, output: {"messages": [{"role": "user", "content": prompt(tokens)}], "max_tokens": output},
    (Place("content", 0, "text"), Place("delta", "text", event="content_block_delta")),
    ("usage",),
)
GENERATE = Api(
    "vllm_generate",
    "/inference/v1/generate",
    generate_body,
    (Place("choices", 0, "token_ids"), Place("choices", 0, "token_ids", empty=[])),
    ("usage",),
    renders=False,
    on_request=True,
)
APIS = (CHAT, COMPLETIONS, RESPONSES, MESSAGES, GENERATE)
RENDERING = tuple(api for api in APIS if api.renders)

# ---- comparing

VARYING = {"id", "created", "created_at", "request_id", "item_id", "sequence_number"}
COUNTS_PROMPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
DETAILS = ("prompt_tokens_details", "input_tokens_details")


def masked(value):
    """A copy without what differs from answer to answer, and without cached tokens, which are prefill's (a member is inserted
    where the engine has none)."""
    if isinstance(value, list):
        return [masked(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: "…" if key in VARYING else masked(item) for key, item in value.items() if key not in DETAILS}
    if "input_tokens" in value and "output_tokens" in value:  # Messages splits the prompt by where it came from
        value["input_tokens"] = prompt_tokens(value)
    return {key: item for key, item in value.items() if "cache" not in key}


def joined(api, frames):
    """The frames with neighbours that carry output made one: the last of them, with all of the output."""
    place, result, said = api.content[1], [], None
    for event, data in copy.deepcopy(frames):
        output = place.get(data, event)
        if output is None:
            said = None
        elif said is None:
            said = output
        else:
            result.pop()
            said = said + output
            place.put(data, said)
        result.append((event, data))
    return result


def comparable(api, answer):
    """The content of an answer as it is compared: a value, or a list of frames."""
    assert answer.status == 200, answer.body
    if not answer.streamed:
        return masked(answer.json())
    content = [(event, masked(data)) for event, data in joined(api, answer.frames())]
    return content if told_usage(answer) or not several(content) else [(event, without_fingerprint(data)) for event, data in content]


def normal(api, answer):
    """An answer as it is compared: status, content type and body, with the order of members."""
    return answer.status, answer.header("content-type"), json.dumps(comparable(api, answer), indent=1, ensure_ascii=False)


def told_usage(answer):
    return any(isinstance(data, dict) and data.get("choices") == [] for _, data in answer.frames())


def several(content):
    return len({choice["index"] for _, data in content if isinstance(data, dict) for choice in data.get("choices") or []}) > 1


def without_fingerprint(data):
    """
    The engine puts it on the frame that ends a choice, or on the usage frame where usage is asked for. Where that is asked for by us
    alone it is put back onto the frame that ends the last choice; those that end other choices have gone out by then.
    """
    return {key: item for key, item in data.items() if key != "system_fingerprint"} if isinstance(data, dict) else data


def text(api, answer):
    if not answer.streamed:
        return api.content[0].get(answer.json())
    pieces = [api.content[1].get(data, event) for event, data in answer.frames()]
    pieces = [piece for piece in pieces if piece is not None]
    return sum(pieces, []) if api is GENERATE else "".join(pieces)


def usages(answer):
    """Every usage object, in order."""
    found = []

    def look(value):
        if isinstance(value, dict):
            if isinstance(value.get("usage"), dict):
                found.append(value["usage"])
            for item in value.values():
                look(item)

    for _, data in answer.frames() if answer.streamed else [(None, answer.json())]:
        look(data)
    return found


def prompt_tokens(usage):
    """The whole prompt, however an API splits it."""
    return usage["prompt_tokens"] if "prompt_tokens" in usage else sum(usage.get(key) or 0 for key in COUNTS_PROMPT)
