"""record.py FOLDER: what the running engine answers to one request of each kind, a file each, for the conformity test of worker-sim.

`./dev engine --keep` starts the engine; then, with ENGINE_RUN and ENGINE_MODELS as ./dev sets them, record.py tests/data/vllm-0.32. A file
holds the request and the answer as they were on the wire, bodies as text.
"""

import json
import pathlib
import sys

import fleet as fleets
import wire

HELLO = [{"role": "user", "content": "hello there"}]
LONG = "hello there, this prompt is long enough for two blocks of sixteen tokens, or so one hopes at least"
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "the weather", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}}}]
NIXL = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None, "remote_host": None, "remote_port": None}

# Per API: path, a small body, the member that caps the output.
APIS = {
    "chat": ("/v1/chat/completions", {"model": "m", "messages": HELLO}, {"max_tokens": 6, "ignore_eos": True}),
    "completions": ("/v1/completions", {"model": "m", "prompt": "hello there"}, {"max_tokens": 6, "ignore_eos": True}),
    "responses": ("/v1/responses", {"model": "m", "input": "hello there", "store": False}, {"max_output_tokens": 6, "ignore_eos": True}),
    "messages": ("/v1/messages", {"model": "m", "max_tokens": 6, "messages": HELLO}, {}),
    "generate": ("/inference/v1/generate", {"model": "m", "token_ids": [0, 5, 6, 7]}, {"sampling_params": {"max_tokens": 6, "ignore_eos": True}}),
}
ONE = {  # a prefill leg; with a second token the descriptor loses its count of cached tokens
    "chat": {"max_tokens": 1, "max_completion_tokens": 1, "stream": False},
    "completions": {"max_tokens": 1, "stream": False},
    "responses": {"max_output_tokens": 1, "stream": False},
    "messages": {"max_tokens": 1, "stream": False},
    "generate": {"sampling_params": {"max_tokens": 1}, "stream": False},
}
TRIES = 20
USAGE = {"stream_options": {"include_usage": True}}
CONTINUOUS = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}


def exchanges():
    """Name, phase (which worker), path, body, further headers."""
    for api, (path, small, cap) in APIS.items():
        body = small | cap
        yield f"{api}-whole", "decode", path, body
        yield f"{api}-stream", "decode", path, body | {"stream": True}
        yield f"{api}-prefill", "prefill", path, small | ONE[api] | {"kv_transfer_params": NIXL}
        if api in ("chat", "completions", "generate"):
            yield f"{api}-stream-usage", "decode", path, body | {"stream": True} | USAGE
            yield f"{api}-stream-continuous", "decode", path, body | {"stream": True} | CONTINUOUS
            yield f"{api}-refused-options-without-stream", "decode", path, body | USAGE
            yield f"{api}-refused-malformed-options", "decode", path, body | {"stream": True, "stream_options": "x"}
        if api != "generate":
            yield f"{api}-render", "render", path + "/render", small
            yield f"{api}-render-refused-model", "render", path + "/render", small | {"model": "nope"}
        yield f"{api}-refused-model", "decode", path, body | {"model": "nope"}
        yield f"{api}-refused-no-json", "decode", path, b'{"model": '
        prompt = next(name for name in ("messages", "prompt", "input", "token_ids") if name in small)
        yield f"{api}-refused-no-prompt", "decode", path, {key: value for key, value in body.items() if key != prompt}
        yield f"{api}-refused-prompt-of-another-type", "decode", path, body | {prompt: 5}
        if api in ("chat", "responses", "messages"):
            yield f"{api}-forwarded-ids", "decode", path, body | {"kv_transfer_params": {"prompt_token_ids": [0, 5, 6, 7]}}
    chat, small, cap = APIS["chat"]
    yield "chat-render-tools", "render", chat + "/render", small | {"tools": TOOLS}
    yield "chat-tools", "decode", chat, small | cap | {"tools": TOOLS}
    yield "chat-parts", "decode", chat, small | cap | {"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "text", "text": " there"}]}]}
    yield "chat-stream-as-text", "decode", chat, small | cap | {"stream": "true"}
    yield "chat-refused-min-tokens", "decode", chat, small | cap | {"min_tokens": 5}
    yield "chat-refused-part", "decode", chat, small | cap | {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]}
    yield "chat-refused-media-type", "decode", chat, small | cap, {"content-type": "text/plain"}
    yield "completions-ids", "decode", "/v1/completions", APIS["completions"][1] | APIS["completions"][2] | {"prompt": [0, 5, 6, 7]}
    yield "completions-render-ids", "render", "/v1/completions/render", {"model": "m", "prompt": [0, 5, 6, 7]}
    yield "responses-instructions", "decode", "/v1/responses", APIS["responses"][1] | APIS["responses"][2] | {"instructions": "be brief"}
    yield "messages-system", "decode", "/v1/messages", APIS["messages"][1] | APIS["messages"][2] | {"system": "be brief"}
    yield "unknown-path", "decode", "/v1/nothing", {}
    yield "wrong-method", "decode", chat, None
    yield "models", "decode", "/v1/models", None
    yield "health", "decode", "/health", None


def record(fleet, name, phase, path, body, headers=None):
    worker = {"render": "renderer"}.get(phase, phase)
    sent = None if body is None else wire.encode(body).decode()
    if body is None:
        answer = wire.get(fleet.url(worker), path)
    else:
        answer = wire.post(fleet.url(worker), path, sent.encode(), headers)
    return {
        "name": name,
        "phase": phase,
        "request": {"method": "GET" if body is None else "POST", "path": path, "headers": headers or {}, "body": sent},
        "answer": {"status": answer.status, "headers": answer.headers, "body": answer.body.decode()},
    }


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    fleet = fleets.Fleet()
    for exchange in exchanges():
        for _ in range(TRIES):  # a busy machine writes several tokens into one frame
            kept = record(fleet, *exchange)
            if kept["answer"]["body"].count("\n\n") not in range(1, 7):
                break
        text = json.dumps(anonymous(kept), indent=1, ensure_ascii=False)
        (folder / f"{exchange[0]}.json").write_text(text + "\n", encoding="utf-8")
        print(exchange[0], kept["answer"]["status"])


def anonymous(kept):
    """Without the place where the models lie on this machine."""
    answer = kept["answer"]
    shorter = answer["body"].replace(str(fleets.folder("ENGINE_MODELS")), "/models")
    if shorter != answer["body"]:
        answer["body"] = shorter
        answer["headers"] = [(name, str(len(shorter.encode())) if name == "content-length" else value) for name, value in answer["headers"]]
    return kept


if __name__ == "__main__":
    main(*sys.argv[1:])
