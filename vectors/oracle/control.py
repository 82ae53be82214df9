"""The control channel as a host reads it (C1 to C10) and as a client writes it."""

from text import File, Fill, Step, size
from wire import closed, command, compact, eof, event, expect, expect_error, expect_json, recv, recv_head
from world import (
    CHANNEL, EPOCH, IDENTITY, IDENTITY_FIELDS, OPENED, TARGET, open_event, route_open, text_error,
)

INVALID = "invalid_control_request"
SUBC_OPS = ["route.open", "catalog.list", "host.shutdown", "transport.negotiate"]
LAB = {"module_id": "lab", "module_version": "*", "roles": ["tool_provider"], "control_ops": []}
RESERVED = {"module_id": "lab-reserved", "module_version": "*", "roles": ["management_surface"], "control_ops": []}


def catalog(*modules):
    return {"op": "catalog.list", "generation": "*", "modules": list(modules), "subc_ops": SUBC_OPS}


def still_usable(corr=3):
    """The connection goes on: a control request is answered."""
    return [
        recv("Request", 0, 0, corr, {"op": "catalog.list", "module_id": "nobody"}),
        expect_json("Response", 0, 0, corr, catalog()),
    ]


def spelled(text, old, new):
    assert text.count(old) == 1, (old, text)
    return text.replace(old, new)


def nested(levels):
    """A value with this many levels of containers around a scalar."""
    return "[" * levels + "0" + "]" * levels


def opened(corr=2):
    return [command("bind", corr=corr, channel=CHANNEL, epoch=EPOCH), expect_json("Response", 0, 0, corr, OPENED)]


def host():
    base = dict(subject="host", auth="elided", after="../setup/host-tcp.vec")

    # ---- what is refused ----
    bad = File("control/host-malformed.vec", "exchange",
               "Control bodies that get invalid_control_request, and nothing else happens", **base)

    def refused(rules, name, body, **flags):
        bad.case(rules, name, recv("Request", 0, 0, 2, body, **flags), expect_error(0, 0, 2, INVALID))

    bad.case("C3 C9", "three in a row, and the connection is still usable",
             *(step for corr in (2, 3, 4) for step in (
                 recv("Request", 0, 0, corr, "oops"), expect_error(0, 0, corr, INVALID))), *still_usable(5))
    plain = compact(route_open())
    for what, body in (
        ("an empty body", b""), ("not JSON", "oops"), ("an array", '["op"]'), ("a string", '"catalog.list"'),
        ("no op", "{}"), ("op null", '{"op":null}'), ("op a number", '{"op":1}'), ("an empty op", '{"op":""}'),
        ("cut before its end", plain[:-1]), ("a comma too many", '{"op":"catalog.list",}'),
        ("single quotes", "{'op':'catalog.list'}"), ("a comment", '{"op":"catalog.list"/**/}'),
        ("a control character in a string", b'{"op":"catalog.list\n"}'), ("NaN", '{"op":"catalog.list","x":NaN}'),
        ("a leading zero", '{"op":"catalog.list","x":01}'), ("a byte-order mark", b'\xef\xbb\xbf{"op":"catalog.list"}'),
        ("invalid UTF-8", b'{"op":"catalog.list","x":"\xff"}'),
        ("UTF-8 that is too long", b'{"op":"catalog.list","x":"\xc0\xaf"}'),
        ("a surrogate in UTF-8", b'{"op":"catalog.list","x":"\xed\xa0\x80"}'),
        ("a lone high surrogate escape", '{"op":"catalog.list","x":"\\ud800"}'),
        ("a lone low surrogate escape", '{"op":"catalog.list","x":"\\udc00"}'),
        ("a high surrogate before something else", '{"op":"catalog.list","x":"\\ud800\\u0061"}'),
    ):
        refused("C3", what, body)
    refused("C3", "the binary bit", {"op": "catalog.list"}, flags=0x03)
    for what, body in (
        ("op", '{"op":"catalog.list","op":"host.shutdown"}'),
        ("op, once spelled with an escape", '{"op":"catalog.list","\\u006fp":"host.shutdown"}'),
        ("an unknown member", '{"op":"catalog.list","x":1,"x":1}'),
        ("a member inside an unknown one", '{"op":"catalog.list","x":[{"a":1,"a":2}]}'),
        ("a member of the target", spelled(plain, '"kind"', '"kind":"x","kind"')),
        ("a member of admission_facts", plain[:-1] + ',"admission_facts":{"a":1,"a":1}}'),
    ):
        refused("C3 C7", f"repeated: {what}", body)
    for what, body in (("a letter", '{"op":"catalog.list"}x'), ("a second root", '{"op":"catalog.list"}{}'),
                       ("a NUL", b'{"op":"catalog.list"}\0')):
        refused("C7", f"behind the root: {what}", body)
    refused("C7", "depth 34 by a scalar", f'{{"op":"catalog.list","x":{nested(32)}}}')
    refused("C7", "depth 34 by an empty container", f'{{"op":"catalog.list","x":{"[" * 33}{"]" * 33}}}')
    refused("C7", "65,536 opening brackets", Fill(0x5B, 65536))
    refused("C7", "deep nesting that is never closed, inside a member that is ignored",
            ['{"op":"catalog.list","x":', Fill(0x5B, 60000)])
    for name in ("target", "identity"):
        value = route_open()
        del value[name]
        refused("C3", f"{name} absent", value)
        refused("C3", f"{name} null", {**route_open(), name: None})
        refused("C3", f"{name} an array", {**route_open(), name: []})
    for name in ("kind", "module_id"):
        for what, value in (("null", None), ("a number", 1), ("empty", ""), ("with NUL", "a\0b")):
            refused("C2 C3 V16", f"target.{name} {what}", route_open(target={**TARGET, name: value}))
    for name in ("project_root", "harness", "session"):
        short = {key: value for key, value in IDENTITY.items() if key != name}
        refused("C3", f"{name} absent", route_open(identity=short))
        for what, value in (("null", None), ("a number", 1), ("empty", ""), ("with NUL", "/a\0b")):
            refused("C2 C3 V16", f"{name} {what}", route_open(identity={**IDENTITY, name: value}))
    for root in ("workspace/project", "./x", "~", "C:\\x"):
        refused("C2 C3 V16", f"a relative root {root}", route_open(identity={**IDENTITY, "project_root": root}))
    for what, value in (
        ("without a nonce", {"module_id": "m"}), ("without a module", {"launch_nonce": "n"}), ("empty", {}),
        ("with an empty module", {"module_id": "", "launch_nonce": "n"}),
        ("with an empty nonce", {"module_id": "m", "launch_nonce": ""}), ("that is a string", "m"),
        ("with a null nonce", {"module_id": "m", "launch_nonce": None}),
        ("with NUL in it", {"module_id": "m\0", "launch_nonce": "n"}),
    ):
        refused("C2 C3", f"consumer_identity {what}", route_open(consumer_identity=value))
    for what, value in (("a string", "x"), ("of numbers", [1]), ("with an empty one", [""]), ("with NUL", ["a\0"]),
                        ("of 33", [f"c{n}" for n in range(33)])):
        refused("C2 C3", f"consumer_capabilities {what}", route_open(consumer_capabilities=value))
    refused("C3", "a filter that is a number", {"op": "catalog.list", "module_id": 1})
    refused("C2", "a filter that is empty", {"op": "catalog.list", "module_id": ""})
    refused("C8 C2", "bounds come before the table: unknown module, relative root",
            route_open(target={**TARGET, "module_id": "nobody"}, identity={**IDENTITY, "project_root": "x"}))

    # ---- the bounds: maximum and one more ----
    edge = File("control/host-bounds.vec", "exchange", "Each bound of C2, at its maximum and one byte over it", **base)

    def around(name, limit, text, place):
        """`text` has one `@`, where a string of `limit` bytes, then of `limit + 1` bytes comes."""
        before, after = text.split("@")
        prefix = "/" if place == "root" else ""
        for count in (limit, limit + 1):
            body = [before + prefix, Fill(0x61, count - len(prefix)), after]
            steps = [recv("Request", 0, 0, 2, body)]
            if count > limit:
                steps += [expect_error(0, 0, 2, INVALID), *still_usable()]
            elif place in ("root", "harness", "session"):
                value = [prefix, Fill(0x61, count - len(prefix))] if prefix else Fill(0x61, count)
                fields = [(key, value if key == place else other) for key, other in IDENTITY_FIELDS]
                steps += [open_event(fields=fields), *opened()]
            elif place == "open":
                steps += [open_event(), *opened()]
            else:
                steps += [expect_error(0, 0, 2, place), *still_usable()]
            edge.case("C2 V16", f"{name} of {count} bytes", *steps)

    around("op", 64, '{"op":"@"}', "unsupported_operation")
    around("target.kind", 64, compact(route_open(target={**TARGET, "kind": "@"})), "target_unavailable")
    around("target.module_id", 128, compact(route_open(target={**TARGET, "module_id": "@"})), "unknown_module")
    around("project_root", 4096, compact(route_open(identity={**IDENTITY, "project_root": "@"})), "root")
    around("harness", 128, compact(route_open(identity={**IDENTITY, "harness": "@"})), "harness")
    around("session", 256, compact(route_open(identity={**IDENTITY, "session": "@"})), "session")
    around("consumer_identity.module_id", 128,
           compact(route_open(consumer_identity={"module_id": "@", "launch_nonce": "n"})), "open")
    around("consumer_identity.launch_nonce", 256,
           compact(route_open(consumer_identity={"module_id": "m", "launch_nonce": "@"})), "open")
    around("a capability", 64, compact(route_open(consumer_capabilities=["@"])), "open")
    around("admission_facts in compact form", 8192 - 2, compact(route_open(admission_facts="@")), "open")
    edge.case("C2", "32 capabilities",
              recv("Request", 0, 0, 2, route_open(consumer_capabilities=[f"c{n}" for n in range(32)])), open_event(),
              *opened())
    edge.case("C2", "a bound counts UTF-8 bytes: 16 times four of them",
              recv("Request", 0, 0, 2, ['{"op":"', "\U0001f980".encode() * 16, '"}']),
              expect_error(0, 0, 2, "unsupported_operation"), *still_usable())
    edge.case("C2 V16", "a bound counts UTF-8 bytes: 63 and a letter of two",
              recv("Request", 0, 0, 2, ['{"op":"', "a" * 63, "é".encode(), '"}']),
              expect_error(0, 0, 2, INVALID), *still_usable())
    edge.case("C2", "a bound counts what an escape stands for",
              recv("Request", 0, 0, 2, '{"op":"' + "\\u0061" * 64 + '"}'),
              expect_error(0, 0, 2, "unsupported_operation"), *still_usable())
    edge.case("C2 C7", "white space does not count in admission_facts",
              recv("Request", 0, 0, 2, [compact(route_open())[:-1], ',"admission_facts":[1', Fill(0x20, 9000), "]}"]),
              open_event(), *opened())
    edge.case("C2 C7", "admission_facts of 32 levels", recv("Request", 0, 0, 2, compact(route_open())[:-1] +
              ',"admission_facts":' + "[" * 32 + "]" * 32 + "}"), open_event(), *opened())
    edge.case("C2 C7", "admission_facts of 33 levels", recv("Request", 0, 0, 2, compact(route_open())[:-1] +
              ',"admission_facts":' + "[" * 33 + "]" * 33 + "}"), expect_error(0, 0, 2, INVALID), *still_usable())
    edge.case("C7", "depth 33 by a scalar", recv("Request", 0, 0, 2,
              f'{{"op":"catalog.list","module_id":"nobody","x":{nested(31)}}}'),
              expect_json("Response", 0, 0, 2, catalog()))
    padded = '{"op":"catalog.list","module_id":"nobody"}'
    edge.case("C1", "a body of 65,536 bytes", recv("Request", 0, 0, 2, [padded, Fill(0x20, 65536 - size(padded))]),
              expect_json("Response", 0, 0, 2, catalog()), *still_usable())
    rest = Step("recv", "raw", [("bytes", [Fill(0x20, 65537)])])
    edge.case("C1 V16", "a body of 65,537 bytes is refused on its header, then drained",
              recv_head("Request", 65537, 0, 0, 2), expect_error(0, 0, 2, INVALID), rest, *still_usable())
    edge.case("C1 G3", "EOF in that drain", recv_head("Request", 65537, 0, 0, 2), expect_error(0, 0, 2, INVALID),
              Step("recv", "raw", [("bytes", [Fill(0x20, 65536)])]), eof(), closed("corruption"))

    # ---- what is taken ----
    good = File("control/host-operations.vec", "exchange", "Well-formed control requests and their answers", **base)
    good.case("C5 V40", "the whole catalog", recv("Request", 0, 0, 2, {"op": "catalog.list"}),
              expect_json("Response", 0, 0, 2, catalog(LAB, RESERVED)))
    good.case("C5 V40", "one module", recv("Request", 0, 0, 2, {"op": "catalog.list", "module_id": "lab-reserved"}),
              expect_json("Response", 0, 0, 2, catalog(RESERVED)))
    good.case("C5 V40", "an unknown module is no error",
              recv("Request", 0, 0, 2, {"op": "catalog.list", "module_id": "nobody"}),
              expect_json("Response", 0, 0, 2, catalog()))
    good.case("C7", "a filter that is null counts as absent",
              recv("Request", 0, 0, 2, {"op": "catalog.list", "module_id": None}),
              expect_json("Response", 0, 0, 2, catalog(LAB, RESERVED)))
    for op in ("nonsense", "health", "route.close", "transport.activate", "transport.commit", "Route.open"):
        good.case("C4 C5 V41", f"the operation {op} is unknown here", recv("Request", 0, 0, 2, {"op": op}),
                  expect_error(0, 0, 2, "unsupported_operation"), *still_usable())
    good.case("C3", "unknown members are ignored", recv("Request", 0, 0, 2, route_open(x={"y": [None]})), open_event(),
              *opened())
    good.case("C7", "white space behind the root", recv("Request", 0, 0, 2, compact(route_open()).encode() + b" \t\r\n"),
              open_event(), *opened())
    good.case("C7", "optional members that are null", recv("Request", 0, 0, 2, route_open(
              consumer_identity=None, consumer_capabilities=None)), open_event(), *opened())
    good.case("C3", "a pair of surrogate escapes is one character",
              recv("Request", 0, 0, 2, spelled(compact(route_open()), "session-1", "\\ud83e\\udd80")),
              open_event(fields=[*IDENTITY_FIELDS[:2], ("session", "\U0001f980".encode())]), *opened())
    good.case("C8", "the other role of a known module",
              recv("Request", 0, 0, 2, route_open(target={"kind": "management_surface", "module_id": "lab"})),
              expect_error(0, 0, 2, "target_unavailable"), *still_usable())
    good.case("C8", "a recognized role and an unknown module",
              recv("Request", 0, 0, 2, route_open(target={"kind": "tool_provider", "module_id": "nobody"})),
              expect_error(0, 0, 2, "unknown_module"), *still_usable())
    good.case("C8", "a role that nobody knows",
              recv("Request", 0, 0, 2, route_open(target={"kind": "oracle", "module_id": "lab"})),
              expect_error(0, 0, 2, "target_unavailable"), *still_usable())
    for flags in (0x00, 0x04, 0x1A):
        good.case("C5 W11", f"flags 0x{flags:02x}", recv("Request", 0, 0, 2, {"op": "catalog.list", "module_id": "x"},
                  flags=flags), expect_json("Response", 0, 0, 2, catalog()))
    order = File("control/host-order.vec", "exchange", "A bind that takes its time", **base, play="core")
    order.case("C9", "an Error ends its own correlation only",
              recv("Request", 0, 0, 2, route_open()), open_event(),
              recv("Request", 0, 0, 3, {"op": "nonsense"}), expect_error(0, 0, 3, "unsupported_operation"),
              *opened())
    return [bad, edge, good, order]


def client():
    example = {
        "op": "route.open", "target": {"kind": "tool_provider", "module_id": "magic-context"},
        "identity": IDENTITY,
    }
    assert size(compact(example)) == 173
    writes = File("control/client-writes.vec", "exchange", "Control requests as our client writes them, byte for byte",
                  subject="client", auth="elided", after="../setup/client-tcp.vec")
    named = dict(op="r", kind="tool_provider", module="magic-context")
    writes.case("C10 W11", "the contract's route.open: what is absent is left out",
                command("open_route", IDENTITY_FIELDS, **named), expect("Request", 0, 0, 2, body=example))
    writes.case("C10", "admission_facts that are null are facts",
                command("open_route", [*IDENTITY_FIELDS, ("facts", "null")], **named),
                expect_json("Request", 0, 0, 2, {**example, "admission_facts": None}))
    writes.case("C10 C5", "a catalog request without a filter", command("catalog", op="c"),
                expect("Request", 0, 0, 2, body={"op": "catalog.list"}))
    writes.case("C10 C5 V40", "a catalog request with one", command("catalog", op="c", module="lab"),
                expect("Request", 0, 0, 2, body={"op": "catalog.list", "module_id": "lab"}),
                recv("Response", 0, 0, 2, {**catalog({**LAB, "module_version": "0.1.0"}), "generation": 1}),
                event("settled", op="c", outcome="terminal", kind="response"))
    writes.case("C9", "an Error to a catalog request", command("catalog", op="c"),
                expect_json("Request", 0, 0, 2, {"op": "catalog.list"}),
                recv("Error", 0, 0, 2, text_error("server_busy", "later")),
                event("settled", op="c", outcome="terminal", kind="error", code="server_busy", message="later"))
    return [writes]


def files():
    return [*host(), *client()]
