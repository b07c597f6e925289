"""Coordinators in front of a real engine. ./dev engine has started the engine (fleet.py) and sets the variables that say where
things are; what a fixture starts it also stops, and says so when the process did not end cleanly.
"""

import os
import subprocess
import time

import pytest

import fleet as fleets
import wire

STOP_WITHIN = 40


def until(condition, seconds=10):
    """The first true value of condition(), within a deadline."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"never held within {seconds} s: {condition.__doc__ or condition}"
        time.sleep(0.02)  # between two looks, not instead of one


class Coordinator:
    """The program with a pipeline of render, prefill and decode, or of the steps that are given."""

    def __init__(self, folder, gateway, **options):
        self.port, metrics_port = fleets.free_port(), fleets.free_port()
        self.url, self.metrics_url = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{metrics_port}"
        file = folder / "coordinator.yaml"
        file.write_text(fleets.configuration(self.port, metrics_port, gateway, **options))
        self.log = folder / "coordinator.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [os.environ["COORDINATOR_BIN"], "serve", "--config", str(file)], stdout=log, stderr=subprocess.STDOUT
            )
        until(self.ready, 20)

    def ready(self):
        assert self.process.poll() is None, self.text()[-4000:]
        return fleets.answers(self.url + "/readyz")

    def text(self):
        return self.log.read_text(errors="replace")

    def stop(self):
        self.process.terminate()
        try:
            status = self.process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"did not end on SIGTERM:\n{self.text()[-4000:]}")
        assert status == 0, f"ended with {status}:\n{self.text()[-4000:]}"

    def metrics(self):
        return wire.Metrics(self.metrics_url)

    def count(self, name, **labels):
        return self.metrics().sum("llm_d_coordinator_" + name, **labels)

    def mismatches(self, **labels):
        return self.count("prompt_token_mismatch_total", **labels)


def started(*arguments, **options):
    coordinator = Coordinator(*arguments, **options)
    yield coordinator
    coordinator.stop()


@pytest.fixture(scope="session")
def fleet():
    running = fleets.Fleet()
    running.check("gateway")
    running.wait(*fleets.STANDING)
    return running


@pytest.fixture(scope="session")
def matching(fleet, tmp_path_factory):
    """Renders as decode does."""
    yield from started(tmp_path_factory.mktemp("matching"), fleet.url("gateway"), renderer=fleet.url("renderer"))


@pytest.fixture(scope="session")
def drifted(fleet, tmp_path_factory):
    """Renders with another template than decode."""
    yield from started(tmp_path_factory.mktemp("drifted"), fleet.url("gateway"), renderer=fleet.url("drifted"))


@pytest.fixture(scope="session")
def forwarding(fleet, tmp_path_factory):
    """As drifted, but decode is told the ids."""
    yield from started(tmp_path_factory.mktemp("forwarding"), fleet.url("gateway"), renderer=fleet.url("drifted"), decode={"forward_token_ids": True})


class Books:
    """What decode's engine counted since this was made."""

    NAMES = {
        "transfers": "vllm:nixl_bytes_transferred_count",
        "bytes": "vllm:nixl_bytes_transferred_sum",
        "hits": "vllm:external_prefix_cache_hits_total",
        "queries": "vllm:external_prefix_cache_queries_total",
        "failed": "vllm:nixl_num_failed_transfers_total",
        "failed_notifications": "vllm:nixl_num_failed_notifications_total",
        "expired": "vllm:nixl_num_kv_expired_reqs_total",
    }

    def __init__(self, url):
        self.url = url
        self.before = self.look()

    def look(self):
        page = wire.Metrics(self.url)
        return {key: page.sum(name) for key, name in self.NAMES.items()}

    def moved(self):
        return {key: value - self.before[key] for key, value in self.look().items()}

    def settled(self, transfers, seconds=15):
        """Waits until so many transfers are counted, and gives all the counts. The engine writes them down a step later."""

        def there():
            """as many transfers as requests"""
            moved = self.moved()
            return moved if moved["transfers"] >= transfers else None

        return until(there, seconds)


def pytest_terminal_summary(terminalreporter):
    """One line a file: what it is about, how many of its tests held, and the figures that it noted."""
    files = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            counts = files.setdefault(report.nodeid.partition("::")[0], {"passed": 0, "failed": 0, "error": 0, "skipped": 0, "seconds": 0, "figures": []})
            counts[outcome] += 1
            counts["seconds"] += report.duration
            counts["figures"] += [value for name, value in report.user_properties if name == "figure"]
    terminalreporter.write_line("")
    for file, counts in sorted(files.items()):
        bad = counts["failed"] + counts["error"]
        name = os.path.basename(file).removeprefix("test_").removesuffix(".py").replace("_", " ")
        terminalreporter.write_line(
            f"{'FAILED' if bad else 'ok':8} {name:16} {counts['passed']:4} passed {bad:3} failed {counts['skipped']:3} skipped {counts['seconds']:5.0f} s"
        )
        for figure in counts["figures"]:
            terminalreporter.write_line(f"         {figure}")


@pytest.fixture
def books(fleet):
    return Books(fleet.url("decode"))
