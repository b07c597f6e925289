"""A real deployment on the loopback interface: vLLM processes and the gateway in front of them.

    fleet.py up       starts it; what runs where is written to RUN/fleet.json, each process writes RUN/NAME.log
    fleet.py serve    starts two coordinators in front of it, one of them with the drifted renderer, and says how to ask them
    fleet.py down     ends all of it

RUN, VENV (the environment that vLLM lies in) and MODELS (with the folders matching and drifted) are folders named by the
environment variables ENGINE_RUN, ENGINE_VENV and ENGINE_MODELS. Standard library only. A process is ended by the id that this
file wrote down, and only while that id is still the process that was started.
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

READY_WITHIN = 600  # seconds; a minute on two free cores, several on busy ones
STOP_WITHIN = 30
MODEL = "m"
CONTEXT = 4096

# Roles: model, how the KV cache goes, whether the process is a whole engine or only renders prompts.
NIXL = {"kv_connector": "NixlConnector", "kv_buffer_device": "cpu"}
ROLES = {
    "prefill": ("matching", NIXL | {"kv_role": "kv_producer"}),
    "decode": ("matching", NIXL | {"kv_role": "kv_consumer"}),
    "renderer": ("matching", None),
    "drifted": ("drifted", None),
    "shared-prefill": ("matching", {"kv_connector": "ExampleConnector", "kv_role": "kv_both"}),
    "shared-decode": ("matching", {"kv_connector": "ExampleConnector", "kv_role": "kv_both"}),
}
RENDERERS = ("renderer", "drifted")

GATEWAY = """\
daemon off;
pid {run}/{name}.nginx.pid;
worker_processes 1;
error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {run}/{name}.bodies;
    proxy_temp_path {run}/{name}.answers;
    fastcgi_temp_path {run}/{name}.unused;
    uwsgi_temp_path {run}/{name}.unused;
    scgi_temp_path {run}/{name}.unused;
    client_max_body_size 0;
    map $http_x_llm_d_epp_profile $worker {{
        default {decode};
        prefill {prefill};
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://$worker;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_request_buffering off;
            proxy_read_timeout 600s;
            # A worker that is not there: 503, as an inference gateway says it.
            error_page 502 =503 @absent;
        }}
        location @absent {{
            default_type application/json;
            return 503 '{{"error":{{"message":"no worker is there","type":"ServiceUnavailable","param":null,"code":503}}}}';
        }}
    }}
}}
"""


def folder(variable):
    return pathlib.Path(os.environ[variable]).absolute()


def free_port():
    """A port below the range from which the system takes source ports, so that nobody takes it before the program does."""
    while True:
        port = random.randrange(12000, 31000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def started_at(pid):
    """When a process began, in the system's ticks: with it an id names one process for ever. None: there is none."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


class Fleet:
    """What runs; every change is written down at once."""

    def __init__(self):
        self.run = folder("ENGINE_RUN")
        self.file = self.run / "fleet.json"
        self.members = json.loads(self.file.read_text()) if self.file.exists() else {}

    def save(self):
        self.file.write_text(json.dumps(self.members, indent=1) + "\n")

    def url(self, name):
        return f"http://127.0.0.1:{self.members[name]['port']}"

    def alive(self, name):
        member = self.members.get(name)
        return member is not None and started_at(member["pid"]) == member["started"]

    def log(self, name):
        return self.run / f"{name}.log"

    # ---- starting

    def spawn(self, name, argv, port, environment=None):
        with open(self.log(name), "ab") as log:
            process = subprocess.Popen(
                argv, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
            )
        self.members[name] = {"pid": process.pid, "started": started_at(process.pid), "port": port}
        self.save()

    def start(self, *names, port=None):
        """Starts vLLM processes, all at once, without waiting."""
        for name in names:
            self.spawn(name, *vllm(self.run, name, port or free_port()))

    def start_gateway(self, name, prefill, decode):
        """nginx, which sends a request by its phase header."""
        port = free_port()
        config = self.run / f"{name}.conf"
        workers = {phase: self.url(worker).removeprefix("http://") for phase, worker in (("prefill", prefill), ("decode", decode))}
        config.write_text(GATEWAY.format(run=self.run, name=name, port=port, **workers))
        self.spawn(name, ["nginx", "-e", "stderr", "-p", str(self.run), "-c", str(config)], port)
        until(lambda: self.check(name) and connects(port), 10, f"{name} never listened, see {self.log(name)}")

    def check(self, name):
        if not self.alive(name):
            raise SystemExit(f"{name} has ended, see {self.log(name)}:\n" + "\n".join(self.log(name).read_text(errors="replace").splitlines()[-15:]))
        return True

    def wait(self, *names):
        """Until all are ready."""
        for name in names:
            url = self.url(name) + "/health"
            until(lambda: self.check(name) and answers(url), READY_WITHIN, f"{name} was never ready, see {self.log(name)}", pause=0.3)

    # ---- ending

    def signal(self, name, number):
        """To the process and those that it started; never to another that has its id by now."""
        if self.alive(name):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.members[name]["pid"], number)

    def stop(self, *names):
        for name in names:
            self.signal(name, signal.SIGTERM)
        for name in names:
            with contextlib.suppress(TimeoutError):
                until(lambda: not self.alive(name), STOP_WITHIN, f"{name} did not end", error=TimeoutError)
            self.kill(name)

    def kill(self, name):
        """At once and without a word, with all of its processes."""
        self.signal(name, signal.SIGKILL)
        until(lambda: not self.alive(name), STOP_WITHIN, f"{name} cannot be ended")
        self.members.pop(name, None)
        self.save()


def until(condition, seconds, message, pause=0.05, error=SystemExit):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise error(message)
        time.sleep(pause)  # between two looks


def connects(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def vllm(run, name, port):
    """Command line, port and environment of a role. What an operator has to know of these flags stands in docs/engine.md."""
    venv, (model, transfer) = folder("ENGINE_VENV"), ROLES[name]
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",  # else the first request for logprobs compiles for minutes
        "PYTHONUNBUFFERED": "1",
    }
    environment.pop("PYTHONPATH", None)
    command = ["launch", "render"] if name in RENDERERS else ["serve"]
    argv = [str(venv / "bin/vllm"), *command, str(folder("ENGINE_MODELS") / model), "--served-model-name", MODEL]
    argv += ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", str(CONTEXT)]
    argv += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    if name not in RENDERERS:
        argv += ["--dtype", "float32", "--enforce-eager", "--enable-prompt-tokens-details", "--enable-scale-out"]
    if transfer:
        if transfer["kv_connector"] == "NixlConnector":
            environment |= {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_port()), "UCX_TLS": "tcp"}
        else:
            transfer = transfer | {"kv_connector_extra_config": {"shared_storage_path": str(run / "shared-kv")}}
        argv += ["--kv-transfer-config", json.dumps(transfer)]
    return argv, port, environment


STANDING = ("prefill", "decode", "renderer", "drifted")


def up():
    fleet = Fleet()
    if all(fleet.alive(name) for name in (*STANDING, "gateway")):
        print("the engine of an earlier --keep still runs: it is used")
        return
    down()
    fleet = Fleet()
    for log in fleet.run.glob("*.log"):
        log.unlink()
    fleet.start(*STANDING)
    fleet.wait(*STANDING)
    fleet.start_gateway("gateway", prefill="prefill", decode="decode")


def configuration(port, metrics_port, gateway, renderer=None, kv="kv-nixl", steps=("render", "prefill", "decode"), decode=None):
    """A coordinator's configuration file, as JSON, which is YAML."""
    params = {"render": {"address": renderer}, "prefill": {}, "decode": decode or {}}
    value = {
        "server": {"listen_addr": f"127.0.0.1:{port}", "metrics_port": metrics_port},
        "gateway": {"address": gateway},
        "pipeline": {"kv_connector": kv, "steps": [{"type": step, "params": params[step]} for step in steps]},
    }
    return json.dumps(value, indent=1) + "\n"


HOW_TO = """\
It goes on running; logs, configurations and fleet.json lie in {run}. Two coordinators stand in front of it:
  renders as decode does:    http://127.0.0.1:{matching}   metrics: http://127.0.0.1:{matching_metrics}/metrics
  with the drifted renderer: http://127.0.0.1:{drifted}   metrics: http://127.0.0.1:{drifted_metrics}/metrics
  curl -N http://127.0.0.1:{matching}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{{"model":"m","messages":[{{"role":"user","content":"hello"}}],"max_tokens":20,"stream":true}}'
  python: openai.OpenAI(base_url="http://127.0.0.1:{matching}/v1", api_key="none")
          anthropic.Anthropic(base_url="http://127.0.0.1:{matching}", api_key="none")
  the decode engine's own metrics: {decode}/metrics
  end: ./dev engine --end"""


def serve():
    fleet, ports = Fleet(), {}
    for name, renderer in (("matching", "renderer"), ("drifted", "drifted")):
        member = f"coordinator-{name}"
        fleet.stop(*[member] if fleet.alive(member) else [])
        port, metrics_port = free_port(), free_port()
        ports |= {name: port, f"{name}_metrics": metrics_port}
        file = fleet.run / f"{member}.yaml"
        file.write_text(configuration(port, metrics_port, fleet.url("gateway"), fleet.url(renderer)))
        fleet.spawn(member, [os.environ["COORDINATOR_BIN"], "serve", "--config", str(file)], port)
        until(lambda: fleet.check(member) and answers(fleet.url(member) + "/readyz"), 20, f"{member} was never ready, see {fleet.log(member)}")
    print(HOW_TO.format(run=fleet.run, decode=fleet.url("decode"), **ports))


def down():
    fleet = Fleet()
    fleet.stop(*list(fleet.members))


if __name__ == "__main__":
    {"up": up, "serve": serve, "down": down}[sys.argv[1]]()
