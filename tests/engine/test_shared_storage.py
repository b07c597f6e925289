"""KV through files: `kv-shared-storage` with vLLM's example connector. The two workers are started for these tests."""

import pytest

import asks
import wire
from conftest import started, until

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


def cached(usage):
    for place in ("prompt_tokens_details", "input_tokens_details"):
        if usage.get(place):
            return usage[place]["cached_tokens"]
    return usage["cache_read_input_tokens"]
