"""Streams, cancellation, the ends of routes, and host.shutdown, as far as one connection shows them (Q5, X1, R2, R5, R6, H1)."""

from text import File
from wire import command, event, expect, expect_error, expect_json, recv
from world import (
    ANSWER, BODY, CHANNEL, EPOCH, HANG, ROUTE, client_call, client_request, host_call, host_request, host_response,
    open_event, route_open, settled,
)

SHUTDOWN = {"op": "host.shutdown"}
CANCELLED = expect_error(*ROUTE, 3, "cancelled")


def stop(why, corr=3):
    return event("stop", corr=corr, why=why)


def item(body, corr=3, flags=0x02, **named):
    return [
        command("item", [("body", body)], corr=corr, **named),
        expect("StreamData", *ROUTE, corr, body=body, flags=flags),
    ]


def host():
    base = dict(subject="host", auth="elided", after="../setup/host-route.vec", play="core")
    ended = event("route_closed", channel=CHANNEL, epoch=EPOCH)
    gone = command("gone", channel=CHANNEL, epoch=EPOCH)

    streams = File("requests/host-streams.vec", "exchange", "Streams as a host sends them", **base)
    end = [command("end", corr=3), expect("StreamEnd", *ROUTE, 3)]
    streams.case("Q5 V38 W11 F9", "items in order, then one end", *host_request(), *item(b"one"), *item(b""),
                 *item(b"three"), *end)
    streams.case("Q5", "no item at all", *host_request(), *end, *host_call(4))
    streams.case("W11", "binary items", *host_request(), *item(ANSWER, flags=0x03, binary="yes"), *end)
    streams.case("Q5 F9", "an item, then an error", *host_request(), *item(b"one"),
                 command("fail", corr=3, code="nope", message="no"),
                 expect_json("Error", *ROUTE, 3, {"code": "nope", "message": "no"}))
    streams.case("Q5", "an item, then a Response: internal_error instead", *host_request(), *item(b"one"),
                 command("respond", [("body", BODY)], corr=3), expect_error(*ROUTE, 3, "internal_error"), *host_call(4))
    for code in ("unknown_channel", "server_busy", "no pe", "a" * 129):
        streams.case("B11", f"a handler cannot say {code if len(code) < 20 else 'a code of 129 bytes'}", *host_request(),
                     command("fail", corr=3, code=code, message="no"), expect_error(*ROUTE, 3, "internal_error"))

    cancels = File("requests/host-cancel.vec", "exchange", "Cancellation as a host honours it", **base)
    cancelled = [recv("Cancel", *ROUTE, 3), stop("cancelled")]
    cancels.case("X1 V33", "cancel wins: one terminal, when the handler has stopped", *host_request(), *cancelled,
                 command("stopped", corr=3), CANCELLED, *host_call(4))
    cancels.case("X1 V33", "whatever the handler still answers", *host_request(), *cancelled,
                 command("respond", [("body", BODY)], corr=3), CANCELLED, *host_call(4))
    cancels.case("X1 F2", "a second Cancel changes nothing", *host_request(), *cancelled, recv("Cancel", *ROUTE, 3),
                 command("stopped", corr=3), CANCELLED, recv("Cancel", *ROUTE, 3), *host_call(4))
    cancels.case("X1 V34", "completion wins", *host_call(), recv("Cancel", *ROUTE, 3), *host_call(4))
    cancels.case("X1 Q5", "in the middle of a stream", *host_request(), *item(b"one"), *cancelled,
                 command("stopped", corr=3), CANCELLED)
    cancels.case("X1 C9", "the other request goes on", *host_request(), *host_request(4), *cancelled,
                 command("stopped", corr=3), CANCELLED, *host_response(4))

    routes = File("requests/host-routes.vec", "exchange", "The ends of routes, and their channels' next lives", **base)
    goodbye = recv("Goodbye", *ROUTE, 0)
    unknown = [recv("Request", *ROUTE, 3, BODY), expect_error(*ROUTE, 3, "unknown_channel")]
    routes.case("R6 F2", "an idle route is gone once", goodbye, ended, gone, goodbye, *unknown)
    routes.case("R6", "no dispatch after a Goodbye, before the route is gone", goodbye, ended, *unknown, gone)
    routes.case("R6", "a running handler is told, and its real terminal counts", *host_request(), goodbye,
                stop("route_closed"), ended, *host_response(), gone)
    routes.case("R6", "a running handler is told, and stops", *host_request(), goodbye, stop("route_closed"), ended,
                command("stopped", corr=3), CANCELLED, gone)
    second = (CHANNEL, EPOCH + 1)
    reused = [
        goodbye, ended, gone, recv("Request", 0, 0, 3, route_open()), open_event(3),
        command("bind", corr=3, channel=CHANNEL, epoch=EPOCH + 1),
        expect_json("Response", 0, 0, 3, {"op": "route.open", "route_channel": CHANNEL, "route_epoch": EPOCH + 1}),
    ]
    routes.case("R3 R5 V20 V31", "a request of the old epoch finds nothing, the new binding sees nothing", *reused,
                recv("Request", *ROUTE, 4, BODY), expect_error(*ROUTE, 4, "unknown_channel"),
                *host_request(5, route=second), *host_response(5, route=second))
    routes.case("R3 R5 V32", "a Cancel and a Goodbye of the old epoch are ignored", *reused,
                *host_request(4, HANG, second), recv("Cancel", *ROUTE, 4), goodbye,
                *host_response(4, route=second))
    more = {**base, "after": "../setup/host-tcp.vec"}
    binds = File("requests/host-binds.vec", "exchange", "Binds that are refused", **more)
    for code, told in (("nope", "nope"), ("", "bind_rejected"), ("no pe", "internal_error")):
        binds.case("R2 V36", f"the code '{code}'", recv("Request", 0, 0, 2, route_open()), open_event(),
                   command("reject", corr=2, code=code, message="no"), expect_error(0, 0, 2, told),
                   recv("Request", 0, 0, 3, route_open()), open_event(3),
                   command("bind", corr=3, channel=CHANNEL, epoch=EPOCH + 1),
                   expect_json("Response", 0, 0, 3, {
                       "op": "route.open", "route_channel": CHANNEL, "route_epoch": EPOCH + 1}))

    ends = File("requests/host-shutdown.vec", "exchange", "host.shutdown commits when its response is out", **more)
    ends.case("C5 H1 V45", "the whole response first", recv("Request", 0, 0, 2, SHUTDOWN),
              expect_json("Response", 0, 0, 2, SHUTDOWN), event("shutdown_committed"))
    ends.case("C3 C5", "unknown members are ignored", recv("Request", 0, 0, 2, {**SHUTDOWN, "x": 1}),
              expect_json("Response", 0, 0, 2, SHUTDOWN), event("shutdown_committed"))
    return [streams, cancels, routes, binds, ends]


def client():
    base = dict(subject="client", auth="elided", after="../setup/client-route.vec")
    file = File("requests/client-ends.vec", "exchange", "Ends of routes, and host.shutdown, as a client asks for them", **base)
    asked = [command("host_shutdown", op="h"), expect("Request", 0, 0, 3, body=SHUTDOWN)]
    file.case("C5 C10", "host.shutdown", *asked, recv("Response", 0, 0, 3, SHUTDOWN),
              event("settled", op="h", outcome="terminal", kind="response"))
    file.case("F8", "host.shutdown answered by something else", *asked, recv("Response", 0, 0, 3, {"op": "catalog.list"}),
              settled("h", "terminal", "malformed_response"), *client_call(4))
    closes = [command("close_route", channel=CHANNEL, epoch=EPOCH)]
    file.case("R6 R9", "a route is closed by one Goodbye, which says it all", *client_request(), *closes,
              settled("a", "outcome_unknown", "route_closed"), expect("Goodbye", *ROUTE, 0))
    file.case("R6", "closing it again says nothing", *closes, expect("Goodbye", *ROUTE, 0), *closes)
    file.case("F2 R9", "a late answer on it is dropped", *client_request(), *closes,
              settled("a", "outcome_unknown", "route_closed"), expect("Goodbye", *ROUTE, 0),
              recv("Response", *ROUTE, 3, ANSWER), recv("Ping", 0, 0, 1), expect("Pong", 0, 0, 1))
    return [file]


def files():
    return [*host(), *client()]
