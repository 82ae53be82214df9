"""Transport negotiation, both roles (N1 to N9, N13)."""

from text import File, Fill
from wire import advance, closed, command, compact, event, expect, expect_error, expect_json, recv, recv_head
from world import (
    BODY, ELIDED, ROUTE, TCP_OFFER, UNIX_OFFER, negotiate, route_open, selected, text_error,
)

INVALID = "invalid_control_request"


def offer(transport="x", version=1, **more):
    return {"transport": transport, "capability_version": version, **more}


def host():
    base = dict(subject="host", auth="elided", after="../setup/host-auth.vec")

    first = File("negotiation/host-first.vec", "exchange",
                 "A first request that is no negotiation: closed, without a frame or a dispatch", **base)
    for what, step in (
        ("catalog.list", recv("Request", 0, 0, 1, {"op": "catalog.list"})),
        ("host.shutdown", recv("Request", 0, 0, 1, {"op": "host.shutdown"})),
        ("route.open", recv("Request", 0, 0, 1, route_open())),
        ("an unknown operation", recv("Request", 0, 0, 1, {"op": "nonsense"})),
        ("transport.activate", recv("Request", 0, 0, 1, {"op": "transport.activate", "negotiation_version": 1,
                                                         "activation_token": "0" * 32})),
        ("a routed request", recv("Request", *ROUTE, 1, BODY)),
        ("a Cancel", recv("Cancel", *ROUTE, 1)),
        ("a Pong", recv("Pong", 0, 0, 1)),
        ("a route Goodbye", recv("Goodbye", *ROUTE, 0)),
        ("an over-size body, on its header", recv_head("Request", 65537, 0, 0, 1)),
    ):
        first.case("N1 V52 AE2", what, step, closed("setup"))
    first.case("N1 V52", "a connection Goodbye", recv("Goodbye", 0, 0, 0), closed("setup"))

    bad = File("negotiation/host-malformed.vec", "exchange",
               "Malformed negotiations: one Error, then the end", **base)

    def refused(rules, name, body, **flags):
        bad.case(rules, name, recv("Request", 0, 0, 1, body, **flags), expect_error(0, 0, 1, INVALID),
                 closed("negotiation"))

    good = compact(negotiate())
    one = '"negotiation_version":1'
    for version in ("0", "2", "-1", "1.0", "1e0", "-0", "4294967296", "18446744073709551616", '"1"', "null", "true"):
        refused("N3 N8 AE2", f"negotiation_version {version}", good.replace(one, f'"negotiation_version":{version}'))
    refused("N3 N8", "negotiation_version absent", good.replace(one + ",", ""))
    for version in ("0", "-1", "1.0", "1e0", "4294967296", '"1"', "null"):
        refused("N3 N8", f"capability_version {version}",
                good.replace('"capability_version":1', f'"capability_version":{version}'))
    for what, text in (("not JSON", "oops"), ("an array", "[]"), ("empty", b""), ("without op", "{}"),
                       ("cut before its end", good[:-1]), ("with bytes behind it", good + "x"),
                       ("with a byte-order mark", b"\xef\xbb\xbf" + good.encode()),
                       ("an op that is a number", good.replace('"transport.negotiate"', "1"))):
        refused("N1 N8", f"a body that is {what}" if what in ("not JSON", "an array", "empty") else what, text)
    refused("N1 N8 C3", "the binary bit", negotiate(), flags=0x03)
    refused("N1 N8 C7", "a catalog.list that is malformed", '{"op":"catalog.list","op":"catalog.list"}')
    for what, offers in (
        ("no offer", []), ("nine offers", [TCP_OFFER, *(offer(f"x{n}") for n in range(8))]),
        ("no tcp", [UNIX_OFFER]), ("the same pair twice", [TCP_OFFER, TCP_OFFER]),
        ("the same other pair twice", [offer(), TCP_OFFER, offer()]), ("an offer that is a string", ["tcp"]),
        ("an offer without a version", [{"transport": "tcp"}]), ("an offer without a transport", [
            {"capability_version": 1}, TCP_OFFER]),
    ):
        refused("N2 N8", what, {**negotiate(), "offers": offers})
    refused("N2 N8", "offers absent", {key: value for key, value in negotiate().items() if key != "offers"})
    refused("N2 N8", "offers null", {**negotiate(), "offers": None})
    for name in ("", "Tcp", "1tcp", "-a", "a b", "a/b", "a" * 33):
        refused("N3 N8", f"a transport called '{name}'", negotiate(offer(name), TCP_OFFER))
    for what, value in (("null", None), ("an array", []), ("a string", "x"), ("of 9 levels", deep(9))):
        refused("N3 N4 N8", f"parameters {what}", negotiate(offer(parameters=value), TCP_OFFER))
    refused("N3 N8", "parameters of 8,193 bytes", big_parameters(8193))
    refused("N4 N8", "an unknown member", negotiate(x=1))
    refused("N4 N8", "an unknown member of an offer", negotiate(offer(x=1), TCP_OFFER))
    refused("N4 N8", "a repeated member", good.replace(one, one + "," + one))
    refused("N4 N8", "a repeated member of an offer",
            good.replace('"capability_version":1', '"capability_version":1,"capability_version":1'))
    text = compact(negotiate(offer(parameters={"a": {"@": 1}}), TCP_OFFER))
    refused("N4 N8", "a repeated member inside opaque parameters", text.replace('"@":1', '"b":1,"b":1'))
    refused("N4 N8", "the same, spelled with an escape", text.replace('"@":1', '"b":1,"\\u0062":1'))

    taken = File("negotiation/host-tcp.vec", "exchange", "Negotiations that end in TCP", **base)

    def tcp(rules, name, body, corr=1, **more):
        taken.case(rules, name, recv("Request", 0, 0, corr, body), expect_json("Response", 0, 0, corr, selected(**more)),
                   recv("Request", 0, 0, corr + 1, {"op": "nonsense"}),
                   expect_error(0, 0, corr + 1, "unsupported_operation"))

    tcp("N5", "tcp alone", negotiate())
    tcp("N1 Q2", "any correlation will do", negotiate(), corr=500)
    tcp("N2", "eight offers", negotiate(*(offer(f"x{n}") for n in range(7)), TCP_OFFER))
    tcp("N2 N3", "the same transport in two versions", negotiate(offer(version=1), offer(version=2**32 - 1), TCP_OFFER))
    tcp("N7", "an unknown transport gives TCP without a reason", negotiate(offer(), TCP_OFFER))
    tcp("N7", "what stands behind tcp does not count", negotiate(TCP_OFFER, offer()))
    tcp("N7", "a tcp version that the host lacks is passed over", negotiate(offer("tcp", 2), TCP_OFFER))
    tcp("N3", "a transport name of 32 bytes", negotiate(offer("a" + "z0._-" * 6 + "q"), TCP_OFFER))
    tcp("N3", "parameters of 8,192 bytes", big_parameters(8192))
    tcp("N3", "parameters of 8 levels", negotiate(offer(parameters=deep(8)), TCP_OFFER))
    tcp("N3 N4", "white space does not count", compact(negotiate(offer(parameters={}), TCP_OFFER)).replace(
        "{}", "{" + " " * 9000 + "}"))
    tcp("N14", "unix, where the host has none", negotiate(UNIX_OFFER, TCP_OFFER))

    none = File("negotiation/host-no-tcp.vec", "exchange", "tcp only in versions that the host lacks: a silent close",
                **base)
    none.case("N7", "version 2 alone", recv("Request", 0, 0, 1, negotiate(offer("tcp", 2))), closed("setup"))

    late = File("negotiation/host-deadline.vec", "exchange", "Setup has its own deadline, from authentication",
                **base, play="core")
    late.case("N1 E1", "nothing comes", advance(1999), advance(1), closed("setup_deadline"))
    late.case("N1 N5 E1", "one millisecond before it", advance(1999), recv("Request", 0, 0, 1, negotiate()),
              expect_json("Response", 0, 0, 1, selected()), advance(60_000))

    again = File("negotiation/host-sticky.vec", "exchange", "Selection is sticky",
                 **{**base, "after": "../setup/host-tcp.vec"})
    again.case("N9 AE2", "a second negotiation ends the generation without a frame",
               recv("Request", 0, 0, 2, negotiate()), closed("setup"))

    falls = dict(subject="host", auth="elided", after="../setup/host-auth.vec", play="core")
    out = File("negotiation/host-unavailable.vec", "exchange", "An installed candidate that cannot serve now",
               config="candidate=unix/1:unavailable", **falls)
    out.case("N5 N7 V54", "TCP with the reason", recv("Request", 0, 0, 1, negotiate(UNIX_OFFER, TCP_OFFER)),
             expect_json("Response", 0, 0, 1, selected(reason="unavailable")))
    out.case("N5 N7 V54", "another version: TCP with that reason",
             recv("Request", 0, 0, 1, negotiate(offer("unix", 2), TCP_OFFER)),
             expect_json("Response", 0, 0, 1, selected(reason="capability_version_mismatch")))
    out.case("N7", "unavailable outranks the version",
             recv("Request", 0, 0, 1, negotiate(offer("unix", 2), UNIX_OFFER, TCP_OFFER)),
             expect_json("Response", 0, 0, 1, selected(reason="unavailable")))
    out.case("N14 N7", "parameters that it does not take: not eligible, no reason",
             recv("Request", 0, 0, 1, negotiate({**UNIX_OFFER, "parameters": {"x": 1}}, TCP_OFFER)),
             expect_json("Response", 0, 0, 1, selected()))
    out.case("N7", "unix behind tcp is not looked at",
             recv("Request", 0, 0, 1, negotiate(TCP_OFFER, UNIX_OFFER)),
             expect_json("Response", 0, 0, 1, selected()))
    return [first, bad, taken, none, late, again, out]


def deep(levels):
    """An object of this many levels of containers."""
    value = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def big_parameters(count):
    before, after = compact(negotiate(offer(parameters={"a": "@"}), TCP_OFFER)).split("@")
    return [before, Fill(0x61, count - len('{"a":""}')), after]


def client():
    base = dict(subject="client", auth="elided")
    asked = [ELIDED, expect_json("Request", 0, 0, 1, negotiate())]

    tcp = File("negotiation/client-tcp.vec", "exchange", "A client that offers tcp alone", **base)
    tcp.case("N1 N5", "selected", *asked, recv("Response", 0, 0, 1, selected()), event("ready", transport="tcp", reason="none"))
    tcp.case("N13 L1", "a Ping before the selection is answered", *asked, recv("Ping", 0, 0, 1), expect("Pong", 0, 0, 1),
             recv("Response", 0, 0, 1, selected()), event("ready", transport="tcp", reason="none"))

    def refused(file, rules, name, *steps):
        file.case(rules, name, *steps, closed("negotiation"))

    for code in ("unsupported_operation", "connection_in_use", "invalid_control_request", "server_busy", "whatever"):
        refused(tcp, "N8 V53", f"an Error {code}", *asked, recv("Error", 0, 0, 1, text_error(code)))
    refused(tcp, "N8 V53", "an Error that is malformed", *asked, recv("Error", 0, 0, 1, "oops"))
    answer = compact(selected())
    for what, text in (
        ("not JSON", "oops"), ("another op", answer.replace("transport.negotiate", "catalog.list")),
        ("version 2", answer.replace('"negotiation_version":1', '"negotiation_version":2')),
        ("version 1.0", answer.replace('"negotiation_version":1', '"negotiation_version":1.0')),
        ("no selection", {"op": "transport.negotiate", "negotiation_version": 1}),
        ("an unoffered transport", selected(UNIX_OFFER)), ("an unoffered version", selected(offer("tcp", 2))),
        ("an unknown member", selected(x=1)),
        ("a repeated member", answer.replace('"capability_version":1', '"capability_version":1,"capability_version":1')),
        ("bytes behind it", answer + "x"),
    ):
        refused(tcp, "N8 N4 V53", f"answered with {what}", *asked, recv("Response", 0, 0, 1, text))
    for reason in ("unavailable", "capability_version_mismatch", "weather"):
        refused(tcp, "N7 N8", f"the reason {reason}, though only tcp was offered", *asked,
                recv("Response", 0, 0, 1, selected(reason=reason)))
    refused(tcp, "N8 N4", "a reason that is null", *asked, recv("Response", 0, 0, 1, selected(reason=None)))
    refused(tcp, "N6 N8", "a token on TCP", *asked, recv("Response", 0, 0, 1, selected(activation_token="0" * 32)))
    refused(tcp, "N6 N8", "a descriptor on TCP", *asked, recv("Response", 0, 0, 1, selected(descriptor={})))

    late = File("negotiation/client-deadline.vec", "exchange", "One absolute deadline from the dial to the selection",
                **base, play="core")
    late.case("N8 E1", "no answer to the negotiation", *asked, advance(1999), advance(1), closed("setup_deadline"))

    both = File("negotiation/client-fallback.vec", "exchange", "A client that offers unix, then tcp",
                config="offers=unix,tcp", **base)
    wanted = [ELIDED, expect_json("Request", 0, 0, 1, negotiate(UNIX_OFFER, TCP_OFFER))]
    for reason in ("unavailable", "capability_version_mismatch"):
        both.case("N5 V54", f"falls back on {reason}", *wanted, recv("Response", 0, 0, 1, selected(reason=reason)),
                  event("ready", transport="tcp", reason=reason),
                  command("catalog", op="c"), expect_json("Request", 0, 0, 2, {"op": "catalog.list"}))
    both.case("N5 N7", "tcp without a reason", *wanted, recv("Response", 0, 0, 1, selected()),
              event("ready", transport="tcp", reason="none"))
    token = {"activation_token": "0123456789abcdef" * 2}
    path = {"descriptor": {"path": "/run/x"}}
    for what, answer in (
        ("a reason outside the set", selected(reason="weather")),
        ("unix without a token", selected(UNIX_OFFER, **path)),
        ("unix without a descriptor", selected(UNIX_OFFER, **token)),
        ("unix with a reason", selected(UNIX_OFFER, **token, **path, reason="unavailable")),
        ("a token of 31 digits", selected(UNIX_OFFER, activation_token="0" * 31, **path)),
        ("a token in capitals", selected(UNIX_OFFER, activation_token="A" * 32, **path)),
        ("a descriptor that is null", selected(UNIX_OFFER, **token, descriptor=None)),
        ("a descriptor of 9 levels", selected(UNIX_OFFER, **token, descriptor=deep(9))),
        ("unix in another version", selected(offer("unix", 2), **token, **path)),
    ):
        refused(both, "N3 N6 N8 V53", what, *wanted, recv("Response", 0, 0, 1, answer))
    return [tcp, late, both]


def files():
    return [*host(), *client()]
