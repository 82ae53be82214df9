"""The vector file as text: what a description turns into on disk. The format is in ../README.md."""

import string

PRINTABLE = set(string.ascii_letters + string.digits + string.punctuation + " ")
NAMES = [
    "Request", "Response", "Push", "StreamData", "StreamEnd", "Error",
    "Cancel", "Ping", "Pong", "Hello", "HelloAck", "Goodbye",
]


class Fill:
    """`count` times the same byte: bodies too large to spell out."""

    def __init__(self, byte, count):
        self.byte, self.count = byte, count

    def __len__(self):
        return self.count


def parts(value):
    """A value as a list of bytes and fills."""
    if isinstance(value, (bytes, Fill)):
        return [value]
    if isinstance(value, str):
        return [value.encode()]
    return [part for item in value for part in parts(item)]


def size(value):
    return sum(len(part) for part in parts(value))


class Pattern(str):
    """An expectation that is not a byte string: `*`, `json …`, `error …`."""


# Fields that are for reading; all others are numbers or secrets and stand as hex.
READABLE = {"body", "json", "text", "bytes", "message", "root", "harness", "session", "facts", "descriptor"}


def part_text(name, part):
    if isinstance(part, Fill):
        return f"fill {part.byte:02x} * {part.count}"
    text = part.decode("latin-1")
    plain = name in READABLE and len(text) >= 2 and set(text) <= PRINTABLE and text == text.strip()
    return f"text {text}" if plain else part.hex()


def field_lines(name, value):
    if isinstance(value, Pattern):
        return [f"  {name:<7} {value}".rstrip()]
    lines = [part_text(name, part) for part in parts(value) if len(part)]
    if not lines:
        return []
    return [f"  {name:<7} {lines[0]}"] + [f"  {'+':<7} {line}" for line in lines[1:]]


def quoted(value):
    value = str(value)
    if value and all(c in PRINTABLE and c not in ' "\\=' for c in value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Step:
    def __init__(self, word, label="", fields=(), **named):
        self.word, self.label, self.fields, self.named = word, label, list(fields), named

    def lines(self):
        words = [self.word, self.label] + [f"{key}={quoted(value)}" for key, value in self.named.items()]
        out = [" ".join(word for word in words if word)]
        for name, value in self.fields:
            out += field_lines(name, value)
        return out


class File:
    """One vector file: its preamble and its cases."""

    def __init__(self, path, kind, about, **preamble):
        self.path, self.cases = path, []
        self.preamble = {"kind": kind, "about": about, **preamble}

    def case(self, rules, name, *steps):
        self.cases.append((rules, name, list(steps)))

    def text(self):
        out = ["hostwire-vector 1"]
        out += [f"{key}: {value}" for key, value in self.preamble.items()]
        for rules, name, steps in self.cases:
            out += ["", f"case {rules}: {name}"]
            for step in steps:
                out += step.lines() if isinstance(step, Step) else step
        return "\n".join(out) + "\n"
