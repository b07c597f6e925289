"""The wrong configurations that the tests in C hold: rows of tables, read from their source.

A row is `{"name", "YAML", …}`; texts may be pieces, and macros of texts. Nothing else of C is understood, and what is not
stops the test.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|/\*.*?\*/|\d+|[{}\[\]()=,;.*&-]', re.S)
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


def text_of(literal):
    return re.sub(r"\\(.)", lambda match: ESCAPES[match[1]], literal[1:-1])


def tokens_of(source):
    return [token for token in TOKEN.findall(source) if not token.startswith("/*")]


def macros_of(source):
    joined = source.replace("\\\n", " ")
    return {match[1]: tokens_of(match[2]) for match in re.finditer(r"^#define (\w+)[ \t]+(.*)$", joined, re.M)}


def expand(tokens, macros):
    """The text that pieces and macros make."""
    return "".join(text_of(token) if token[0] == '"' else expand(macros[token], macros) for token in tokens)


def rows_of(file, function):
    """The rows of the table in a function: lists of fields, each a list of tokens; and the file's macros."""
    source = (ROOT / file).read_text()
    body = source[source.index(f"static void {function}(void **state)\n{{") :]
    tokens = tokens_of(body[body.index("rows[] = {") + len("rows[] = {") : body.index("\n    };")])
    rows, depth = [], 0
    for token in tokens:
        if token == "{":
            depth += 1
            if depth == 1:
                rows.append([[]])
                continue
        if token == "}":
            depth -= 1
            continue
        if depth == 1 and token == ",":
            rows[-1].append([])
        elif depth >= 1:
            rows[-1][-1].append(token)
    assert depth == 0 and rows, f"{file}: the rows of {function} are not understood"
    return rows, macros_of(source)


def texts_of(file, function):
    """(name, YAML, the other fields' tokens) of each row."""
    rows, macros = rows_of(file, function)
    return [(expand(row[0], macros), expand(row[1], macros), row[2:]) for row in rows]
