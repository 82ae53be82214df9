"""Reads vector files back and decodes their bytes again, from the contract and not from `wire.py`.

What a step claims in words (its label, a case's result) must follow from its bytes. Nothing here is imported from
the encoding side.
"""

import hashlib
import json
import re
import struct

TYPES = dict(enumerate(
    "Request Response Push StreamData StreamEnd Error Cancel Ping Pong Hello HelloAck Goodbye".split()))
PRIORITY = ("passive", "interactive", "background")
ADMISSION = ("normal", "expedite", "sheddable")
HEADER = ("len", "ver", "type", "flags", "channel", "epoch", "corr")


class Wrong(Exception):
    """A file that does not say what its bytes say."""


# ---- text to steps ----


def unquote(text):
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


def parse(text):
    """(preamble, [(line, rules, name, steps)]); a step is (line, word, label, named, fields)."""
    preamble, cases, steps = {}, [], None
    lines = text.split("\n")
    if lines[0] != "hostwire-vector 1" or lines[-1] != "":
        raise Wrong("1: not a vector file")
    for number, line in enumerate(lines[1:-1], 2):
        try:
            if line == "":
                continue
            if line.startswith("case "):
                rules, name = line[5:].split(": ", 1)
                steps = []
                cases.append((number, rules.split(), name, steps))
            elif steps is None:
                key, value = line.split(": ", 1)
                preamble[key] = value
            elif line.startswith("  "):
                name, value = line[2:].split(None, 1)
                fields = steps[-1][4]
                if name == "+":
                    fields[-1][1].append(value)
                else:
                    fields.append((name, [value]))
            else:
                words = re.findall(r'[a-z_]+="(?:[^"\\]|\\.)*"|\S+', line)
                named = dict(word.split("=", 1) for word in words[1:] if "=" in word)
                label = " ".join(word for word in words[1:] if "=" not in word)
                steps.append((number, words[0], label, {k: unquote(v) for k, v in named.items()}, []))
        except (ValueError, IndexError) as error:
            raise Wrong(f"{number}: {error}") from None
    return preamble, cases


def is_pattern(values):
    return values[0] == "*" or values[0].split(" ", 1)[0] in ("json", "error")


class Runs:
    """Bytes kept as runs, so that 64 MiB of zeroes cost nothing: a list of (bytes, repeat)."""

    def __init__(self, values=()):
        self.runs = []
        for value in values:
            if value.startswith("text "):
                self.runs.append((value[5:].encode("ascii"), 1))
            elif value.startswith("fill "):
                byte, count = re.fullmatch(r"fill ([0-9a-f]{2}) \* (\d+)", value).groups()
                self.runs.append((bytes.fromhex(byte), int(count)))
            else:
                self.runs.append((bytes.fromhex(value), 1))

    def __len__(self):
        return sum(len(data) * count for data, count in self.runs)

    def bytes(self):
        return b"".join(data * count for data, count in self.runs)


# ---- bytes to facts ----


def judge(data):
    """W9, one check a line: the first failure names the error."""
    if len(data) < 5:
        return "incomplete"
    length, version = struct.unpack_from("<IB", data)
    if version != 2:
        return "unsupported_version"
    if len(data) < 21:
        return "incomplete"
    _, _, kind, flags, channel, epoch, corr = struct.unpack_from("<IBBBHIQ", data)
    pure = kind in (6, 7, 8, 11)
    checks = (
        ("unknown_type", kind > 11),
        ("reserved_flags", flags & 0b1100_0000),
        ("invalid_priority", (flags >> 1) % 4 == 3),
        ("invalid_admission", (flags >> 4) % 4 == 3),
        ("sheddable_not_allowed", (flags >> 4) % 4 == 2 and kind not in (2, 3)),
        ("pure_header_flags", pure and flags & 0b0011_1001),
        ("pure_header_length", pure and length),
        ("body_too_large", length > 1 << 26),
        ("control_epoch", channel == 0 and epoch),
        ("zero_epoch", channel and not epoch),
    )
    for name, failed in checks:
        if failed:
            return name
    yes_no = ("no", "yes")
    return {
        "type": TYPES[kind], "len": str(length), "channel": str(channel), "epoch": str(epoch), "corr": str(corr),
        "binary": yes_no[flags & 1], "priority": PRIORITY[flags >> 1 & 3], "last": yes_no[flags >> 3 & 1],
        "admission": ADMISSION[flags >> 4 & 3],
    }


def legal(facts, subject_sends):
    """§7: direction, identity and body of a frame that has passed W9, sent by or to the subject."""
    kind, length = facts["type"], int(facts["len"])
    channel, corr = int(facts["channel"]), int(facts["corr"])
    from_client = subject_sends == "client"
    shape = (bool(channel), bool(corr))
    if kind == "Request":
        return from_client and shape[1] and True
    if kind in ("Response", "Error"):
        control = not channel
        return not from_client and shape[1] and not (control and (length > 65536 or facts["binary"] == "yes"))
    if kind == "StreamData":
        return not from_client and shape == (True, True)
    if kind == "StreamEnd":
        return not from_client and shape == (True, True) and length == 0
    if kind == "Push":
        return not from_client and shape == (True, False)
    if kind == "Cancel":
        return from_client and shape == (True, True)
    if kind == "Ping":
        return not from_client and shape == (False, True)
    if kind == "Pong":
        return from_client and shape == (False, True)
    return kind == "Goodbye" and not corr


def strict(text, many=True):
    """JSON as C3 and C7 ask, without a depth limit; repeated keys raise."""

    def members(pairs):
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("repeated member")
        return dict(pairs)

    def constant(_):
        raise ValueError("not JSON")

    return json.loads(text.decode("utf-8"), object_pairs_hook=members, parse_constant=constant)


def natural(value, low, high):
    return type(value) is int and low <= value <= high


def discovery_ok(data):
    """D2, D3, and D1's cap."""
    if len(data) > 65536:
        return False
    try:
        value = strict(data)
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, dict):
        return False

    def octets(name, count):
        item = value.get(name)
        return isinstance(item, list) and len(item) == count and all(natural(x, 0, 255) for x in item)

    ends = value.get("endpoints")
    first = ends[0] if isinstance(ends, list) and ends else None
    version = value.get("daemon_ver")
    return (
        natural(value.get("schema"), 1, 1) and natural(value.get("wire_version"), 2, 2)
        and isinstance(first, dict) and first.get("host") == "127.0.0.1" and natural(first.get("port"), 1, 65535)
        and octets("key", 32) and octets("daemon_id", 16)
        and type(value.get("pid")) is int and isinstance(version, str) and version != ""
    )


def lifecycle_ok(data):
    """P6."""
    try:
        value = strict(data)
    except (ValueError, RecursionError):
        return False
    members = {"schema", "phase", "launch_id", "daemon_id", "payload_manifest_digest", "pid", "written_at_ms"}
    hexes = lambda name, pattern: isinstance(value.get(name), str) and re.fullmatch(pattern, value[name])
    return bool(
        isinstance(value, dict) and set(value) == members and natural(value.get("schema"), 1, 1)
        and value.get("phase") in ("starting", "running", "stopping")
        and hexes("launch_id", "[0-9a-f]{32}") and hexes("daemon_id", "[0-9a-f]{32}")
        and hexes("payload_manifest_digest", "([0-9a-f]{64})?")
        and natural(value.get("pid"), 0, 2**32 - 1) and natural(value.get("written_at_ms"), 0, 2**64 - 1)
    )


def mac(key, *parts):
    """HMAC-SHA256 from its definition (RFC 2104)."""
    block = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in block) + b"".join(parts)).digest()
    return hashlib.sha256(bytes(b ^ 0x5C for b in block) + inner).digest()


# ---- the claims of one file ----


def claim(truth, line, what):
    if not truth:
        raise Wrong(f"{line}: {what}")


def check_header(steps):
    (line, word, _, _, fields), (at, result, label, named, _) = steps
    claim((word, result) == ("bytes", "result"), line, "a header case is `bytes` and `result`")
    found = judge(Runs([value for _, values in fields for value in values]).bytes())
    if label == "frame":
        claim(found == named, at, f"decodes as {found}")
    else:
        claim(found == label, at, f"decodes as {found}")


def check_document(preamble, steps):
    (line, word, _, _, fields), (at, result, label, _, _) = steps
    claim((word, result) == ("bytes", "result"), line, "a document case is `bytes` and `result`")
    data = Runs([value for _, values in fields for value in values]).bytes()
    ok = {"discovery": discovery_ok, "lifecycle": lifecycle_ok}[preamble["document"]](data)
    claim(label == ("accepted" if ok else "refused"), at, f"is {'accepted' if ok else 'refused'}")


def check_proof(steps):
    (_, _, _, _, given), (at, _, _, _, proofs) = steps
    value = {name: Runs(values).bytes() for name, values in given + proofs}
    tail = (value["client_nonce"], value["server_nonce"], value["daemon_id"])
    for side in ("server", "client"):
        claim(mac(value["key"], f"subc-{side}-v1".encode(), *tail) == value[f"{side}_p"], at, f"{side} proof differs")


def check_frame(line, word, label, fields, subject):
    """A step whose fields are a frame: the widths, the length, and what the label says about it."""
    names = [name for name, _ in fields]
    claim(names in ([*HEADER], [*HEADER, "body"]), line, "the fields of a frame, in order")
    runs = {name: None if is_pattern(values) else Runs(values) for name, values in fields}
    head = b"".join(
        bytes(4) if name == "len" and runs[name] is None else runs[name].bytes() for name in HEADER)
    claim(len(head) == 21, line, "a header has 21 bytes")
    facts = judge(head)
    length = struct.unpack_from("<I", head)[0]
    said = label.split()
    if said[0] == "malformed":
        claim(facts == said[1], line, f"decodes as {facts}")
        return
    claim(isinstance(facts, dict), line, f"decodes as {facts}")
    name = f"{facts['type']} {facts['channel']}/{facts['epoch']}/{facts['corr']}"
    if label.startswith("head of "):
        claim("body" not in runs and length > 0, line, "a head announces a body that is not there")
        claim(label == f"head of {name}", line, f"is the head of {name}")
        return
    claim(label == name, line, f"is {name}")
    body = runs.get("body", Runs())
    if runs["len"] is None:
        claim(body is None, line, "`len *` goes with a body that is not bytes")
    else:
        claim(body is not None and len(body) == length, line, "len is not the body's length")
    if word == "expect":
        claim(legal(facts, subject), line, "the subject may not send this frame")


def check_message(line, word, label, fields):
    names = [name for name, _ in fields]
    claim(names == ["len", "json"] or names == ["len"], line, "the fields of an auth message")
    if is_pattern(fields[0][1]):
        claim(is_pattern(fields[1][1]), line, "`len *` goes with a body that is not bytes")
        return
    length = struct.unpack("<I", Runs(fields[0][1]).bytes())[0]
    if length <= 4096 and len(fields) == 2 and "short" not in label:
        claim(len(Runs(fields[1][1])) == length, line, "len is not the message's length")


def check_exchange(preamble, steps):
    subject = preamble["subject"]
    claim(subject in ("client", "host"), 0, "subject")
    for line, word, label, named, fields in steps:
        if word == "cut":
            data = b"".join(Runs(values).bytes() for _, values in fields)
            count, _, total = label.split()
            claim(int(count) <= int(total) == len(data), line, "not so many bytes")
            facts = judge(data[:21])
            claim(isinstance(facts, dict) and legal(facts, subject), line, "the subject may not send this frame")
            continue
        if word not in ("recv", "expect"):
            claim(word in ("event", "command", "advance", "eof", "closed", "auth", "socket"), line, word)
            continue
        if label.endswith("message"):
            check_message(line, word, label, fields)
        elif label.startswith("first "):
            _, count, _, total = label.split()
            claim(len(Runs(fields[0][1])) == int(count) < int(total), line, "not so many bytes")
        elif fields and fields[0][0] == "bytes":
            claim(bool(fields[0][1]), line, "no bytes")
        else:
            check_frame(line, word, label, fields, subject)
        for _, values in fields:
            if values[0].startswith("json "):
                strict(values[0][5:].encode())


def check(text):
    """Raises `Wrong` at the first claim that the bytes do not bear out; returns the number of cases."""
    preamble, cases = parse(text)
    for line, rules, _, steps in cases:
        claim(rules and all(re.fullmatch(r"[A-Z]{1,2}\d+", rule) for rule in rules), line, "rules")
        kind = preamble["kind"]
        try:
            if kind == "header":
                check_header(steps)
            elif kind == "document":
                check_document(preamble, steps)
            elif kind == "proof":
                check_proof(steps)
            else:
                claim(kind == "exchange", 1, f"kind {kind}")
                check_exchange(preamble, steps)
        except (ValueError, KeyError, IndexError, AttributeError, struct.error) as error:
            raise Wrong(f"{line}: {type(error).__name__} {error}") from None
    return len(cases)
