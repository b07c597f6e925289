#!/usr/bin/env python3
"""Holds every kind of answer that worker-sim gives against what the engine answered to the same request: members, their order,
nulls, values that are fixed, frames, headers and framing, errors. Standard library only.

usage: conformity.py PATH-OF-worker-sim FOLDER [part of a name …]      ends with `N passed, N failed`

FOLDER is tests/data/vllm-VERSION, made by tests/engine/record.py. What varies from answer to answer or from model to model
(ids, times, text, token ids, counts) is held to its kind. Neighbouring frames of one kind count as one, since their number
is the engine's pace. INTENDED lists the differences that are meant, each with its reason; one that is no longer there fails.
"""

import http.client, json, pathlib, re, subprocess, sys

FLAGS = ["--port", "0", "--model", "m", "--tokens", "16", "--max-model-len", "4096"]

# Members whose value is only held to its kind: a count, some text, a list of ids.
LOOSE = {
    "created", "created_at", "content", "text", "delta", "token_ids", "prompt_tokens", "total_tokens", "completion_tokens",
    "cached_tokens", "created_cache_tokens", "cache_write_tokens", "input_tokens", "output_tokens", "cache_read_input_tokens",
    "cache_creation_input_tokens", "sequence_number", "remote_port", "remote_host", "remote_num_tokens", "remote_block_ids",
    "remote_prefill_cached_tokens", "end", "root", "max_tokens",
}
# Numbers and hex in ids and versions.
PATTERNS = [
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b(chatcmpl|cmpl|generate-tokens|modelperm)-[0-9a-f]{16,32}"), r"\1-HEX"),
    (re.compile(r"\b(resp|msg)_[0-9a-f]{16,32}"), r"\1_HEX"),
    (re.compile(r"(HEX(?:[-_]0)?)-[0-9a-f]{8}\b"), r"\1-HEX"),
    (re.compile(r"(vllm-[0-9.]+)-[0-9a-f]{8}"), r"\1-HEX"),
]

# Names of recordings, the lines that may differ (regular expressions), and why.
INTENDED = [
    (".*-prefill", r"body\.kv_transfer_params( \{\}|\.sim_)", "members in another order and two more, which only a copy of bytes keeps"),
    ("(completions|responses)-prefill", r"\.remote_request_id ", "the engine numbers the prompts of a request, worker-sim takes one"),
    ("chat-refused-part", r"body\.error\.message ", "the engine tells for each kind of part what it lacks"),
    ("(completions|responses)-refused-prompt-of-another-type", r"body\.error\.message ", "the engine has a line for each type that it tried"),
    ("responses-refused-no-prompt", r"body\.error\.message ", "the engine has added a member of its own to the input that it counts"),
    ("chat-render-tools", r"body\.sampling_params( \{\}|\.skip_special_tokens)", "set by the engine's tool parser"),
    ("wrong-method", r"order: ", "the place of the header allow"),
]


class Got:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body


def ask(port, request, phase):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = dict(request["headers"])
    if request["body"] is not None:
        headers.setdefault("content-type", "application/json")
    if phase in ("prefill", "decode"):
        headers["x-llm-d-epp-profile"] = phase
    connection.request(request["method"], request["path"], None if request["body"] is None else request["body"].encode(), headers)
    response = connection.getresponse()
    got = Got(response.status, [(name, value) for name, value in response.getheaders()], response.read().decode())
    connection.close()
    return got


def plain(text):
    for pattern, word in PATTERNS:
        text = pattern.sub(word, text)
    return text


def kind(value):
    """A value held to its kind."""
    if isinstance(value, list):
        return [kind(item) for item in value[:1]]
    if isinstance(value, dict):
        return {key: kind(item) for key, item in value.items()}
    return "null" if value is None else type(value).__name__


def skeleton(value, key=None):
    if isinstance(value, dict):
        return {name: skeleton(item, name) for name, item in value.items()}
    if isinstance(value, list) and key not in LOOSE:
        return [skeleton(item, key) for item in value]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [skeleton(item, key) for item in value]
    if key in LOOSE:
        return kind(value)
    return plain(value) if isinstance(value, str) else value


def lines(value, at="body"):
    """A value as lines of place and content, in order."""
    if isinstance(value, dict):
        yield f"{at} {{}} {' '.join(value)}"
        for name, item in value.items():
            yield from lines(item, f"{at}.{name}")
    elif isinstance(value, list):
        yield f"{at} [{len(value)}]"
        for index, item in enumerate(value):
            yield from lines(item, f"{at}.{index}")
    else:
        yield f"{at} {json.dumps(value)}"


def shown(body, streamed):
    """The lines of a whole answer."""
    if not streamed:
        try:
            return list(lines(skeleton(json.loads(body))))
        except ValueError:
            return [f"body {plain(body)!r}"]
    out, last, number = [], None, 0
    assert body.endswith("\n\n"), "no blank line at the end"
    for text in body[:-2].split("\n\n"):
        fields = [line.partition(": ") for line in text.split("\n")]
        names = [name for name, _, _ in fields]
        data = fields[-1][2]
        said = [f"{name}: {value}" for name, _, value in fields[:-1]]
        content = [f"data {data}"] if data == "[DONE]" else list(lines(skeleton(json.loads(data)), "data"))
        frame = [" ".join(names), *said, *content]
        if frame != last:
            out += [f"frame {number}: {line}" for line in frame]
            number += 1
        last = frame
    return out


def framing(status, headers, body):
    """What the head says; the length is right or there are chunks."""
    out = [f"status {status}"]
    for name, value in headers:
        if name != name.lower():
            out.append(f"header not in lower case: {name}")
        if name in ("date",):
            value = "…"
        if name == "content-length":
            value = "right" if int(value) == len(body.encode()) else f"{value}, not {len(body.encode())}"
        out.append(f"header {name}: {value}")
    return out


def differences(recorded, got):
    theirs = recorded["answer"]
    streamed = dict(map(tuple, theirs["headers"])).get("content-type", "").startswith("text/event-stream")
    expected = framing(theirs["status"], theirs["headers"], theirs["body"])
    found = framing(got.status, got.headers, got.body)
    if theirs["status"] == got.status:
        expected += shown(theirs["body"], streamed)
        found += shown(got.body, streamed)
    return [f"- {line}" for line in expected if line not in found] + [f"+ {line}" for line in found if line not in expected] or (
        ["order: the same lines in another order"] if expected != found else []
    )


def intended(name, line):
    for pattern, place, _ in INTENDED:
        if re.fullmatch(pattern, name) and re.search(place, line):
            return (pattern, place)
    return None


def main(binary, folder, *parts):
    recordings = sorted(pathlib.Path(folder).glob("*.json"))
    assert recordings, f"no recordings in {folder}"
    sim = subprocess.Popen([binary, *FLAGS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    port = int(sim.stdout.readline().rsplit(b":", 1)[1])
    passed, failed, met = 0, 0, set()
    try:
        for file in recordings:
            recorded = json.loads(file.read_text(encoding="utf-8"))
            name = recorded["name"]
            if parts and not any(part in name for part in parts):
                continue
            found = differences(recorded, ask(port, recorded["request"], recorded["phase"]))
            meant = [intended(name, line) for line in found]
            met.update(entry for entry in meant if entry)
            wrong = [line for line, entry in zip(found, meant) if not entry]
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print(f"FAILED {name}: engine -, worker-sim +", *wrong, sep="\n    ")
    finally:
        sim.terminate()
        sim.wait(10)
    for pattern, place, _ in INTENDED if not parts else []:
        if (pattern, place) not in met:
            failed += 1
            print(f"FAILED the intended difference {place!r} of {pattern} is not there any more: remove it")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
