"""KV through files: `kv-shared-storage` with vLLM's example connector. The two workers are started for these tests."""

import re

import pytest

import asks
import wire
from conftest import started, until
from tap import Tap

WORKERS = "shared-prefill", "shared-decode"


@pytest.fixture(scope="module")
def workers(fleet):
    fleet.start(*WORKERS)
    fleet.wait(*WORKERS)
    fleet.start_gateway("shared-gateway", *WORKERS)
    yield fleet
    fleet.stop(*WORKERS, "shared-gateway")


@pytest.fixture(scope="module")
def shared(workers, tmp_path_factory):
    yield from started(tmp_path_factory.mktemp("shared"), workers.url("shared-gateway"), renderer=workers.url("renderer"), kv="kv-shared-storage")


@pytest.fixture(scope="module")
def tap(workers):
    tap = Tap(workers.url("shared-gateway"))
    yield tap
    tap.stop()


@pytest.fixture(scope="module")
def tapped(workers, tap, tmp_path_factory):
    yield from started(tmp_path_factory.mktemp("shared-tapped"), tap.url, renderer=workers.url("renderer"), kv="kv-shared-storage")


def hits(workers):
    page = wire.Metrics(workers.url("shared-decode"))
    return page.sum("vllm:external_prefix_cache_hits_total")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("api", asks.APIS, ids=repr)
def test_decode_finds_the_kv_of_prefill_and_the_client_sees_prefills_count(workers, shared, api, stream):
    body = api.body(stream=stream, usage=True, tokens=300)
    before = hits(workers)
    ours = wire.post(shared.url, api.path, body)
    until(lambda: hits(workers) > before)
    theirs = wire.post(workers.url("shared-decode"), api.path, body)

    assert asks.normal(api, ours) == asks.normal(api, theirs)
    assert asks.text(api, ours) == asks.text(api, theirs)
    assert cached(asks.usages(ours)[-1]) == 0  # prefill had nothing
    assert cached(asks.usages(theirs)[-1]) > 0  # decode counts what it found
    assert shared.metrics().series("llm_d_coordinator_prompt_token_mismatch_total") == []


def but_the_cached_count(api, answer):
    """The bytes without what a rewritten count may change. In Messages it is a member that is put in where the engine leaves it
    out, and it is taken off the tokens that count as input."""
    if api.path == "/v1/messages":
        return re.sub(rb'("input_tokens":)[0-9]+', rb"\1#", re.sub(rb',"cache_read_input_tokens":[0-9]+', b"", answer))
    return re.sub(rb'("cached_tokens":)[0-9]+', rb"\1#", answer)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("api", asks.APIS, ids=repr)
def test_every_byte_but_the_cached_count_is_decodes(workers, tap, tapped, api, stream):
    body = api.body(stream=stream, usage=True, tokens=300)
    tap.take()
    before = hits(workers)
    ours = wire.post(tapped.url, api.path, body)
    until(lambda: hits(workers) > before)
    (decode,) = [leg for leg in tap.take() if leg.phase == "decode"]

    assert ours.body != decode.answer  # decode counted a hit, prefill none
    assert but_the_cached_count(api, ours.body) == but_the_cached_count(api, decode.answer)


def cached(usage):
    for place in ("prompt_tokens_details", "input_tokens_details"):
        if usage.get(place):
            return usage[place]["cached_tokens"]
    return usage["cache_read_input_tokens"]
