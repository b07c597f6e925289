"""Real processes for the client tests: a simulated fleet and a coordinator, on free ports of the loopback interface.

COORDINATOR_BIN and WORKER_SIM_BIN name the programs, COORDINATOR_PLUGIN_PATH the folder of the plugins; ./dev test sets
all three. What a fixture starts it also stops, and says so when the process did not end cleanly.
"""

import json
import os
import pathlib
import random
import socket
import subprocess
import time

import anthropic
import httpx2
import openai
import pytest

READY_WITHIN = 20  # seconds; generous, since sanitizers slow the start
STOP_WITHIN = 20

PIPELINE = """
server:
  listen_addr: 127.0.0.1:{port}
  metrics_port: 0
  max_request_body_size: 1
gateway:
  address: {gateway}
{more}pipeline:
  kv_connector: kv-nixl
  steps:
{steps}
"""

DECODE_ONLY = """\
    - type: decode
"""

THREE_LEGS = """\
    - type: render
      params: {address: "GATEWAY"}
    - type: prefill
    - type: decode
"""

CONDITIONAL = """\
    - type: render
      params: {address: "GATEWAY"}
    - type: conditional-decode
    - type: prefill
    - type: decode
"""


def program(variable):
    path = os.environ.get(variable)
    if not path or not os.access(path, os.X_OK):
        pytest.fail(f"{variable} names no program: {path}")
    return path


def free_port():
    """A port below the range from which the system takes source ports, so that nobody takes it before the program does."""
    while True:
        port = random.randrange(12000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def until(condition, seconds=10):
    """The first true value of condition(), within a deadline."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"never held within {seconds} s: {condition.__doc__ or condition}")
        time.sleep(0.01)  # between two looks, not instead of one


class Process:
    """A program with its output in a file; it must end with status 0 when told to."""

    def __init__(self, argv, log):
        self.log = log
        self.output = open(log, "wb")
        self.process = subprocess.Popen(argv, stdout=self.output, stderr=subprocess.STDOUT)

    def text(self):
        return pathlib.Path(self.log).read_text(errors="replace")

    def alive(self):
        assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.text()[-4000:]}"
        return True

    def stop(self):
        self.process.terminate()
        try:
            status = self.process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"did not end on SIGTERM:\n{self.text()[-4000:]}")
        finally:
            self.output.close()
        assert status == 0, f"ended with {status}:\n{self.text()[-4000:]}"


class Sim(Process):
    def __init__(self, folder, *flags):
        self.record = folder / "requests.jsonl"
        super().__init__(
            [program("WORKER_SIM_BIN"), "--port", "0", "--created", "1700000000", "--record", str(self.record), *flags],
            folder / "worker-sim.log",
        )
        line = until(lambda: self.alive() and [l for l in self.text().splitlines() if l.startswith("listening on ")], READY_WITHIN)
        self.url = "http://" + line[0].removeprefix("listening on ").strip()

    def stats(self):
        return httpx2.get(self.url + "/sim/stats").json()

    def received(self, phase):
        """Bodies and headers of all requests of a phase so far, oldest first."""
        lines = [json.loads(line) for line in self.record.read_text().splitlines()]
        return [line for line in lines if line["phase"] == phase]


class Coordinator(Process):
    def __init__(self, folder, gateway, steps, more=""):
        port = free_port()
        config = folder / "coordinator.yaml"
        config.write_text(PIPELINE.format(port=port, gateway=gateway, steps=steps.replace("GATEWAY", gateway), more=more))
        self.url = f"http://127.0.0.1:{port}"
        super().__init__([program("COORDINATOR_BIN"), "serve", "--config", str(config)], folder / "coordinator.log")
        until(self.ready, READY_WITHIN)

    def ready(self):
        """/readyz answers 200"""
        self.alive()
        try:
            return httpx2.get(self.url + "/readyz").status_code == 200
        except httpx2.TransportError:
            return False


def started(kind, *arguments):
    process = kind(*arguments)
    yield process
    process.stop()


@pytest.fixture(scope="session")
def sim(tmp_path_factory):
    yield from started(Sim, tmp_path_factory.mktemp("sim"), "--model", "m", "--tokens", "12")


@pytest.fixture(scope="session")
def coordinator(sim, tmp_path_factory):
    yield from started(Coordinator, tmp_path_factory.mktemp("coordinator"), sim.url, THREE_LEGS)


@pytest.fixture(scope="session")
def decode_only(sim, tmp_path_factory):
    yield from started(Coordinator, tmp_path_factory.mktemp("decode-only"), sim.url, DECODE_ONLY)


@pytest.fixture(scope="session")
def conditional(sim, tmp_path_factory):
    yield from started(Coordinator, tmp_path_factory.mktemp("conditional"), sim.url, CONDITIONAL)


HASTY = """\
  timeout: 500ms
  response_timeout: 500ms
  idle_timeout: 500ms
"""


@pytest.fixture(scope="session")
def hasty(sim, tmp_path_factory):
    """A coordinator that waits for workers as little as tests want to wait for it."""
    steps = THREE_LEGS.replace('address: "GATEWAY"', 'address: "GATEWAY", timeout: 500ms')
    yield from started(Coordinator, tmp_path_factory.mktemp("hasty"), sim.url, steps, HASTY)


@pytest.fixture(scope="session")
def nobody(tmp_path_factory):
    """A coordinator whose workers are not there."""
    yield from started(Coordinator, tmp_path_factory.mktemp("nobody"), f"http://127.0.0.1:{free_port()}", THREE_LEGS)


@pytest.fixture(params=["three legs", "probe misses", "probe hits"])
def served(request, sim):
    """The ways to an answer: the coordinator's URL, the headers that choose the way, and the phases that it takes."""
    if request.param == "three legs":
        return request.getfixturevalue("coordinator").url, {}, ["render", "prefill", "decode"]
    url = request.getfixturevalue("conditional").url
    if request.param == "probe hits":
        return url, {"x-sim-probe": "hit"}, ["render", "probe"]
    return url, {"x-sim-probe": "miss"}, ["render", "probe", "prefill", "decode"]


def openai_at(url, **more):
    """The official client, as a user makes it; without retries, so that each answer is seen."""
    return openai.OpenAI(**{"base_url": url + "/v1", "api_key": "none", "max_retries": 0, "timeout": 30, **more})


def anthropic_at(url, **more):
    return anthropic.Anthropic(**{"base_url": url, "api_key": "none", "max_retries": 0, "timeout": 30, **more})


@pytest.fixture
def client(coordinator):
    with openai_at(coordinator.url) as client:
        yield client


@pytest.fixture
def worker_client(sim):
    """The same client, straight at the worker."""
    with openai_at(sim.url) as client:
        yield client


@pytest.fixture
def claude(coordinator):
    with anthropic_at(coordinator.url) as client:
        yield client


@pytest.fixture
def worker_claude(sim):
    with anthropic_at(sim.url) as client:
        yield client


def legs_since(sim, before):
    """The phases that requests took since sim.stats() was `before`, each as often as it was taken."""
    after = sim.stats()["requests"]
    return {phase: after[phase] - n for phase, n in before["requests"].items() if after[phase] != n}
