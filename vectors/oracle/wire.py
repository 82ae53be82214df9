"""Bytes from descriptions. `reader.py` turns them back and shares nothing with this file but the format."""

import hashlib
import hmac
import json

from text import NAMES, Pattern, Step, parts, size

KEY = bytes(range(0x00, 0x20))
CLIENT_NONCE = bytes(range(0x20, 0x40))
SERVER_NONCE = bytes(range(0x40, 0x60))
DAEMON_ID = bytes(range(0x60, 0x70))
DAEMON_VER = "example/0.1.0"
MAX_BODY = 64 * 1024 * 1024
PURE = ("Cancel", "Ping", "Pong", "Goodbye")
EMITTED = {"Request": 0x02, "StreamData": 0x02, "Response": 0x0A, "Error": 0x0A, "StreamEnd": 0x0A}


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def little(value, width):
    return value.to_bytes(width, "little")


def proof(domain, key=KEY, client=CLIENT_NONCE, server=SERVER_NONCE, daemon=DAEMON_ID):
    return hmac.new(key, domain.encode() + client + server + daemon, hashlib.sha256).digest()


def server_proof(**values):
    return proof("subc-server-v1", **values)


def client_proof(**values):
    return proof("subc-client-v1", **values)


# ---- envelopes ----


def header(kind, channel=0, epoch=0, corr=0, length=0, flags=None, ver=2):
    """The seven fields of a header; `kind` is a name or a raw number, and nothing is judged."""
    number = NAMES.index(kind) if isinstance(kind, str) else kind
    if flags is None:
        flags = EMITTED.get(kind, 0x00)
    return [
        ("len", little(length, 4)), ("ver", little(ver, 1)), ("type", little(number, 1)), ("flags", little(flags, 1)),
        ("channel", little(channel, 2)), ("epoch", little(epoch, 4)), ("corr", little(corr, 8)),
    ]


def frame(kind, channel=0, epoch=0, corr=0, body=b"", length=None, **rest):
    if isinstance(body, dict):
        body = compact(body)
    length = size(body) if length is None else length
    fields = header(kind, channel, epoch, corr, length, **rest)
    return fields + ([("body", parts(body))] if size(body) else [])


def name_of(fields):
    """What a frame is called on its step's line: type and identity."""
    values = {name: int.from_bytes(value, "little") for name, value in fields if name != "body"}
    number = values["type"]
    kind = NAMES[number] if number < len(NAMES) else f"type {number}"
    return f"{kind} {values['channel']}/{values['epoch']}/{values['corr']}"


def recv(kind, *args, **rest):
    """A frame for the subject that is well-formed at the header's level."""
    fields = frame(kind, *args, **rest)
    return Step("recv", name_of(fields), fields)


def recv_malformed(error, kind, *args, **rest):
    return Step("recv", f"malformed {error}", frame(kind, *args, **rest))


def recv_head(kind, length, *args, **rest):
    """A header alone, whose body does not come here."""
    fields = frame(kind, *args, length=length, **rest)
    return Step("recv", f"head of {name_of(fields)}", fields)


def recv_first(count, kind, *args, **rest):
    """The first bytes of a frame and no more."""
    data = b"".join(part for _, value in frame(kind, *args, **rest) for part in parts(value))
    return Step("recv", f"first {count} of {len(data)}", [("bytes", data[:count])])


def raw_slice(start, end, kind, *args, **rest):
    """Bytes from the middle of a frame."""
    data = b"".join(part for _, value in frame(kind, *args, **rest) for part in parts(value))
    return Step("recv", "raw", [("bytes", data[start:end])])


def rest_of(count, kind, *args, **rest):
    """What comes after the first bytes of a frame."""
    return raw_slice(count, None, kind, *args, **rest)


def cut(count, kind, channel=0, epoch=0, corr=0, **rest):
    """The transport takes this many bytes of a frame that the subject sends, and fails."""
    fields = frame(kind, channel, epoch, corr, **rest)
    total = sum(size(value) for _, value in fields)
    return Step("cut", f"{count} of {total}", fields)


def expect(kind, channel=0, epoch=0, corr=0, **rest):
    fields = frame(kind, channel, epoch, corr, **rest)
    return Step("expect", name_of(fields), fields)


def expect_json(kind, channel, epoch, corr, value, **rest):
    """A frame whose body is JSON of this value, however its members are ordered or spaced."""
    text = value if isinstance(value, str) else compact(value)
    fields = header(kind, channel, epoch, corr, **rest)
    fields[0] = ("len", Pattern("*"))
    named = name_of([("type", fields[2][1])] + fields[3:])
    return Step("expect", named, fields + [("body", Pattern(f"json {text}"))])


def expect_error(channel, epoch, corr, code, retry=None):
    """An `Error` with this code and whatever message."""
    fields = header("Error", channel, epoch, corr)
    fields[0] = ("len", Pattern("*"))
    named = name_of([("type", fields[2][1])] + fields[3:])
    more = "" if retry is None else f" retry_after_ms={retry}"
    return Step("expect", named, fields + [("body", Pattern(f"error {code}{more}"))])


# ---- the handshake ----


def message(body, length=None):
    body = compact(body) if isinstance(body, dict) else body
    return [("len", little(size(body) if length is None else length, 4)), ("json", parts(body))]


def hello(**change):
    value = {"client_nonce": list(CLIENT_NONCE), "role": "client", **change}
    return {key: item for key, item in value.items() if item is not ...}


def challenge(**change):
    value = {
        "daemon_id": list(DAEMON_ID), "server_nonce": list(SERVER_NONCE), "daemon_ver": DAEMON_VER,
        "server_proof": list(server_proof()), **change,
    }
    return {key: item for key, item in value.items() if item is not ...}


def client_auth(**change):
    value = {"client_auth": list(client_proof()), **change}
    return {key: item for key, item in value.items() if item is not ...}


def recv_message(name, body, length=None):
    return Step("recv", f"{name} message", message(body, length))


def expect_message(name, body):
    """An auth message whose JSON has this value."""
    return Step("expect", f"{name} message", [("len", Pattern("*")), ("json", Pattern(f"json {compact(body)}"))])


# ---- plain steps ----


def event(name, fields=(), **named):
    return Step("event", name, [(key, parts(value)) for key, value in fields], **named)


def command(name, fields=(), **named):
    return Step("command", name, [(key, parts(value)) for key, value in fields], **named)


def advance(milliseconds):
    return Step("advance", str(milliseconds))


def eof():
    return Step("eof")


def closed(cause):
    return Step("closed", cause)
