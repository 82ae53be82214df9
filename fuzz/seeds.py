#!/usr/bin/env python3
"""The made seeds: `fuzz/seeds.py make` writes them, `fuzz/seeds.py check` compares. The bytes are the vectors' oracle's.

A seed that begins with `found-` was a finding, and is left alone. Python's standard library only.
"""

import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "vectors" / "oracle"))

import documents, wire, world  # noqa: E402,E401
from text import parts  # noqa: E402

text = wire.compact
TOKEN = "07" * 16


def flat(fields):
    return b"".join(part for _, value in fields for part in parts(value))


def frame(*args, **rest):
    return flat(wire.frame(*args, **rest))


def message(value):
    body = text(value).encode()
    return len(body).to_bytes(4, "little") + body


def headers():
    yield "route-open", frame("Request", 0, 0, 1, length=173)
    yield "background-request", frame("Request", 7, 77, 2, length=44, flags=0x04)
    yield "largest", frame("Response", 7, 77, 2, length=wire.MAX_BODY)
    yield "too-large", frame("Response", 7, 77, 2, length=wire.MAX_BODY + 1)
    yield "sheddable-push", frame("Push", 7, 77, 0, flags=0x20)
    yield "sheddable-request", frame("Request", 7, 77, 2, flags=0x20)
    yield "pong", frame("Pong", 0, 0, 9)
    yield "goodbye", frame("Goodbye")
    yield "control-epoch", frame("Ping", 0, 1, 9)
    yield "other-version", frame("Ping", 0, 0, 9, ver=3)
    yield "prefix", frame("Ping", 0, 0, 9)[:5]


def splits(what, sizes, stream):
    return bytes([what, len(sizes), *sizes]) + stream


def incremental():
    request = frame("Request", 1, 1, 3, b"hold") + frame("Cancel", 1, 1, 3) + frame("Request", 1, 1, 4, b"e")
    yield "headers", splits(0, [1, 20, 21], frame("Ping", 0, 0, 9) * 3)
    yield "headers-then-version", splits(0, [5], frame("Ping", 0, 0, 9) + frame("Ping", 0, 0, 9, ver=1)[:5])
    yield "host-requests", splits(1, [3, 7], request + frame("Goodbye", 1, 1, 0))
    yield "host-control", splits(1, [50], frame("Request", 0, 0, 3, world.route_open({"kind": "tool_provider", "module_id": "sim"}))
                                 + frame("Request", 0, 0, 4, {"op": "catalog.list"}) + frame("Pong", 0, 0, 1))
    yield "host-large", splits(0x81, [255, 1], frame("Request", 1, 1, 3, b"e", length=70_000))
    yield "host-oversize-control", splits(0x81, [255], frame("Request", 0, 0, 3, b" ", length=69_000))
    yield "client-answers", splits(2, [1, 2, 30], frame("Response", 1, 1, 3, b"yes") + frame("StreamData", 1, 1, 4, b"item")
                                   + frame("StreamEnd", 1, 1, 4) + frame("Error", 1, 1, 5, {"code": "x", "message": "y"}))
    yield "client-ping", splits(2, [4], frame("Ping", 0, 0, 9, flags=0x04) + frame("Goodbye", 1, 1, 0) + frame("Goodbye"))
    yield "client-large", splits(0x82, [200, 3], frame("Response", 1, 1, 3, b"e", length=70_000))
    yield "host-fresh", splits(3, [9], message(wire.hello())
                               + message(wire.client_auth()) + frame("Request", 0, 0, 1, world.negotiate()))
    yield "client-fresh", splits(3, [9], message(wire.challenge()) + frame("Response", 0, 0, 1, world.selected()))


def auth():
    hello = wire.hello()
    yield "as-host", message(hello) + message(wire.client_auth())
    yield "as-host-wrong-proof", message(hello) + message({"client_auth": list(wire.server_proof())})
    yield "as-host-role-is-a-number", message(wire.hello(role=1))
    yield "as-client", message(wire.challenge())
    yield "as-client-other-version", message(wire.challenge(daemon_ver="example/0.2.0"))
    yield "as-client-256", message(wire.challenge(server_nonce=[256] * 32))
    yield "longest", (4096).to_bytes(4, "little") + text(hello).encode().ljust(4096)
    yield "too-long", (4097).to_bytes(4, "little")
    yield "hello-without-prefix", text(hello).encode()


def control():
    full = world.route_open(consumer_identity={"module_id": "other", "launch_nonce": "n"},
                            consumer_capabilities=["streams", "é"], admission_facts={"a": [None, 1.5, "\u2028"]})
    yield "route-open", text(world.route_open())
    yield "route-open-all-members", text(full)
    yield "route-open-nulls", text(world.route_open(consumer_identity=None, consumer_capabilities=None, admission_facts=None))
    yield "relative-root", text(world.route_open(identity={**world.IDENTITY, "project_root": "project"}))
    yield "catalog", text({"op": "catalog.list"})
    yield "catalog-filter", ' { "op" : "catalog.list" , "module_id" : "magic-context" } '
    yield "shutdown", text({"op": "host.shutdown"})
    yield "unknown-operation", text({"op": "x"})
    yield "opened", text(world.OPENED)
    module = {"module_id": "lab", "module_version": "1", "roles": [], "control_ops": []}
    yield "catalog-reply", text({"op": "catalog.list", "generation": 1, "modules": [module], "subc_ops": ["route.open"]})
    yield "error", text({"code": "server_busy", "message": "é" * 3, "retry_after_ms": 50})
    yield "error-bad-hint", '{"code":"x","message":"","retry_after_ms":-0}'
    yield "handler-says-busy", "server_busy later"
    yield "repeated-escaped-key", r'{"op":"x","\u006fp":"y"}'
    yield "surrogates", r'{"op":"\ud83d\ude00","x":"\ud83d"}'
    yield "deepest", "[" * 33 + "]" * 33
    yield "too-deep", "[" * 34 + "]" * 34
    yield "integers", "[18446744073709551615,18446744073709551616,-9223372036854775808,-0,1.0,1e0]"


def negotiation():
    yield "tcp", text(world.negotiate())
    yield "unix-and-tcp", text(world.negotiate({**world.UNIX_OFFER, "parameters": {}}, world.TCP_OFFER))
    yield "unix-version-2", text(world.negotiate({"transport": "unix", "capability_version": 2}, world.TCP_OFFER))
    yield "unix-with-parameters", text(world.negotiate({**world.UNIX_OFFER, "parameters": {"a": [1]}}, world.TCP_OFFER))
    yield "no-tcp", text(world.negotiate(world.UNIX_OFFER))
    yield "tcp-version-2", text(world.negotiate({"transport": "tcp", "capability_version": 2}))
    yield "repeated", text(world.negotiate(world.TCP_OFFER, world.TCP_OFFER))
    yield "nine", text(world.negotiate(*[{"transport": "tcp", "capability_version": n} for n in range(1, 10)]))
    yield "version-2", text(world.negotiate(version=2))
    yield "null-parameters", text(world.negotiate({**world.TCP_OFFER, "parameters": None}))
    yield "selected", text(world.selected())
    yield "selected-unavailable", text(world.selected(reason="unavailable"))
    yield "granted", text(world.selected(world.UNIX_OFFER, activation_token=TOKEN, descriptor={"path": "/x"}))
    yield "granted-without-descriptor", text(world.selected(world.UNIX_OFFER, activation_token=TOKEN))
    yield "activate", text({"op": "transport.activate", "negotiation_version": 1, "activation_token": TOKEN})
    yield "activate-other-token", text({"op": "transport.activate", "negotiation_version": 1, "activation_token": "08" * 16})
    yield "bare-activate", text({"op": "transport.activate", "negotiation_version": 1})
    yield "bare-commit", text({"op": "transport.commit", "negotiation_version": 1})


def files():
    yield "document", documents.discovery()
    yield "document-version-3", documents.discovery(wire_version=3)
    yield "document-ipv6", documents.discovery(endpoints=[{"host": "::1", "port": 1}])
    yield "document-port-0", documents.discovery(endpoints=[{"host": "127.0.0.1", "port": 0}])
    yield "document-more-members", documents.discovery(more={"a": [1]})
    yield "record-running", documents.record()
    yield "record-starting", documents.record(phase="starting", written_at_ms=1000)
    yield "record-stopping-legacy", documents.record(phase="stopping", payload_manifest_digest="")
    yield "record-another-member", documents.record(more=1)
    yield "byte-order-mark", b"\xef\xbb\xbf{}"


def steps(seed):
    """Choices for the stateful targets: a fixed sequence that is not regular."""
    state, out = seed, bytearray()
    for _ in range(2000):
        state = (state * 1103515245 + 12345) % 2**31
        out.append(state >> 16 & 0xFF)
    return bytes(out)


def stateful():
    yield "nothing", b""
    for seed in range(1, 9):
        yield f"choices-{seed}", steps(seed)


TARGETS = {
    "header": headers, "incremental_input": incremental, "auth": auth, "control": control, "negotiate": negotiation,
    "discovery": files, "client_session": stateful, "host_session": stateful, "pair": stateful,
}


def main(mode):
    wrong = 0
    for target, make in TARGETS.items():
        folder = HERE / "seeds" / target
        seeds = {name: data.encode() if isinstance(data, str) else data for name, data in make()}
        if mode == "make":
            folder.mkdir(parents=True, exist_ok=True)
            for name, data in seeds.items():
                (folder / name).write_bytes(data)
        found = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith("found-")}
        for name in sorted(seeds.keys() | found.keys()):
            if seeds.get(name) != found.get(name):
                print(f"{target}/{name}: not what this script makes", file=sys.stderr)
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] not in (["make"], ["check"]):
        print("usage: fuzz/seeds.py make|check", file=sys.stderr)
        sys.exit(64)
    sys.exit(main(sys.argv[1]))
