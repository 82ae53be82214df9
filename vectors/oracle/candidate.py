"""A granted candidate: its own socket, activation, commit, and the bootstrap's end (N6, N10, N11)."""

from text import File, Step
from wire import advance, closed, command, compact, eof, event, expect_json, recv
from world import (
    ELIDED, IDENTITY_FIELDS, OPENED, ROUTE, TCP_OFFER, UNIX_OFFER, BODY, negotiate, open_event, route_open, selected,
)

TOKEN = bytes(range(0xA0, 0xB0))
DESCRIPTOR = {"path": "/run/hostwire/candidate"}
ACTIVATE = {"op": "transport.activate", "negotiation_version": 1, "activation_token": TOKEN.hex()}
COMMIT = {"op": "transport.commit", "negotiation_version": 1}
ACTIVATED = {"op": "transport.activate", "negotiation_version": 1}


def socket(number):
    return Step("socket", str(number))


def granted(**change):
    return {**selected(UNIX_OFFER, activation_token=TOKEN.hex(), descriptor=DESCRIPTOR), **change}


HOST_GRANT = [
    ELIDED,
    recv("Request", 0, 0, 1, negotiate(UNIX_OFFER, TCP_OFFER)),
    event("candidate_wanted", transport="unix", version=1),
    command("grant", [("token", TOKEN), ("descriptor", compact(DESCRIPTOR))]),
    expect_json("Response", 0, 0, 1, granted()),
]
CLIENT_GRANT = [
    ELIDED,
    expect_json("Request", 0, 0, 1, negotiate(UNIX_OFFER, TCP_OFFER)),
    recv("Response", 0, 0, 1, granted()),
    event("granted", [("descriptor", compact(DESCRIPTOR))], transport="unix", version=1),
]
HOST_ACTIVE = [
    socket(2),
    recv("Request", 0, 0, 1, ACTIVATE),
    expect_json("Response", 0, 0, 1, ACTIVATED),
    recv("Request", 0, 0, 2, COMMIT),
    expect_json("Response", 0, 0, 2, COMMIT),
]
CLIENT_ACTIVATES = [socket(2), expect_json("Request", 0, 0, 1, ACTIVATE)]
CLIENT_COMMITS = [
    *CLIENT_ACTIVATES,
    recv("Response", 0, 0, 1, ACTIVATED),
    expect_json("Request", 0, 0, 2, COMMIT),
]


def host():
    base = dict(subject="host", auth="elided", play="core", config="candidate=unix/1:available")

    good = File("candidate/host.vec", "exchange", "A host grants a candidate, and goes on there", **base)
    good.case("N6 N10 N11", "activate, commit, use; the bootstrap's end touches nothing", *HOST_GRANT, *HOST_ACTIVE,
              socket(1), command("supersede"), closed("superseded"), socket(2),
              recv("Request", 0, 0, 3, route_open()), open_event(3), command("bind", corr=3, channel=7, epoch=77),
              expect_json("Response", 0, 0, 3, OPENED))
    good.case("N6 N11", "the client ends the bootstrap itself", *HOST_GRANT, *HOST_ACTIVE, socket(1), eof(),
              closed("eof"), socket(2), recv("Request", 0, 0, 3, {"op": "catalog.list", "module_id": "nobody"}),
              expect_json("Response", 0, 0, 3, {
                  "op": "catalog.list", "generation": "*", "modules": [], "subc_ops": "*"}))
    good.case("N5 N7 V54", "it turns out that it cannot serve: TCP with that reason", *HOST_GRANT[:3],
              command("decline"), expect_json("Response", 0, 0, 1, selected(reason="unavailable")))

    bad = File("candidate/host-refuses.vec", "exchange", "Candidates that a host closes, without a frame", **base)
    first = [*HOST_GRANT, socket(2)]
    for what, body in (
        ("another token", {**ACTIVATE, "activation_token": bytes(16).hex()}),
        ("a token in capitals", {**ACTIVATE, "activation_token": TOKEN.hex().upper()}),
        ("a token of 31 digits", {**ACTIVATE, "activation_token": TOKEN.hex()[:31]}),
        ("no token", COMMIT | {"op": "transport.activate"}), ("version 2", {**ACTIVATE, "negotiation_version": 2}),
        ("an unknown member", {**ACTIVATE, "x": 1}), ("a commit in its place", COMMIT),
        ("a negotiation in its place", negotiate()), ("an early route.open", route_open()), ("no JSON", "oops"),
    ):
        bad.case("N10 N11", what, *first, recv("Request", 0, 0, 1, body), closed("candidate"))
    bad.case("N10 N11", "another correlation", *first, recv("Request", 0, 0, 2, ACTIVATE), closed("candidate"))
    bad.case("N11", "an early application frame", *first, recv("Request", *ROUTE, 1, BODY), closed("setup"))
    second = [*first, recv("Request", 0, 0, 1, ACTIVATE), expect_json("Response", 0, 0, 1, ACTIVATED)]
    bad.case("N11", "the token for the second time", *second, recv("Request", 0, 0, 2, ACTIVATE), closed("candidate"))
    bad.case("N10 N11", "a commit of another correlation", *second, recv("Request", 0, 0, 3, COMMIT),
             closed("candidate"))
    bad.case("N11", "an application request before the commit", *second, recv("Request", 0, 0, 2, route_open()),
             closed("candidate"))
    bad.case("N11 E1", "one setup deadline for all of it", *HOST_GRANT, advance(1500), socket(2),
             recv("Request", 0, 0, 1, ACTIVATE), expect_json("Response", 0, 0, 1, ACTIVATED), advance(500),
             closed("setup_deadline"), socket(1), closed("setup_deadline"))
    return [good, bad]


def client():
    base = dict(subject="client", auth="elided", play="core", config="offers=unix,tcp")

    good = File("candidate/client.vec", "exchange", "A client goes over to a granted candidate", **base)
    good.case("N6 N10 N11", "activate, commit, use", *CLIENT_GRANT, *CLIENT_COMMITS, recv("Response", 0, 0, 2, COMMIT),
              event("ready", transport="candidate", reason="none"),
              command("open_route", IDENTITY_FIELDS, op="r", kind="tool_provider", module="lab"),
              expect_json("Request", 0, 0, 3, route_open()), recv("Response", 0, 0, 3, OPENED),
              event("route_opened", op="r", channel=7, epoch=77))

    bad = File("candidate/client-refuses.vec", "exchange", "Answers after which a client leaves a candidate", **base)
    for what, body in (
        ("another op", COMMIT), ("version 2", {**ACTIVATED, "negotiation_version": 2}), ("no JSON", "oops"),
        ("a member more", {**ACTIVATED, "activation_token": TOKEN.hex()}),
    ):
        bad.case("N10 N11", f"an activation answered by {what}", *CLIENT_GRANT, *CLIENT_ACTIVATES,
                 recv("Response", 0, 0, 1, body), closed("candidate"))
    for what, body in (("another op", ACTIVATED), ("a member more", {**COMMIT, "x": 1}), ("no JSON", "oops")):
        bad.case("N10 N11", f"a commit answered by {what}", *CLIENT_GRANT, *CLIENT_COMMITS,
                 recv("Response", 0, 0, 2, body), closed("candidate"))
    bad.case("N11 E1", "no answer in time", *CLIENT_GRANT, advance(1000), *CLIENT_ACTIVATES, advance(1000),
             closed("setup_deadline"), socket(1), closed("setup_deadline"))
    return [good, bad]


def files():
    return [*host(), *client()]
