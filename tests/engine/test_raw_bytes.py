"""The client's bytes on every leg. A chat template prints the tools in the order of their keys, so a body that is parsed and
written again with sorted keys is another prompt (W11)."""

import json

import pytest

import asks
import wire
from conftest import started
from tap import Tap

ODD_TOOLS = (
    '[ {"type" : "function","function":{"parameters":{"type":"object","required":["zone","at"],"properties":{"zone":'
    '{"type":"string","description":"the \\u007aone"},"at":{"type":"integer","maximum":9007199254740993,"minimum":1e0}}},'
    '"name":"weather","description":"caf\\u00e9 \\/ weather"}}]'
)
CHAT = (
    '{ "max_tokens":4,"temperature":0, "tools":%s ,"messages":[ {"content":"is it warm? \\ud83d\\ude00","role":"user"}],'
    '"ignore_eos":true,"model":"m","seed":9007199254740993,"tool_choice":"auto" }' % ODD_TOOLS
).encode()
MESSAGES = (
    '{"tools":[{"name":"weather","input_schema":{"type":"object","required":["zone","at"],"properties":{"zone":{"type":'
    '"string"},"at":{"type":"integer"}}},"description":"the weather"}],"max_tokens":4 , "temperature":0,'
    '"messages":[{"content":"is it warm?","role":"user"}],"model":"m"}'
).encode()
RESPONSES = (
    '{"tools":[{"type":"function","parameters":{"type":"object","required":["zone","at"],"properties":{"zone":{"type":'
    '"string"},"at":{"type":"integer"}}},"name":"weather","description":"the weather"}],"max_output_tokens":4 , "temperature":0,'
    '"store":false,"input":"is it warm?","model":"m","tool_choice":"auto"}'
).encode()
BODIES = pytest.mark.parametrize(
    "api, body", [(asks.CHAT, CHAT), (asks.RESPONSES, RESPONSES), (asks.MESSAGES, MESSAGES)], ids=["chat", "responses", "messages"]
)


@pytest.fixture(scope="module")
def taps(fleet):
    taps = Tap(fleet.url("renderer")), Tap(fleet.url("gateway"))
    yield taps
    for tap in taps:
        tap.stop()


@pytest.fixture(scope="module")
def tapped(taps, tmp_path_factory):
    renderer, gateway = taps
    yield from started(tmp_path_factory.mktemp("tapped"), gateway.url, renderer=renderer.url, decode={"forward_token_ids": True})


@BODIES
def test_the_ids_through_the_coordinator_are_those_of_the_clients_bytes(fleet, tapped, taps, api, body):
    answer = wire.post(tapped.url, api.path, body)
    (render,), (prefill, decode) = taps[0].take(), taps[1].take()
    ids = json.loads(render.answer)["token_ids"]

    def asked(url, body):
        answer = wire.post(url, api.path + "/render", body)
        assert answer.status == 200, answer.body
        return answer.json()["token_ids"]

    assert answer.status == 200, answer.body
    assert render.body == body
    assert ids == asked(fleet.url("renderer"), body) == asked(fleet.url("decode"), body)
    assert ids != asked(fleet.url("renderer"), json.dumps(json.loads(body), sort_keys=True).encode())
    for leg, phase in ((prefill, "prefill"), (decode, "decode")):
        assert (leg.phase, json.loads(leg.body)["kv_transfer_params"]["prompt_token_ids"]) == (phase, ids)
    assert asks.prompt_tokens(asks.usages(answer)[-1]) == len(ids)


@BODIES
def test_every_member_of_the_client_reaches_decode_as_it_was_written(tapped, taps, api, body):
    assert wire.post(tapped.url, api.path, body).status == 200
    taps[0].take()
    _, decode = taps[1].take()

    assert decode.body.startswith(body[: body.rindex(b"}")].rstrip())


@BODIES
def test_the_descriptor_of_prefill_reaches_decode_as_it_was_written(tapped, taps, api, body):
    assert wire.post(tapped.url, api.path, body).status == 200
    taps[0].take()
    prefill, decode = taps[1].take()
    made = json.loads(prefill.answer)["kv_transfer_params"]
    given = json.loads(decode.body)["kv_transfer_params"]

    assert given.pop("prompt_token_ids")
    assert list(given.items()) == list(made.items())
    assert (made["do_remote_prefill"], made["do_remote_decode"]) == (True, False)


def test_a_completions_prompt_becomes_the_rendered_ids_and_nothing_else_changes(fleet, tapped, taps):
    body = b'{"prompt" : "caf\\u00e9 \\/ au lait", "max_tokens":4,"temperature":0 ,"seed":9007199254740993,"model":"m"}'
    assert wire.post(tapped.url, asks.COMPLETIONS.path, body).status == 200
    (render,), (_, decode) = taps[0].take(), taps[1].take()
    (made,) = json.loads(render.answer)

    assert render.body == body
    assert json.loads(decode.body)["prompt"] == made["token_ids"] == wire.post(fleet.url("decode"), "/v1/completions/render", body).json()[0]["token_ids"]
    assert decode.body.startswith(b'{"prompt" : [') and b', "max_tokens":4,"temperature":0 ,"seed":9007199254740993,"model":"m"' in decode.body
