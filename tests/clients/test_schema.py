"""`coordinator schema` against an independent validator: what is shipped validates, what is broken does not.

Files are read as YAML 1.2 is read by editors: `yes` is a text, `true` is not. What a schema cannot refuse is listed below with
the reason, and nothing may be on that list that it does refuse.
"""

import copy
import json
import os
import pathlib
import re
import shutil
import subprocess

import jsonschema
import pytest
import yaml

from broken_rows import ROOT, texts_of
from conftest import program

LINE = "# yaml-language-server: $schema="


class Yaml12(yaml.SafeLoader):
    """The core schema of YAML 1.2, and merge keys."""

    yaml_implicit_resolvers = {}


def resolves(tag, pattern):
    Yaml12.add_implicit_resolver("tag:yaml.org,2002:" + tag, re.compile(f"^(?:{pattern})$"), None)


resolves("null", "~|null|Null|NULL|")
resolves("bool", "true|True|TRUE|false|False|FALSE")
resolves("int", "[-+]?[0-9]+")
resolves("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
resolves("merge", "<<")
Yaml12.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value, 10))
Yaml12.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))


def load(text):
    return yaml.load(text, Yaml12)


def schema_of(*arguments, cwd=None, binary=None, **variables):
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [binary or program("COORDINATOR_BIN"), "schema", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def schema():
    return schema_of()


def validator(schema):
    return jsonschema.Draft202012Validator(schema)


def with_types(schema, *types):
    """The same with step types that take no params, as the tests in C have them."""
    wider = copy.deepcopy(schema)
    wider["$defs"]["step"]["properties"]["type"]["anyOf"][0]["enum"].extend(types)
    return validator(wider)


def subschemas(value):
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from subschemas(each)
    elif isinstance(value, list):
        for each in value:
            yield from subschemas(each)


def test_it_is_a_schema_of_2020_12(schema):
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_every_key_has_a_description_and_every_default_is_valid(schema):
    names = 0
    for each in subschemas(schema):
        for name, value in each["properties"].items() if isinstance(each.get("properties"), dict) else ():
            if set(value) - {"const", "$ref", "type"}:  # not a condition on a key, which has its description elsewhere
                assert value["description"], name
                names += 1
        if "default" in each:
            validator({**each, "$defs": schema["$defs"]}).validate(each["default"])
    assert names > 60


def test_it_lists_what_coordinator_steps_lists(schema):
    listed = json.loads(subprocess.run([program("COORDINATOR_BIN"), "steps", "--json"], capture_output=True, check=True).stdout)
    for kind in (each for each in listed if each["kind"] == "step"):
        params = schema["$defs"]["params." + kind["name"]]["properties"]
        for param in kind["params"]:
            written = params[param["name"]]
            assert written["description"].startswith(param["help"])
            assert ("default" in written) == (param["default"] is not None)
            assert written.get("x-inherited-from") == param["inherited_from"]
            assert "choices" not in param or written["anyOf"][0]["enum"] == param["choices"]


@pytest.mark.parametrize("path", sorted((ROOT / "configs").rglob("*.yaml")), ids=lambda path: path.name)
def test_a_shipped_configuration_validates_and_names_its_schema(schema, path):
    text = path.read_text()
    assert text.startswith(LINE + "/usr/local/share/coordinator/coordinator.schema.json\n")
    validator(schema).validate(load(text))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("installed")
    build = pathlib.Path(program("COORDINATOR_BIN")).resolve().parents[1]
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True)
    return prefix


@pytest.mark.parametrize("path", sorted((ROOT / "sdk/examples").glob("*/*.yaml")), ids=lambda path: path.name)
def test_an_example_validates_with_its_plugin_loaded(installed, schema, path, tmp_path):
    """The example's folder is built as its author would, by `make`; its configuration names the plugin."""
    folder = shutil.copytree(path.parent, tmp_path / path.parent.name)
    package = next(installed.rglob("coordinator-testkit.pc")).parent
    subprocess.run(["make", "-C", folder], check=True, capture_output=True, env={**os.environ, "PKG_CONFIG_PATH": str(package)})
    own = schema_of("--config", path.name, cwd=folder, binary=installed / "bin/coordinator", COORDINATOR_PLUGIN_PATH="")
    text = path.read_text()
    assert text.startswith(f"{LINE}{path.stem}.schema.json\n")
    validator(own).validate(load(text))
    assert not validator(schema).is_valid(load(text)), "without the plugin its type is unknown"


# ---- What is good besides ----

PIPELINE = {"pipeline": {"steps": [{"type": "decode"}]}}
COMPOSED = ("tokens", "score", "route", "lost", "free", "closing")


@pytest.mark.parametrize(
    "text",
    [
        "pipeline: {steps: [{type: decode, params: }]}\nserver:\nx-what: [ever]\nx-: 1\n",
        "server: {metrics_port: '${PORT}', read_timeout: 0, secure_serving: '${TLS:-false}', max_inflight_bytes: '0'}\n"
        "log: {format: '${FORMAT}'}\npipeline: {steps: [{type: '${TYPE:-decode}', timeout: '${T}', params: {any: thing}}]}\n",
        "server: {read_timeout: 1h2m3.5s, write_timeout: 0s, drain_delay: .5s, connection_memory: 16KiB, tls_min_version: ''}\n"
        "gateway: {address: 'HTTPS://[::1]:80/base', phase_header: 'x-a, x-b'}\npipeline: {steps: [{type: decode, timeout: 0.5s}]}\n",
        "x-step: &p {type: prefill}\npipeline: {steps: [{<<: *p, when: {stream: true}}, {type: decode}]}\n",
        "pipeline: ~\npipelines: [{name: a, steps: [{type: decode}]}]\n",
        "pipelines:\npipeline: {steps: [{type: decode}]}\n",
        "server: {max_connections: 8192.0}\ngateways: {a: {address: 'http://a'}}\n"
        "pipelines: [{name: a, gateway: a, match: {models: m, headers: {X-A: [1, b]}}, steps: [{type: decode}]}]\n",
    ],
)
def test_what_the_reader_takes_is_valid(schema, text, tmp_path):
    validator(schema).validate(load(text))


@pytest.mark.parametrize("text", ["{}", "pipeline:\n", "pipelines: []\n", "pipeline: {steps: }\n", "pipeline: {steps: []}\n"])
def test_no_pipeline_is_none(schema, text):
    assert not validator(schema).is_valid(load(text))


def test_merge_keys_that_nobody_applied_are_taken(schema):
    unmerged = {"pipeline": {"<<": {}, "steps": [{"<<": {"type": "prefill"}}, {"type": "render", "params": {"<<": {}}}]}}
    validator(schema).validate(unmerged)


@pytest.mark.parametrize(
    "name, text", [(name, text) for name, text, _ in texts_of("tests/unit/pipeline/test_composition.c", "sound_compositions_are_taken")]
)
def test_a_sound_composition_is_valid(schema, name, text):
    with_types(schema, *COMPOSED).validate(load(text))


# ---- The schema and the reader agree ----

@pytest.fixture(scope="module")
def every_type(tmp_path_factory):
    """The plugin of every_type.c, and the schema with it."""
    folder = tmp_path_factory.mktemp("every-type")
    plugin = folder / "every-type.so"
    source = pathlib.Path(__file__).with_name("every_type.c")
    subprocess.run(["cc", "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{ROOT}/sdk/include", "-o", plugin, source], check=True)
    names = folder / "names.yaml"
    names.write_text(f"plugins: {{load: ['{plugin}']}}\n")
    return plugin, schema_of("--config", str(names))


VALUES = {
    "string": ["a", "7", "true", "''", "~", "", "[a]", "{a: b}", "'${V}'"],
    "secret": ["a", "7", "[a]"],
    "bool": ["true", "false", "yes", "'true'", "1", "'${NONE:-true}'", "[true]", "~"],
    "int": ["0", "-1", "7", "8", "-2", "7.0", "1.5", "x", "'5'", "'${V}'", "[1]", "~"],
    "any_int": ["-9223372036854775808", "9223372036854775807", "1e1x"],
    "number": ["0.25", "1", "1.5", "-0.1", "1e-3", "x", "'0.5'", "'${ONE}'"],
    "duration": ["30s", "0", "0s", "1h2m3.5s", "'0'", "30", "-1s", "+1s", "s", "1d", "'1 s'", "'${V}s'", "[1s]", "~"],
    "long_duration": ["1ns", "-1s", "0"],
    "any_duration": ["-1s", "0", "1.5h"],
    "size": ["1", "4096", "0", "-1", "2097152", "64KiB", "'4096'", "64kib", "1.5KiB", "x", "'${V}'", "[1]", "~"],
    "choice": ["on", "off", "maybe", "''", "~", "[on]", "'${NONE:-on}'", "1"],
    "url": ["http://a", "'HTTPS://[::1]:80/x'", "''", "~", "a:80", "ftp://a", "'http://a?b'", "'http://a@b'", "http://", "'${NONE:-http://a}'", "5"],
    "list": ["[]", "[a, 1]", "a", "'a, b'", "7", "~", "[[a]]", "[{a: b}]", "{a: b}"],
    "map": ["{}", "{a: b, c: 1}", "~", "a", "[a]", "{a: [b]}"],
    "kv_connector": ["kv-every-type", "kv-nixl", "kv-nothing", "'${NONE:-kv-nixl}'"],
    "rank": ["1", "4", "x"],
    "unknown": ["1"],
}

def complained_lines(path, **variables):
    """The lines of which `check` says that they are wrong."""
    done = subprocess.run(
        [program("COORDINATOR_BIN"), "check", "--config", path], env={**os.environ, **variables}, capture_output=True, text=True, timeout=60
    )
    return {int(line) for line in re.findall(rf"^{re.escape(str(path))}:(\d+):\d+: ", done.stderr, re.M)}


@pytest.mark.parametrize("param", VALUES)
def test_reader_and_schema_judge_each_value_alike(every_type, param, tmp_path):
    plugin, schema = every_type
    path = tmp_path / "values.yaml"
    head = [f"plugins: {{load: ['{plugin}']}}", "gateway: {address: 'http://g'}", "pipeline:", "  steps:"]
    steps = [f"  - {{type: every-type, id: v{i}, params: {{{param}: {value}}}}}" for i, value in enumerate(VALUES[param])]
    path.write_text("\n".join([*head, *steps, "  - {type: decode}"]) + "\n")
    complained = complained_lines(path, V="5", ONE="1")
    judge = validator({"$ref": "#/$defs/step", "$defs": schema["$defs"]})
    for i, (value, step) in enumerate(zip(VALUES[param], load(path.read_text())["pipeline"]["steps"])):
        taken = len(head) + i + 1 not in complained
        if (param, value) == ("kv_connector", "kv-nothing"):
            assert taken and not judge.is_valid(step), "the step opens no connector, and so nobody misses it"
        else:
            assert judge.is_valid(step) == taken, (value, taken)


def test_what_must_be_set_must_be_set_and_a_secret_is_marked(every_type):
    _, schema = every_type
    judge = validator({"$ref": "#/$defs/step", "$defs": schema["$defs"]})
    for step in ({"type": "needs"}, {"type": "needs", "params": None}, {"type": "needs", "params": {}}, {"type": "needs", "params": {"needed": ""}}):
        assert not judge.is_valid(step), step
    judge.validate({"type": "needs", "params": {"needed": "http://a"}})
    params = schema["$defs"]["params.every-type"]["properties"]
    assert params["secret"]["writeOnly"] is True and "default" not in params["secret"]
    assert params["map"]["default"] == {"a": "b"} and params["number"]["default"] == 0.5 and params["list"]["default"] == ["a", "b"]
    assert params["kv_connector"]["x-inherited-from"] == "kv_connector"


# ---- What is broken ----

ELSEWHERE = "whether it is right is to be seen elsewhere in the file"
ORDER = "it is the steps' order or conditions that are wrong"
UNITS = "limits of a text with a unit are beyond a pattern"
YAML = "it is no YAML that a schema gets to see, or one in which a parser has chosen already"
FILES = "which files are there is known when it is loaded"
VARIABLE = "which variables are set is known when it is loaded"

CANNOT = {
    # test_settings.c
    "a repeated key": YAML,
    "a certificate without its key": ELSEWHERE,
    "a repeated one": "names of headers that differ in case and white space are beyond a schema",
    "one that is not forwardable": "names of headers that differ in case are beyond a schema",
    "one that is a phase header": ELSEWHERE,
    "https without TLS": ELSEWHERE,
    "https without TLS at one of several": ELSEWHERE,
    "two default gateways": ELSEWHERE,
    "one port for two": ELSEWHERE,
    "the default port for two": ELSEWHERE,
    "low above high": ELSEWHERE,
    "a stack too small": UNITS,
    "two steps of one id": ELSEWHERE,
    "a wrong value is said once": VARIABLE,
    # test_conditions.c
    "bounds that cross": ELSEWHERE,
    # test_composition.c
    "a need that nothing provides": ORDER,
    "a need that no loaded type provides": ORDER,
    "a need provided too late": ORDER,
    "a need provided sometimes": ORDER,
    "a condition on tokens without tokens": ORDER,
    "a condition on tokens that are there sometimes": ORDER,
    "going on without a needed step": ORDER,
    "going on without the tokens of a condition": ORDER,
    "a step after the answer": ORDER,
    "a step after two answers that share all": ORDER,
    "no answer": ORDER,
    "an answer on some ways": ORDER,
    "an answer that may fail and go on": ORDER,
    "a pipeline behind one for all": ORDER,
    "a name twice": ELSEWHERE,
    "a gateway misspelt": ELSEWHERE,
    "a gateway that is not there": ELSEWHERE,
    "no gateway named, and none that is called default": ELSEWHERE,
    # test_cli.c
    "repeated key": YAML,
    "not YAML": YAML,
    "a tab": YAML,
    "an unset variable": VARIABLE,
    "https for the direct transport of a step": ELSEWHERE,
    "authorities that are not there": FILES,
    "a key of one of several gateways that is not there": FILES,
    "a certificate that is not there": FILES,
    "a certificate for metrics that is not there": FILES,
    "a cipher suite that is none": "names of cipher suites are the TLS library's",
}


def whole(settings):
    """A part of a configuration with what it lacks."""
    if isinstance(settings, dict) and "pipelines" not in settings:
        settings.setdefault("pipeline", PIPELINE["pipeline"])
        if isinstance(settings["pipeline"], dict):
            settings["pipeline"].setdefault("steps", PIPELINE["pipeline"]["steps"])
    return settings


def conditioned(conditions, of_match):
    if of_match:
        return {"pipelines": [{"name": "a", "match": conditions, **PIPELINE["pipeline"]}]}
    return {"pipeline": {"steps": [{"type": "decode", "when": conditions}]}}


def broken():
    """(name, configuration as loaded, or None where no YAML reader takes it)"""
    for name, text, _ in texts_of("tests/unit/config/test_settings.c", "mistakes_are_said_with_their_place"):
        yield name, lambda text=text: whole(load(text))
    for name, text, more in texts_of("tests/unit/config/test_conditions.c", "mistakes_are_said_with_their_place"):
        yield name, lambda text=text, more=more: conditioned(load(text)["when"], more[-1] == ["true"])
    for name, text, _ in texts_of(
        "tests/unit/pipeline/test_composition.c", "wrong_compositions_are_refused_with_words_and_place"
    ) + texts_of("tests/e2e/test_cli.c", "what_is_wrong_is_named_with_its_position"):
        yield name, lambda text=text: load(text)


BROKEN = list(broken())


@pytest.mark.parametrize("name, loaded", BROKEN, ids=[name for name, _ in BROKEN])
def test_what_is_broken_is_refused_where_a_schema_can(schema, name, loaded):
    try:
        configuration = loaded()
    except yaml.YAMLError:
        assert CANNOT.get(name) == YAML
        return
    refused = not with_types(schema, "a", *COMPOSED).is_valid(configuration)
    assert refused != (name in CANNOT), CANNOT.get(name, "the schema takes it")


def test_the_list_of_what_it_cannot_refuse_is_of_tests_that_are_there():
    assert len(BROKEN) > 80
    assert set(CANNOT) <= {name for name, _ in BROKEN}


def test_a_file_that_is_being_written_gets_a_schema_and_a_missing_one_does_not(tmp_path):
    half = tmp_path / "half.yaml"
    half.write_text("servr: 1\npipeline: {steps: [{type: dec}]}\n")
    assert "pipeline" in schema_of("--config", str(half))["properties"]
    missing = subprocess.run([program("COORDINATOR_BIN"), "schema", "--config", tmp_path / "none.yaml"], capture_output=True, text=True)
    assert missing.returncode == 2 and "none.yaml" in missing.stderr and not missing.stdout
