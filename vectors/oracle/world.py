"""What both sides agree on in every vector, and the states that exchanges begin in. ../README.md says the same in words."""

from text import Step
from wire import challenge, client_auth, command, compact, event, expect, expect_json, expect_message, hello, recv
from wire import recv_message

TCP_OFFER = {"transport": "tcp", "capability_version": 1}
UNIX_OFFER = {"transport": "unix", "capability_version": 1}
CHANNEL, EPOCH = 7, 77
ROUTE = (CHANNEL, EPOCH)
IDENTITY = {"project_root": "/workspace/project", "harness": "opencode", "session": "session-1"}
TARGET = {"kind": "tool_provider", "module_id": "lab"}
OPENED = {"op": "route.open", "route_channel": CHANNEL, "route_epoch": EPOCH}
IDENTITY_FIELDS = [("root", "/workspace/project"), ("harness", "opencode"), ("session", "session-1")]


def negotiate(*offers, version=1, **more):
    return {"op": "transport.negotiate", "negotiation_version": version, "offers": list(offers) or [TCP_OFFER], **more}


def selected(choice=None, **more):
    return {"op": "transport.negotiate", "negotiation_version": 1, "selected": choice or TCP_OFFER, **more}


def route_open(target=None, identity=None, **more):
    return {"op": "route.open", "target": target or TARGET, "identity": identity or IDENTITY, **more}


def open_event(corr=2, fields=None, **named):
    return event("route_open", fields or IDENTITY_FIELDS, corr=corr, kind="tool_provider", module="lab", **named)


# The steps of a whole handshake: left to the player, and spelled out.

ELIDED = Step("auth", "elided")

HOST_AUTH = [
    recv_message("hello", hello()),
    expect_message("challenge", challenge()),
    recv_message("client_auth", client_auth()),
]
CLIENT_AUTH = [
    expect_message("hello", hello()),
    recv_message("challenge", challenge()),
    expect_message("client_auth", client_auth()),
]

# From authentication to the use of one route.

HOST_TCP = [
    recv("Request", 0, 0, 1, negotiate()),
    expect_json("Response", 0, 0, 1, selected()),
]
CLIENT_TCP = [
    expect_json("Request", 0, 0, 1, negotiate()),
    recv("Response", 0, 0, 1, selected()),
    event("ready", transport="tcp", reason="none"),
]
HOST_ROUTE = [
    recv("Request", 0, 0, 2, route_open()),
    open_event(),
    command("bind", corr=2, channel=CHANNEL, epoch=EPOCH),
    expect_json("Response", 0, 0, 2, OPENED),
]
CLIENT_ROUTE = [
    command("open_route", IDENTITY_FIELDS, op="r", kind="tool_provider", module="lab"),
    expect_json("Request", 0, 0, 2, route_open()),
    recv("Response", 0, 0, 2, OPENED),
    event("route_opened", op="r", channel=CHANNEL, epoch=EPOCH),
]

# One request. `lab` gives a body that is no JSON back as it is, so that a real host can play these.

BODY = b"\x00\x01hello\xff"
HANG = b'{"do":"hang"}'
ANSWER = b"\xff\xfeanswer"


def host_request(corr=3, body=BODY, route=ROUTE):
    """A request arrives and is dispatched."""
    return [
        recv("Request", *route, corr, body),
        event("request", [("body", body)], channel=route[0], epoch=route[1], corr=corr, binary="no"),
    ]


def host_response(corr=3, body=BODY, route=ROUTE):
    return [
        command("respond", [("body", body)], channel=route[0], epoch=route[1], corr=corr),
        expect("Response", *route, corr, body=body),
    ]


def host_call(corr=3):
    return host_request(corr) + host_response(corr)


def client_request(corr=3, op="a", body=BODY, **named):
    return [
        command("request", [("body", body)], op=op, channel=CHANNEL, epoch=EPOCH, **named),
        expect("Request", *ROUTE, corr, body=body),
    ]


def client_response(corr=3, op="a", body=ANSWER):
    return [
        recv("Response", *ROUTE, corr, body),
        event("settled", [("body", body)], op=op, outcome="terminal", kind="response", binary="no"),
    ]


def client_call(corr=3, op="a"):
    return client_request(corr, op) + client_response(corr, op)


def settled(op, outcome, code, **more):
    """The end of an operation by an error or without a terminal."""
    return event("settled", op=op, outcome=outcome, **({"kind": "error"} if outcome == "terminal" else {}), code=code,
                 **more)


def text_error(code="nope", message="no", **more):
    return compact({"code": code, "message": message, **more})
