#!/usr/bin/env python3
"""Self test of worker-sim, standard library only: starts the program on port 0 and checks shapes, validation, templates, KV
books, faults, framing and the transcript over raw sockets.

usage: selftest.py PATH-OF-worker-sim        ends with `N passed, N failed`; exit status 1 if any failed
"""

import gzip, json, os, re, socket, struct, subprocess, sys, tempfile, threading, time, traceback

BINARY = sys.argv[1] if len(sys.argv) > 1 else "./worker-sim"
CASES = []
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
PREFILL = {"EPP-Profile": "prefill"}
DECODE = {"EPP-Profile": "decode"}
PROBE = {"EPP-Profile": "decode", "Prefer": "if-available"}
NIXL = '{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}'
SHARED = '{"do_remote_decode":true,"do_remote_prefill":false}'


def case(f):
    CASES.append(f)
    return f


class Sim:
    def __init__(self, *flags, ports=1):
        argv = [BINARY] + ["--port", "0"] * ports + list(flags)
        self.proc = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.ports = [int(self.proc.stdout.readline().rsplit(b":", 1)[1]) for _ in range(ports)]
        self.port = self.ports[0]

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.proc.terminate()
        try:
            _, err = self.proc.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.communicate()
            raise AssertionError("did not end on SIGTERM")
        assert self.proc.returncode == 0, f"ended with {self.proc.returncode}: {err.decode(errors='replace')[-3000:]}"

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def ask(self, method="POST", path=CHAT, body=b"", headers=None, raw=None):
        with self.connect() as s:
            s.sendall(raw if raw is not None else build(method, path, body, headers))
            return Answer(s, method)

    def stats(self):
        return self.ask("GET", "/sim/stats").json()

    def reset(self):
        self.ask("POST", "/sim/reset")

    def wait(self, what, deadline=5):
        """until what(stats) holds"""
        end = time.monotonic() + deadline
        while True:
            st = self.stats()
            if what(st):
                return st
            assert time.monotonic() < end, f"never: {st}"
            time.sleep(0.01)


def build(method, path, body=b"", headers=None, version="1.1"):
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    head = f"{method} {path} HTTP/{version}\r\nHost: sim\r\n"
    if body or method == "POST":
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    for k, v in (headers or {}).items():
        head += f"{k}: {v}\r\n"
    return head.encode("latin1") + b"\r\n" + body


class Answer:
    """Reads one answer from a socket; keeps framing details."""

    def __init__(self, s, method="POST", wait=10):
        s.settimeout(wait)
        self.buf, self.sock = b"", s
        self.status, self.headers, self.body, self.chunks = None, [], b"", []
        self.whole, self.reset, self.timed_out, self.eof = False, False, False, False
        self.start = time.monotonic()
        try:
            self.read(method)
        except ConnectionResetError:
            self.reset = True
        except socket.timeout:
            self.timed_out = True
        except EOFError:
            self.eof = True
        self.took = time.monotonic() - self.start

    def fill(self):
        b = self.sock.recv(65536)
        if not b:
            raise EOFError
        self.buf += b

    def line(self):
        while b"\n" not in self.buf:
            self.fill()
        l, self.buf = self.buf.split(b"\n", 1)
        assert l.endswith(b"\r"), l
        return l[:-1]

    def exactly(self, n):
        while len(self.buf) < n:
            try:
                self.fill()
            except BaseException:
                self.body += self.buf
                raise
        b, self.buf = self.buf[:n], self.buf[n:]
        return b

    def read(self, method):
        self.start_line = self.line()
        self.status = int(self.start_line.split()[1])
        while True:
            l = self.line()
            if not l:
                break
            k, v = l.decode("latin1").split(": ", 1)
            self.headers.append((k, v))
        if method == "HEAD" or self.status in (100, 204, 304):
            self.whole = True
        elif self.h("transfer-encoding") == "chunked":
            while True:
                n = int(self.line(), 16)
                if n == 0:
                    assert self.line() == b""
                    break
                c = self.exactly(n)
                self.chunks.append((time.monotonic(), c))
                self.body += c
                assert self.exactly(2) == b"\r\n"
            self.whole = True
        elif self.h("content-length") is not None:
            self.body += self.exactly(int(self.h("content-length")))
            self.whole = True
        else:
            try:
                while True:
                    self.fill()
            except EOFError:
                self.body, self.buf, self.whole, self.eof = self.buf, b"", True, True

    def h(self, name):
        v = [v for k, v in self.headers if k == name]
        return v[0] if v else None

    def json(self):
        return json.loads(self.body)

    def events(self):
        out = []
        for e in self.body.decode().split("\n\n"):
            if e:
                assert e.startswith("data: "), e
                out.append(e[6:])
        return out


def chat(text="hello there", **more):
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


def keys(text):
    """structure of a JSON text: keys in order, nested; values dropped"""

    def walk(v):
        if isinstance(v, list) and v and isinstance(v[0], tuple) and len(v[0]) == 2 and isinstance(v[0][0], str):
            return [(k, walk(x)) for k, x in v]
        if isinstance(v, list):
            return [walk(x) for x in v]
        return None

    return walk(json.loads(text, object_pairs_hook=list))


def with_kv(body, kv):
    return json.dumps(body)[:-1] + ',"kv_transfer_params":' + kv + "}"


def raw_kv(answer):
    """the raw text of the answer's kv_transfer_params"""
    m = re.search(rb'"kv_transfer_params":(\{.*?\}),"ec_transfer_params"', answer.body)
    return m.group(1).decode() if m else None


def turned(kv):
    out = kv.replace('"do_remote_prefill":true,', "").replace('"do_remote_decode":false,', "")
    return out[:-1] + ',"do_remote_decode":false,"do_remote_prefill":true}'


def prefill(sim, body=None, kv=NIXL, path=CHAT, headers=None):
    body = body or chat()
    return sim.ask(path=path, body=with_kv({**body, "max_tokens": 1}, kv), headers={**PREFILL, **(headers or {})})


# ---- shapes: the strings are the engine's own (vLLM 0.32.0 on the wire) ----

CHAT_JSON = '{"id":"chatcmpl-832e6d27b0ce744d","object":"chat.completion","created":1795977181,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"out","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"vllm-0.32.0-91e86948","usage":{"prompt_tokens":15,"total_tokens":16,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":0,"multimodal_tokens":null},"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}'
COMPLETIONS_JSON = '{"id":"cmpl-a990cf25d079ab48","object":"text_completion","created":1795977181,"model":"m","choices":[{"index":0,"text":" sp beha","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"vllm-0.32.0-91e86948","usage":{"prompt_tokens":4,"total_tokens":6,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":null,"multimodal_tokens":null},"completion_tokens_details":null},"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}'
RENDER_JSON = '{"request_id":"chatcmpl-ad4a45b7e8d78412","token_ids":[0,30,1937],"token_offsets":null,"features":null,"content_parts":null,"sampling_params":{"presence_penalty":0.0,"frequency_penalty":0.0,"repetition_penalty":1.0,"temperature":1.0,"top_p":1.0,"min_p":0.0,"stop":[],"stop_token_ids":[],"max_tokens":4081,"output_kind":2,"skip_clone":true,"bad_words":[],"skip_reading_prefix_cache":false},"model":"m","reasoning_ended":null,"reasoning_parser_kwargs":null,"return_token_ids":null,"output_mode":"tokens","stream":false,"stream_options":null,"cache_salt":null,"priority":0,"kv_transfer_params":null,"ec_transfer_params":null}'
CHAT_STREAM = [
    '{"id":"I","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}',
    '{"id":"I","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"T"},"logprobs":null,"finish_reason":null,"token_ids":null}]}',
    '{"id":"I","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"T"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]}',
    '{"id":"I","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":P,"total_tokens":U,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":0}},"system_fingerprint":"vllm-0.32.0-91e86948"}',
    "[DONE]",
]
CHAT_LAST_PLAIN = '{"id":"I","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"T"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}],"system_fingerprint":"vllm-0.32.0-91e86948"}'
CONTINUOUS = [
    '{"id":"I","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":P,"total_tokens":U,"completion_tokens":0,"completion_tokens_details":null},"prompt_token_ids":null,"prompt_text":null}',
    '{"id":"I","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"T"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":P,"total_tokens":U,"completion_tokens":1,"completion_tokens_details":null}}',
]
COMPLETIONS_STREAM = [
    '{"id":"I","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"T","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}',
    '{"id":"I","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"T","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}',
    '{"id":"I","object":"text_completion","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":P,"total_tokens":U,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}},"system_fingerprint":"vllm-0.32.0-91e86948"}',
    "[DONE]",
]


def plain(event):
    """an event with what varies replaced"""
    event = re.sub(r'"id":"(chatcmpl|cmpl)-[0-9a-f]{16}"', '"id":"I"', event)
    event = re.sub(r'"created":\d+', '"created":1', event)
    event = re.sub(r'"(content|text)":"[^"]+"', r'"\1":"T"', event)
    return re.sub(r'"prompt_tokens":\d+,"total_tokens":\d+', '"prompt_tokens":P,"total_tokens":U', event)


@case
def chat_json_has_the_recorded_shape():
    with Sim() as sim:
        a = sim.ask(body=chat(max_tokens=2), headers=DECODE)
        assert a.status == 200 and keys(a.body) == keys(CHAT_JSON), a.body
        o = a.json()
        assert re.fullmatch("chatcmpl-[0-9a-f]{16}", o["id"]) and o["choices"][0]["finish_reason"] == "length"
        assert o["usage"]["completion_tokens"] == 2 and o["kv_transfer_params"] is None
        assert [k for k, _ in a.headers] == ["date", "server", "content-length", "content-type"], a.headers
        assert a.h("server") == "uvicorn" and a.h("content-type") == "application/json"
        assert sim.ask(body=chat(), headers=DECODE).json()["choices"][0]["finish_reason"] == "stop"


@case
def completions_json_has_the_recorded_shape():
    with Sim() as sim:
        a = sim.ask(path=COMPLETIONS, body={"model": "m", "prompt": [0, 5, 6, 7], "max_tokens": 2}, headers=DECODE)
        assert keys(a.body) == keys(COMPLETIONS_JSON), a.body
        assert a.json()["usage"]["prompt_tokens"] == 4 and a.json()["id"].startswith("cmpl-")


@case
def renders_have_the_recorded_shape():
    with Sim() as sim:
        a = sim.ask(path=CHAT + "/render", body=chat())
        ids = lambda t: re.sub(r'"token_ids":\[[0-9,]+\]', '"token_ids":[0]', t)
        assert a.status == 200 and keys(ids(a.body.decode())) == keys(ids(RENDER_JSON)), a.body
        n = len(a.json()["token_ids"])
        d = sim.ask(body=chat(max_tokens=1), headers=DECODE)
        assert d.json()["usage"]["prompt_tokens"] == n
        b = sim.ask(path=COMPLETIONS + "/render", body={"model": "m", "prompt": "hello there"}).json()
        assert isinstance(b, list) and len(b) == 1 and b[0]["request_id"].startswith("cmpl-")
        assert "max_tokens" not in b[0]["sampling_params"]
        d = sim.ask(path=COMPLETIONS, body={"model": "m", "prompt": b[0]["token_ids"]}, headers=DECODE)
        e = sim.ask(path=COMPLETIONS, body={"model": "m", "prompt": "hello there"}, headers=DECODE)
        assert d.json()["usage"] == e.json()["usage"] and d.json()["choices"] == e.json()["choices"]
        assert sim.stats()["requests"]["render"] == 2


@case
def streams_have_the_recorded_frames():
    with Sim() as sim:
        usage = {"stream": True, "stream_options": {"include_usage": True}}
        a = sim.ask(body=chat(max_tokens=2, **usage), headers=DECODE)
        assert [plain(e) for e in a.events()] == CHAT_STREAM, [plain(e) for e in a.events()]
        assert [k for k, _ in a.headers] == ["date", "server", "content-type", "transfer-encoding"], a.headers
        assert a.h("content-type") == "text/event-stream; charset=utf-8"
        assert len(a.chunks) == 5, "one chunk an event"
        a = sim.ask(body=chat(max_tokens=2, stream=True), headers=DECODE)
        assert [plain(e) for e in a.events()] == CHAT_STREAM[:2] + [CHAT_LAST_PLAIN, "[DONE]"]
        opts = {"include_usage": True, "continuous_usage_stats": True}
        a = sim.ask(body=chat(max_tokens=2, stream=True, stream_options=opts), headers=DECODE)
        assert [plain(e) for e in a.events()][:2] == CONTINUOUS
        a = sim.ask(path=COMPLETIONS, body={"model": "m", "prompt": "hi", "max_tokens": 2, **usage}, headers=DECODE)
        assert [plain(e) for e in a.events()] == COMPLETIONS_STREAM
        a = sim.ask(body=chat(max_tokens=2, stream="true"), headers=DECODE)
        assert a.h("content-type").startswith("text/event-stream")
        s, j = (sim.ask(body=chat(max_tokens=5, stream=x), headers=DECODE) for x in (True, False))
        text = "".join(json.loads(e)["choices"][0]["delta"].get("content", "") for e in s.events()[:-1])
        assert text == j.json()["choices"][0]["message"]["content"], "a stream and a body say the same"


REFUSED = [
    # name, path, body, status, exact error or a part of the message
    ("malformed stream_options", CHAT, chat(stream=True, stream_options="x"), 400,
     {"message": "1 validation error:\n  {'type': 'model_attributes_type', 'loc': 'body.stream_options', 'msg': 'Input should be a valid dictionary or object to extract fields from', 'input': 'x'}", "type": "Bad Request", "param": "body.stream_options", "code": 400}),
    ("stream_options without stream", CHAT, chat(stream_options={"include_usage": True}), 400,
     {"message": "Stream options can only be defined when `stream=True`. (parameter=stream_options)", "type": "BadRequestError", "param": "stream_options", "code": 400}),
    ("min above max", CHAT, chat(max_tokens=1, min_tokens=5), 400,
     {"message": "min_tokens must be less than or equal to max_tokens=1, got 5.", "type": "BadRequestError", "param": None, "code": 400}),
    ("unknown model", CHAT, {**chat(), "model": "nope"}, 404,
     {"message": "The model `nope` does not exist. Valid aliases: m.", "type": "NotFoundError", "param": "model", "code": 404}),
    ("unknown part", CHAT, chat([{"type": "hologram"}]), 400,
     {"message": "Unknown part type: hologram", "type": "BadRequestError", "param": None, "code": 400}),
    ("unknown path", "/v1/nothing", chat(), 404,
     {"message": "Not Found", "type": "Not Found", "param": None, "code": 404}),
    ("no messages", CHAT, {"model": "m"}, 400, "body.messages"),
    ("no prompt", COMPLETIONS, {"model": "m"}, 400, "prompt"),
    ("text ids", COMPLETIONS, {"model": "m", "prompt": [1, "x"]}, 400, "body.prompt"),
    ("zero max_tokens", CHAT, chat(max_tokens=0), 400, "max_tokens"),
    ("max_tokens of a wrong type", CHAT, chat(max_tokens="many"), 400, "body.max_tokens"),
    ("stream of a wrong type", CHAT, chat(stream=[1]), 400, "body.stream"),
    ("render refuses too", CHAT + "/render", {"model": "m"}, 400, "body.messages"),
    ("trailing comma", CHAT, '{"model":"m","messages":[],}', 400, "JSON decode error"),
    ("NaN", CHAT, '{"model":"m","messages":[],"x":NaN}', 400, "JSON decode error"),
    ("leading zero", CHAT, '{"model":"m","messages":[],"x":01}', 400, "JSON decode error"),
    ("bare control", CHAT, '{"model":"m\n","messages":[]}', 400, "JSON decode error"),
    ("bad escape", CHAT, '{"model":"\\x","messages":[]}', 400, "JSON decode error"),
    ("bad UTF-8", CHAT, b'{"model":"\xc3(","messages":[]}', 400, "JSON decode error"),
    ("overlong UTF-8", CHAT, b'{"model":"\xc0\xaf","messages":[]}', 400, "JSON decode error"),
    ("two values", CHAT, "{}{}", 400, "JSON decode error"),
    ("empty body", CHAT, "", 400, "JSON decode error"),
    ("a list", CHAT, "[]", 400, "valid dictionary"),
    ("too deep", CHAT, '{"x":' + "[" * 2000 + "]" * 2000 + "}", 400, "JSON decode error"),
]


@case
def refusals_are_the_engines():
    with Sim("--model", "m") as sim:
        for name, path, body, status, want in REFUSED:
            a = sim.ask(path=path, body=body, headers=DECODE)
            assert a.status == status, (name, a.status, a.body)
            e = a.json()["error"]
            assert list(e) == ["message", "type", "param", "code"], (name, e)
            assert e == want if isinstance(want, dict) else want in e["message"], (name, e)
        assert sim.ask("GET", CHAT).status == 405
        bare = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
        a = sim.ask(raw=f"{bare}Content-Type: text/plain\r\n\r\n{{}}".encode())
        assert a.status == 400 and "application/json" in a.json()["error"]["message"]
        a = sim.ask(raw=f"{bare}Content-Type: Application/JSON; charset=utf-8\r\n\r\n{{}}".encode())
        assert "messages" in a.json()["error"]["message"]
        assert sim.ask(body={"mod\\u0065l": 1, **chat()}).status == 200
        assert sim.ask(body='{"mod\\u0065l":"nope","messages":[]}').status == 404
    with Sim() as sim:
        assert sim.ask(body={**chat(), "model": "any"}).json()["model"] == "any"


@case
def pages_answer():
    with Sim("--model", "m") as sim:
        assert sim.ask("GET", "/v1/models").json()["data"][0]["id"] == "m"
        h = sim.ask("GET", "/health")
        assert h.status == 200 and h.body == b"" and h.h("content-length") == "0"
        a = sim.ask("PUT", "/sim/echo?a=b", b"12345", {"X-One": "1", "x-one": "2"})
        assert a.json()["method"] == "PUT" and a.json()["target"] == "/sim/echo?a=b" and a.json()["body_length"] == 5
        assert [h for h in a.json()["headers"] if h[0].lower() == "x-one"] == [["X-One", "1"], ["x-one", "2"]]
        h = sim.ask("HEAD", "/sim/echo")
        assert h.status == 200 and int(h.h("content-length")) > 0


# ---- templates ----


def rendered(sim, body):
    return sim.ask(path=CHAT + "/render", body=body).json()["token_ids"]


@case
def templates_differ_and_see_bytes():
    with Sim() as a, Sim("--render-template", "B") as b:
        one, two = rendered(a, chat()), rendered(b, chat())
        assert len(one) != len(two) and rendered(a, chat()) == one
        off = chat(chat_template_kwargs={"enable_thinking": False})
        assert len(rendered(a, off)) > len(one) and rendered(b, off) == two
        assert rendered(a, chat(chat_template_kwargs={"enable_thinking": True})) == one
        tool = '{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":%s}]}'
        for sim in (a, b):
            assert rendered(sim, tool % '{"name":"f","description":"d"}') != rendered(sim, tool % '{"description":"d","name":"f"}')
            m = '{"model":"m","messages":[%s]}'
            assert rendered(sim, m % '{"role":"user","content":"x"}') != rendered(sim, m % '{"content":"x","role":"user"}')
        # drift: render B, decode A
        assert b.ask(body=chat(), headers=DECODE).json()["usage"]["prompt_tokens"] == len(one)


@case
def media_become_features():
    with Sim() as sim:
        part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 50000}}
        body = chat([{"type": "text", "text": "what is"}, part, {"type": "input_audio", "input_audio": {"data": "QQ=="}}])
        r = sim.ask(path=CHAT + "/render", body=body).json()
        f = r["features"]
        assert len(r["token_ids"]) < 200 and list(f) == ["mm_hashes", "mm_placeholders", "kwargs_data"]
        assert list(f["mm_hashes"]) == ["image", "audio"] and len(f["kwargs_data"]["image"]) == 1
        p = f["mm_placeholders"]["image"][0]
        assert r["token_ids"][p["offset"] : p["offset"] + p["length"]] == [3] * p["length"]
        e = sim.ask(body=chat([part], max_tokens=1), headers={"x-llm-d-epp-profile": "encode"}).json()
        assert list(e["ec_transfer_params"]) == f["mm_hashes"]["image"]
        assert sim.stats()["requests"]["encode"] == 1


@case
def forwarded_ids_are_the_prompt():
    with Sim() as sim:
        a = sim.ask(body=chat(max_tokens=1, kv_transfer_params={"prompt_token_ids": [0, 1, 2, 3, 4]}), headers=DECODE)
        assert a.json()["usage"]["prompt_tokens"] == 5
        kv = NIXL[:-1] + ',"prompt_token_ids":[1,2,3]}'
        assert prefill(sim, kv=kv).json()["usage"]["prompt_tokens"] == 3


# ---- KV books ----


@case
def an_exact_descriptor_hits_once():
    with Sim() as sim:
        p = prefill(sim)
        kv = raw_kv(p)
        assert p.status == 200 and kv, p.body
        o = json.loads(kv)
        ids = [i for group in o["remote_block_ids"] for i in group]
        assert any(i > 2**53 for i in ids) and any(i > 2**63 for i in ids) and max(ids) < 2**64
        for k in ("remote_engine_id", "remote_host", "remote_port", "remote_request_id", "tp_size", "remote_num_tokens"):
            assert k in o
        assert sim.stats()["stranded"] == 1
        d = sim.ask(body=with_kv(chat(), turned(kv)), headers=DECODE)
        u = d.json()["usage"]
        assert u["prompt_tokens_details"]["cached_tokens"] == u["prompt_tokens"] and sim.stats()["hits"] == 1
        d = sim.ask(body=with_kv(chat(), turned(kv)), headers=DECODE)
        assert d.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        st = sim.stats()
        assert (st["hits"], st["misses"], st["stranded"], st["token_drift"]) == (1, 1, 0, 0), st
        assert raw_kv(prefill(sim)) != kv, "descriptors are fresh"


@case
def altered_descriptors_miss():
    with Sim() as sim:
        edits = [
            lambda t: t.replace('"sim_scale":0.10', '"sim_scale":0.1'),
            lambda t: t.replace("\\u00e9", "\u00e9"),
            lambda t: t.replace("\\/", "/"),
            lambda t: t.replace('"tp_size":1,', ""),
            lambda t: t[:-1] + ',"more":1}',
            lambda t: re.sub(r"\[\[(\d+),(\d+)", lambda m: f"[[{m[1]},{int(m[2]) - 1}", t),
            lambda t: t.replace('"do_remote_decode":false', '"do_remote_decode":true'),
            lambda t: '{"do_remote_decode":false,"do_remote_prefill":true}',
        ]
        for n, edit in enumerate(edits, 1):
            t = turned(raw_kv(prefill(sim)))
            assert edit(t) != t
            sim.ask(body=with_kv(chat(), edit(t)).encode(), headers=DECODE)
            st = sim.stats()
            assert (st["hits"], st["misses"], st["stranded"]) == (0, n, n), (n, st)
        assert st["altered"] == 7, st
        t = turned(raw_kv(prefill(sim)))  # ids forwarded beside the descriptor do not spoil it; other order neither
        t = json.loads(t, object_pairs_hook=list) and t[:-1] + ',"prompt_token_ids":[1,2]}'
        sim.ask(body=with_kv(chat(), t), headers=DECODE)
        st = sim.stats()
        assert (st["hits"], st["token_drift"]) == (1, 1), st


@case
def drift_between_legs_is_counted():
    with Sim() as sim:
        kv = turned(raw_kv(prefill(sim, chat("one"))))
        sim.ask(body=with_kv(chat("two"), kv), headers=DECODE)
        st = sim.stats()
        assert (st["hits"], st["token_drift"]) == (1, 1), st


@case
def shared_storage_hits_by_tokens():
    with Sim() as sim:
        assert raw_kv(prefill(sim, kv=SHARED)) is None
        ask = '{"do_remote_decode":false,"do_remote_prefill":true}'
        for text, hits, misses in (("hello there", 1, 0), ("another", 1, 1), ("hello there", 2, 1)):
            sim.ask(body=with_kv(chat(text), ask), headers=DECODE)
            st = sim.stats()
            assert (st["shared_hits"], st["misses"]) == (hits, misses), st
        sim.ask(body=chat(), headers=DECODE)
        assert sim.stats()["local"] == 1
        for i in range(3000):  # the table grows
            if i % 1000 == 0:
                s = sim.connect()
            s.sendall(build("POST", COMPLETIONS, with_kv({"model": "m", "prompt": [i, 7], "max_tokens": 1}, SHARED), PREFILL))
            assert Answer(s).status == 200
        sim.ask(path=COMPLETIONS, body=with_kv({"model": "m", "prompt": [5, 7]}, ask), headers=DECODE)
        assert sim.stats()["shared_hits"] == 3


@case
def prefill_wants_a_handshake():
    bad = ["null", "{}", '{"do_remote_decode":true}', NIXL.replace('"remote_host":null,', ""), NIXL.replace("true", "false"),
           NIXL.replace('"remote_host":null', '"remote_host":"x"')]
    with Sim() as sim:
        for n, kv in enumerate(bad, 1):
            a = prefill(sim, kv=kv)
            assert a.status == 400 and a.json()["error"]["param"] == "kv_transfer_params", (kv, a.body)
            assert sim.stats()["bad_handshakes"] == n
    for flag, kv, status in (("nixl", SHARED, 400), ("nixl", NIXL, 200), ("shared", NIXL, 400), ("shared", SHARED, 200), ("off", "null", 200)):
        with Sim("--kv", flag) as sim:
            assert prefill(sim, kv=kv).status == status, (flag, kv)


@case
def probes_answer_412():
    with Sim() as sim:
        a = sim.ask(body=chat(), headers=PROBE)
        assert a.status == 412 and a.json()["error"]["code"] == 412
        assert sim.ask(body=chat(), headers={**PROBE, "x-sim-probe": "hit"}).status == 200
        assert sim.stats()["requests"]["probe"] == 2
    with Sim("--probe-412", "0.5", "--seed", "7") as sim:
        got = [sim.ask(body=chat(), headers=PROBE).status for _ in range(60)]
        assert 10 < got.count(412) < 50 and got.count(412) + got.count(200) == 60, got
    with Sim("--probe-412", "0.5", "--seed", "7") as sim:
        assert got == [sim.ask(body=chat(), headers=PROBE).status for _ in range(60)], "the same seed, the same luck"


@case
def cancelled_requests_are_counted():
    with Sim("--event-interval", "50", "--tokens", "1000") as sim:
        for i in range(3):
            s = sim.connect()
            s.sendall(build("POST", CHAT, chat(stream=True), DECODE))
            s.recv(100)
            s.close()
        st = sim.wait(lambda st: st["cancelled"] == 3)
        assert st["active_requests"] == 0 and st["cancelled_in"]["decode"] == 3
        s = sim.connect()
        s.sendall(build("POST", CHAT, with_kv(chat(), NIXL), {**PREFILL, "x-sim-fault-prefill": "delay=5000"}))
        sim.wait(lambda st: st["active_requests"] == 1)
        s.close()
        sim.wait(lambda st: st["cancelled_in"]["prefill"] == 1 and st["open_connections"] == 1)
        sim.reset()
        assert sim.stats()["cancelled"] == 0


# ---- faults ----


def fault(spec, phase="decode", **more):
    return {**DECODE, f"X-Sim-Fault-{phase}": spec, **more}


def usual(sim):
    return sim.ask(body=chat(stream=True, max_tokens=4), headers={**DECODE, "x-request-id": "q"})


@case
def delays_hold_back():
    with Sim("--delay", "render=120") as sim:
        a = sim.ask(body=chat(), headers=fault("delay=150"))
        assert a.took >= 0.14
        assert sim.ask(path=CHAT + "/render", body=chat()).took >= 0.11
        a = sim.ask(body=chat(stream=True, max_tokens=2), headers=fault("first-token-delay=150"))
        assert a.whole and a.chunks[0][0] - a.start >= 0.14
        assert sim.ask(body=chat(), headers=fault("first-token-delay=150")).took >= 0.14
        a = sim.ask(body=chat(stream=True, max_tokens=5), headers=fault("event-interval=40"))
        gaps = [b[0] - c[0] for b, c in zip(a.chunks[1:], a.chunks)]
        assert a.took >= 0.15 and len([g for g in gaps if g > 0.02]) >= 3, gaps
        assert sim.ask(body=chat(), headers=fault("delay=5000", phase="prefill")).took < 2, "other phases are spared"


@case
def statuses_are_injected():
    with Sim("--fault", "prefill=status=503;busy%2C%20really;retry-after=7") as sim:
        a = prefill(sim)
        assert (a.status, a.body, a.h("retry-after")) == (503, b"busy, really", "7")
        a = sim.ask(body=chat(), headers=fault("status=429"))
        assert a.status == 429 and a.json()["error"]["code"] == 429 and a.json()["error"]["type"] == "Too Many Requests"
        with tempfile.NamedTemporaryFile() as f:
            f.write(b'{"secret":true}')
            f.flush()
            a = sim.ask(body=chat(), headers=fault(f"status=500;@{f.name},header=X-Peer-Topology:rack%2C7"))
            assert a.json() == {"secret": True} and a.h("X-Peer-Topology") == "rack,7"
        assert sim.ask(body=chat(), headers=fault("status=204")).status == 204
        a = sim.ask(body=chat(), headers=fault("nonsense=1"))
        assert a.status == 400 and "nonsense=1" in a.json()["error"]["message"]
    with Sim("--fault-rate", "decode=status=500@0.3", "--seed", "3") as sim:
        got = [sim.ask(body=chat(), headers=DECODE).status for _ in range(60)]
        assert 5 < got.count(500) < 35, got


@case
def silence_reset_and_fin():
    with Sim("--created", "5") as sim:
        with sim.connect() as s:
            s.sendall(build("POST", CHAT, chat(), fault("silence")))
            a = Answer(s, wait=0.4)
            assert a.timed_out and a.status is None
        sim.wait(lambda st: st["cancelled"] == 1 and st["active_requests"] == 0)
        want = usual(sim).body
        for stream in (True, False):
            for n in (0, 1, 300):
                h = lambda what: {**fault(f"{what}={n}"), "x-request-id": "q"}
                a = sim.ask(body=chat(stream=stream, max_tokens=4), headers=h("reset-after"))
                assert a.reset and not a.whole and len(a.body) <= n, (stream, n, a.__dict__)
                a = sim.ask(body=chat(stream=stream, max_tokens=4), headers=h("fin-after"))
                assert a.eof and not a.whole and len(a.body) == n, (stream, n, a.__dict__)
                assert not stream or a.body == want[:n]
            with sim.connect() as s:
                s.sendall(build("POST", CHAT, chat(stream=stream, max_tokens=4), fault("silence-after=10")))
                a = Answer(s, wait=0.4)
                assert a.timed_out and len(a.body) == 10 and a.status == 200
        st = sim.wait(lambda st: st["active_requests"] == 0)
        assert st["cancelled"] == 3, st


@case
def splits_keep_the_bytes():
    with Sim("--created", "5") as sim:
        want = usual(sim)
        h = lambda spec: {**fault(spec), "x-request-id": "q"}
        a = sim.ask(body=chat(stream=True, max_tokens=4), headers=h("split=1"))
        assert a.whole and a.body == want.body and all(len(c) == 1 for _, c in a.chunks)
        a = sim.ask(body=chat(stream=True, max_tokens=4), headers=h("split-at=7,split-at=3"))
        sizes = [len(c) for _, c in a.chunks]
        assert a.body == want.body and sizes[:2] == [3, 4], sizes
        a = sim.ask(body=chat(max_tokens=4), headers=h("split=10"))
        b = sim.ask(body=chat(max_tokens=4), headers={**DECODE, "x-request-id": "q"})
        assert a.whole and a.body == b.body
        for n in range(0, len(want.body), 97):
            assert sim.ask(body=chat(stream=True, max_tokens=4), headers=h(f"split-at={n}")).body == want.body
        a = sim.ask(body=chat(stream=True, max_tokens=4), headers=h("crlf"))
        assert a.body == want.body.replace(b"\n", b"\r\n")
        a = sim.ask(body=chat(stream=True, max_tokens=4), headers=h("no-final-blank"))
        assert a.body == want.body[:-1] and a.whole
        a = sim.ask(body=chat(stream=True, max_tokens=4), headers=h("no-length"))
        assert a.body == want.body and a.h("transfer-encoding") is None and a.h("connection") == "close"
        a = sim.ask(body=chat(max_tokens=4), headers=h("no-length"))
        assert a.body == b.body and a.h("content-length") is None and a.eof


@case
def gzip_answers_decode():
    with Sim("--created", "5") as sim:
        want = usual(sim)
        h = {**fault("gzip"), "x-request-id": "q"}
        a = sim.ask(body=chat(stream=True, max_tokens=4), headers=h)
        assert a.h("content-encoding") == "gzip" and gzip.decompress(a.body) == want.body
        a = sim.ask(body=chat(max_tokens=4), headers=h)
        assert keys(gzip.decompress(a.body)) == keys(CHAT_JSON)
        a = sim.ask(body=chat(), headers=fault("gzip,split=100,huge-event=200000"))
        assert len(gzip.decompress(a.body)) > 200000


@case
def events_go_wrong():
    with Sim() as sim:
        a = sim.ask(body=chat(stream=True), headers=fault("error-event-after=3"))
        e = a.events()
        assert len(e) == 5 and json.loads(e[3])["error"]["code"] == 500 and e[4] == "[DONE]", e
        a = sim.ask(body=chat(stream=True, max_tokens=2), headers=fault("huge-event=1000000"))
        assert len(json.loads(a.events()[1])["choices"][0]["delta"]["content"]) == 1000000
        opts = {"include_usage": True}
        a = sim.ask(body=chat(stream=True, max_tokens=2, stream_options=opts), headers=fault("usage-null"))
        assert all(json.loads(e)["usage"] is None for e in a.events()[:-1])
        assert sim.ask(body=chat(), headers=fault("usage-null")).json()["usage"] is None
        a = sim.ask(body=chat(stream=True, max_tokens=2), headers=fault("blob=1000000"))
        sizes = [len(e) + 8 for e in a.events()]
        assert sizes.count(65536) == 15 and 1000000 <= len(a.body) < 1010000 and a.whole, sizes
        a = sim.ask(body=chat(stream=True, max_tokens=2), headers=fault("tokens=1,crlf,split=33,gzip"))
        assert gzip.decompress(a.body).endswith(b"data: [DONE]\r\n\r\n")


@case
def refused_uploads_are_answered_early():
    with Sim() as sim:
        with sim.connect() as s:
            head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\nEPP-Profile: decode\r\nx-sim-fault-decode: refuse-body\r\n\r\n"
            s.sendall(head.encode() + b"x" * 1000)
            a = Answer(s)
            assert a.status == 413 and a.h("connection") == "close", a.__dict__
            s.sendall(b"x" * 100000)  # is dropped, not reset
            assert s.recv(10) == b""
        assert sim.ask(body=chat(), headers=fault("refuse-body,status=401")).status == 401


@case
def idle_connections_close():
    with Sim("--close-idle", "150") as sim:
        with sim.connect() as s:
            t = time.monotonic()
            assert s.recv(1) == b"" and 0.1 < time.monotonic() - t < 3
        with sim.connect() as s:
            s.sendall(build("POST", CHAT, chat(), fault("delay=400")))
            assert Answer(s).status == 200, "busy is not idle"
            assert s.recv(1) == b""
    with Sim() as sim, sim.connect() as s:
        s.sendall(build("POST", CHAT, chat(), fault("close-idle=100")))
        assert Answer(s).whole and s.recv(1) == b""


# ---- framing ----

BAD = {  # name: what follows the request line and Host
    "two lengths": b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "length and coding": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "signed length": b"Content-Length: +2\r\n\r\n{}",
    "list of lengths": b"Content-Length: 2, 2\r\n\r\n{}",
    "huge length": b"Content-Length: 99999999999999999999999\r\n\r\n",
    "unknown coding": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "bad chunk size": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "signed chunk size": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    "chunk without its end": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx\r\n0\r\n\r\n",
    "chunk with bare LF": b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n",
    "space before colon": b"Content-Length : 2\r\n\r\n{}",
    "folded header": b"X-A: 1\r\n 2\r\n\r\n",
    "control in value": b"X-A: 1\x012\r\n\r\n",
    "second host": b"Host: b\r\n\r\n",
    "no colon": b"nonsense\r\n\r\n",
    "bare LF": b"X-A: 1\nX-B: 2\r\n\r\n",
}


@case
def bad_framing_is_refused():
    with Sim() as sim:
        start = b"POST /sim/echo HTTP/1.1\r\nHost: a\r\n"
        raws = {k: start + v for k, v in BAD.items()}
        raws["no host"] = b"GET /health HTTP/1.1\r\n\r\n"
        raws["version"] = b"GET /health HTTP/2.0\r\nHost: a\r\n\r\n"
        raws["request line"] = b"GET /health\r\nHost: a\r\n\r\n"
        raws["only LF"] = b"GET /health HTTP/1.1\nHost: a\n\n"
        raws["TLS"] = b"\x16\x03\x01\x02\x00\x01\r\n\r\n"
        for name, raw in raws.items():
            with sim.connect() as s:
                s.sendall(raw)
                a = Answer(s)
                assert a.status == 400 and a.body == b"Invalid HTTP request received.", (name, a.__dict__)
                assert a.h("connection") == "close" and s.recv(1) == b"", name
        assert sim.stats()["requests"]["other"] == 0


@case
def bodies_arrive_however_cut():
    with Sim() as sim:
        body = json.dumps(chat()).encode()
        chunked = b"".join(b"%X;x=y\r\n%s\r\n" % (len(body[i : i + 7]), body[i : i + 7]) for i in range(0, len(body), 7))
        head = b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nEPP-Profile: decode\r\n" % CHAT.encode()
        raws = [
            head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked + b"0\r\nX-Trailer: 1\r\n\r\n",
            head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body),
        ]
        want = sim.ask(raw=raws[0]).json()["choices"]
        for raw in raws:
            with sim.connect() as s:
                for i in range(len(raw)):
                    s.sendall(raw[i : i + 1])
                assert Answer(s).json()["choices"] == want
        with sim.connect() as s:  # pipelined, on one connection
            s.sendall(raws[0] + raws[1] + raws[0])
            buf = b""
            while buf.count(b'"metrics":null}') < 3:
                buf += s.recv(65536)
            assert buf.count(b"HTTP/1.1 200") == 3
        with sim.connect() as s:
            s.sendall(head + b"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n" % len(body))
            assert s.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
            s.sendall(body)
            assert Answer(s).json()["choices"] == want
        a = sim.ask(raw=build("POST", CHAT, body, {**DECODE, "Connection": "close"}))
        assert a.h("connection") == "close"
        a = sim.ask(raw=build("POST", CHAT, chat(stream=True), DECODE, version="1.0"))
        assert a.h("transfer-encoding") is None and a.eof and a.body.endswith(b"[DONE]\n\n")


@case
def the_record_is_lossless():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "record")
        with Sim("--record", path) as sim:
            body = bytes(range(256)) + b'"\\\n'
            with sim.connect() as s:
                s.sendall(build("POST", "/sim/echo?x", body, {"X-Latin": "caf\xe9", "x-LATIN": "2"}))
                fnv = 0xCBF29CE484222325
                for b in body:
                    fnv = (fnv ^ b) * 0x100000001B3 % 2**64
                assert Answer(s).json()["body_fnv1a"] == "%016x" % fnv
                s.sendall(build("POST", CHAT, chat(), DECODE))
                Answer(s)
            sim.stats()
            lines = [json.loads(l) for l in open(path, encoding="ascii")]
            assert len(lines) == 2, lines
            one, two = lines
            assert one["body"].encode("latin-1") == body and one["method"] == "POST" and one["target"] == "/sim/echo?x"
            assert ["X-Latin", "caf\xe9"] in one["headers"] and ["x-LATIN", "2"] in one["headers"]
            assert (one["phase"], two["phase"], one["reused"], two["reused"]) == ("other", "decode", False, True)
            assert one["connection"] == two["connection"] and two["time"] > one["time"] > 1e18


@case
def output_is_the_seeds():
    with Sim("--seed", "1", "--created", "9") as a, Sim("--seed", "1", "--created", "9") as b, Sim("--seed", "2") as c:
        get = lambda s, t="x": s.ask(body=chat(t), headers=DECODE)
        one = get(a)
        assert one.body == get(b).body and one.json()["choices"] == get(a).json()["choices"]
        assert one.json()["choices"] != get(c).json()["choices"] != get(a, "y").json()["choices"]
        assert get(a).json()["id"] != one.json()["id"]
        assert len(a.ask(body=chat(max_tokens=50, ignore_eos=True), headers=DECODE).json()["choices"][0]["message"]["content"].split()) == 50


@case
def whatever_goes_wrong_leaves_nothing_behind():
    import random

    rng = random.Random(5)
    items = ["split=1", "split=50", "split-at=5", "split-at=200", "crlf", "gzip", "no-length", "no-final-blank", "usage-null",
             "reset-after=0", "reset-after=100", "fin-after=50", "silence-after=20", "silence", "delay=5", "first-token-delay=5",
             "event-interval=1", "huge-event=100000", "blob=300000", "error-event-after=2", "status=503", "status=204",
             "refuse-body", "close-idle=1", "tokens=3"]
    with Sim("--tokens", "6") as sim:
        for i in range(400):
            spec = ",".join(rng.sample(items, rng.randint(0, 4)))
            phase, headers = rng.choice([("decode", DECODE), ("probe", {**PROBE, "x-sim-probe": "hit"}), ("prefill", PREFILL)])
            body = with_kv(chat(stream=rng.random() < 0.6), NIXL) if phase == "prefill" else chat(stream=rng.random() < 0.6)
            raw = build("POST", CHAT, body, {**headers, f"x-sim-fault-{phase}": spec})
            with sim.connect() as s:
                cut = rng.choice([len(raw), len(raw), len(raw), rng.randint(1, len(raw))])
                s.sendall(raw[:cut])
                if cut == len(raw):
                    if rng.random() < 0.3:
                        s.settimeout(0.02)
                        try:
                            s.recv(rng.randint(1, 500))
                        except (ConnectionResetError, socket.timeout):
                            pass
                    elif "silence" not in spec:
                        a = Answer(s)
                        assert not a.timed_out, spec
                if rng.random() < 0.5:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        st = sim.wait(lambda st: st["active_requests"] == 0 and st["open_connections"] == 1)
        assert st["requests"]["decode"] > 50 and st["stranded"] > 20, st


@case
def slow_readers_hold_back_the_stream():
    with Sim() as sim, sim.connect() as s:
        s.sendall(build("POST", CHAT, chat(stream=True), fault("blob=200000000")))
        time.sleep(0.3)
        rss = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{sim.proc.pid}/status").read())[1])
        if "asan" not in BINARY:
            assert rss < 50000, rss
        assert sim.stats()["active_requests"] == 1
        got = 0
        while got < 20000000:
            got += len(s.recv(1 << 20))


@case
def many_streams_at_once():
    n, tokens = (300, 20) if "asan" in BINARY else (1000, 20)
    with Sim("--event-interval", "20", "--tokens", str(tokens), ports=2) as sim:
        socks, ends, lock = [], [], threading.Lock()
        for i in range(n):
            s = socket.create_connection(("127.0.0.1", sim.ports[i % 2]), timeout=30)
            s.sendall(build("POST", CHAT, chat(f"number {i}", stream=True), DECODE))
            socks.append(s)

        def drain(part):
            for s in part:
                a = Answer(s, wait=30)
                with lock:
                    ends.append(a.whole and a.body.count(b"data: ") == tokens + 2)
                s.close()

        threads = [threading.Thread(target=drain, args=(socks[i::4],)) for i in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert len(ends) == n and all(ends), ends.count(False)
        st = sim.wait(lambda st: st["active_requests"] == 0 and st["open_connections"] == 1)
        assert st["cancelled"] == 0 and st["streamed"] == n


def main():
    failed = 0
    only = sys.argv[2:]
    cases = [c for c in CASES if not only or any(o in c.__name__ for o in only)]
    for c in cases:
        start = time.monotonic()
        try:
            c()
        except Exception:
            failed += 1
            print(f"FAILED {c.__name__}\n{traceback.format_exc()}", flush=True)
        if os.environ.get("VERBOSE"):
            print(f"{time.monotonic() - start:6.2f} s {c.__name__}", flush=True)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
