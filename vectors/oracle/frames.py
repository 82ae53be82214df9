"""Frames on an established connection: direction, identity, shape and staleness (F1 to F9), bounds and cuts."""

from text import File, Fill
from wire import (
    MAX_BODY, advance, closed, command, compact, cut, eof, event, expect, expect_error, expect_json, raw_slice, recv,
    recv_first, recv_head, recv_malformed, rest_of,
)
from world import (
    ANSWER, BODY, CHANNEL, EPOCH, HANG, IDENTITY_FIELDS, OPENED, ROUTE, client_call, client_request, client_response,
    host_call, host_request, host_response, route_open, settled, text_error,
)

LOST = settled("a", "outcome_unknown", "connection_lost")


def host():
    base = dict(subject="host", auth="elided", after="../setup/host-route.vec")

    wrong = File("frames/host-wrong.vec", "exchange", "Frames that a client may not send: closed, without an Error", **base)
    for kind, identity, body in (
        ("Response", (*ROUTE, 3), b""), ("Response", (0, 0, 2), b"{}"), ("Push", (*ROUTE, 0), b""),
        ("StreamData", (*ROUTE, 3), b"x"), ("StreamEnd", (*ROUTE, 3), b""), ("Error", (*ROUTE, 3), text_error()),
        ("Ping", (0, 0, 1), b""), ("Hello", (0, 0, 0), b""), ("Hello", (0, 0, 3), b""), ("HelloAck", (0, 0, 3), b""),
    ):
        rules = "F1 V17" if kind == "Hello" else "F1"
        wrong.case(rules, f"{kind} from a client, {'/'.join(map(str, identity))}", recv(kind, *identity, body),
                   closed("wrong_frame"))
    for kind, identity in (
        ("Request", (*ROUTE, 0)), ("Request", (0, 0, 0)), ("Cancel", (0, 0, 3)), ("Cancel", (*ROUTE, 0)),
        ("Cancel", (0, 0, 0)), ("Pong", (*ROUTE, 1)), ("Pong", (0, 0, 0)), ("Goodbye", (0, 0, 3)),
        ("Goodbye", (*ROUTE, 3)),
    ):
        rules = "F1 F4" if kind == "Cancel" else "F1"
        wrong.case(rules, f"{kind} with identity {'/'.join(map(str, identity))}", recv(kind, *identity),
                   closed("wrong_frame"))
    wrong.case("F1 W1", "the header alone is enough", recv_head("Response", 1000, *ROUTE, 3), closed("wrong_frame"))
    wrong.case("F1 G3", "a running request gets nothing", *host_request(body=HANG), recv("Ping", 0, 0, 1),
               closed("wrong_frame"))

    stale = File("frames/host-stale.vec", "exchange", "Well-shaped but stale: nothing current is touched", **base)
    stale.case("F2", "a request on an unknown channel", recv("Request", 8, 1, 3, BODY),
               expect_error(8, 1, 3, "unknown_channel"), *host_call(4))
    stale.case("F2", "a request of another epoch", recv("Request", CHANNEL, EPOCH + 1, 3, BODY),
               expect_error(CHANNEL, EPOCH + 1, 3, "unknown_channel"), *host_call(4))
    stale.case("F2", "a Cancel for a route that never was", recv("Cancel", 8, 1, 3), *host_call())
    stale.case("F2", "a Cancel for a request that never was", recv("Cancel", *ROUTE, 9), *host_call())
    stale.case("F2 X1", "a Cancel for a request that has ended", *host_call(), recv("Cancel", *ROUTE, 3), *host_call(4))
    stale.case("F2", "a Cancel of another epoch leaves the request alone", *host_request(),
               recv("Cancel", CHANNEL, EPOCH - 1, 3), *host_response())
    stale.case("F2", "a Goodbye for a route that never was", recv("Goodbye", 8, 1, 0), *host_call())
    stale.case("F2", "a Goodbye of another epoch", recv("Goodbye", CHANNEL, EPOCH - 1, 0), *host_call())
    stale.case("F2 L2", "a Pong that nobody asked for", recv("Pong", 0, 0, 9), *host_call())

    fine = File("frames/host-requests.vec", "exchange", "Requests as a host takes and answers them", **base)
    fine.case("F9 Q5", "a response repeats the identity", *host_call())
    fine.case("F9 Q2", "correlations may leave gaps, up to the last one", *host_call(2**32), *host_call(2**53 + 1),
              *host_call(2**64 - 1))
    order = File("frames/host-order.vec", "exchange", "Answers as their handlers end", **base, play="core")
    order.case("F9", "answers in another order than the requests", *host_request(3), *host_request(4),
              *host_response(4), *host_response(3))
    fine.case("W2", "an empty request and an empty response", *host_request(body=b""), *host_response(body=b""))
    fine.case("W11", "a binary request, a binary response",
              recv("Request", *ROUTE, 3, BODY, flags=0x03),
              event("request", [("body", BODY)], channel=CHANNEL, epoch=EPOCH, corr=3, binary="yes"),
              command("respond", [("body", BODY)], channel=CHANNEL, epoch=EPOCH, corr=3, binary="yes"),
              expect("Response", *ROUTE, 3, body=BODY, flags=0x0B))
    for flags, name in ((0x00, "passive"), (0x04, "background"), (0x1A, "interactive, last, expedite")):
        fine.case("W11", f"a request that is {name}",
                  recv("Request", *ROUTE, 3, BODY, flags=flags),
                  event("request", [("body", BODY)], channel=CHANNEL, epoch=EPOCH, corr=3, binary="no"),
                  *host_response())
    fine.case("F9 C6", "an error",
              *host_request(body=b'{"do":"fail","code":"nope","message":"no"}'), command("fail", channel=CHANNEL, epoch=EPOCH, corr=3, code="nope", message="no"),
              expect_json("Error", *ROUTE, 3, {"code": "nope", "message": "no"}))
    fine.case("Q2 V44", "a correlation for the second time", *host_call(), recv("Request", *ROUTE, 3, BODY),
              closed("watermark"))
    fine.case("Q2 V44", "a correlation below the watermark", recv("Request", *ROUTE, 2, BODY), closed("watermark"))
    fine.case("Q2 V44", "a control correlation equal to a routed one", *host_call(9),
              recv("Request", 0, 0, 9, {"op": "catalog.list"}), closed("watermark"))
    fine.case("Q2 V44", "an unknown channel moves the watermark", recv("Request", 8, 1, 9, BODY),
              expect_error(8, 1, 9, "unknown_channel"), recv("Request", *ROUTE, 9, BODY), closed("watermark"))

    ends = File("frames/host-ends.vec", "exchange", "How a client's side of the bytes can end", **base)
    ends.case("W5 G1", "EOF at a frame boundary", eof(), closed("eof"))
    ends.case("G1", "a connection Goodbye", recv("Goodbye", 0, 0, 0), closed("goodbye"))
    ends.case("G1 W3", "a Goodbye of any priority", recv("Goodbye", 0, 0, 0, flags=0x04), closed("goodbye"))
    for count in (1, 4, 5, 20):
        ends.case("W2 W5 V14 AE2", f"EOF after {count} bytes of a header", recv_first(count, "Request", *ROUTE, 3, BODY),
                  eof(), closed("corruption"))
    for count in (21, 28):
        ends.case("W2 V14 AE2", f"EOF after {count} bytes of 29", recv_first(count, "Request", *ROUTE, 3, BODY), eof(),
                  closed("corruption"))
    ends.case("G3 V14", "EOF while a request runs: nothing is emitted", *host_request(body=HANG), eof(), closed("eof"))
    for error, kind, more in (
        ("unsupported_version", "Request", dict(ver=1)), ("unknown_type", 12, dict(flags=0)),
        ("reserved_flags", "Request", dict(flags=0x42)), ("invalid_priority", "Request", dict(flags=0x06)),
        ("invalid_admission", "Request", dict(flags=0x32)), ("sheddable_not_allowed", "Request", dict(flags=0x22)),
        ("pure_header_flags", "Cancel", dict(flags=0x08)), ("pure_header_length", "Cancel", dict(length=1)),
        ("body_too_large", "Request", dict(length=MAX_BODY + 1)), ("zero_epoch", "Request", dict(epoch=0)),
        ("control_epoch", "Request", dict(channel=0)),
    ):
        named = {"channel": CHANNEL, "epoch": EPOCH, "corr": 3, **more}
        scenario = {"body_too_large": " V13 W7"}.get(error, " V15" if "flags" in more else "")
        ends.case(f"W2 AE2{scenario}", f"{error}: closed on the header", recv_malformed(error, kind, **named),
                  closed("corruption"))
    decoy = recv("Pong", 0, 0, 1)
    ends.case("W2 AE2", "an unknown type is not skipped, whatever its body looks like",
              recv_malformed("unknown_type", 12, *ROUTE, 3, b"".join(value for _, value in decoy.fields), flags=0),
              recv("Request", *ROUTE, 4, BODY), closed("corruption"))

    late = File("frames/host-deadlines.vec", "exchange", "Time as a host measures it", **base, play="core")
    late.case("W6", "waiting for a frame has no limit", advance(3_600_000), *host_call())
    late.case("W6", "a frame that ends one millisecond before its deadline", recv_first(1, "Request", *ROUTE, 3, BODY),
              advance(29_999), rest_of(1, "Request", *ROUTE, 3, BODY),
              event("request", [("body", BODY)], channel=CHANNEL, epoch=EPOCH, corr=3, binary="no"), *host_response())
    for count in (1, 20, 21, 28):
        late.case("W6", f"{count} bytes of 29, and no more", recv_first(count, "Request", *ROUTE, 3, BODY),
                  advance(29_999), advance(1), closed("frame_deadline"))
    late.case("W6", "bytes that keep coming do not move the deadline", recv_first(1, "Request", *ROUTE, 3, BODY),
              advance(20_000), raw_slice(1, 25, "Request", *ROUTE, 3, BODY), advance(10_000), closed("frame_deadline"))

    cuts = File("frames/host-cuts.vec", "exchange", "A transport that fails in the middle of an answer", **base,
                play="core")
    for count in (0, 5, 21):
        cuts.case("G3", f"{count} bytes were taken", *host_request(), host_response()[0],
                  cut(count, "Response", *ROUTE, 3, body=BODY), closed("io"))

    large = File("frames/host-largest.vec", "exchange", "A body of exactly 64 MiB", **base)
    large.case("W7 W12 V12", "a request of 64 MiB is dispatched", *host_request(body=Fill(0, MAX_BODY)),
               *host_response(body=Fill(0, MAX_BODY)))
    return [wrong, stale, fine, order, ends, cuts, late, large]


def client():
    base = dict(subject="client", auth="elided", after="../setup/client-route.vec")

    wrong = File("frames/client-wrong.vec", "exchange", "Frames that a host may not send: the client closes", **base)
    for kind, identity, body in (
        ("Request", (*ROUTE, 1), b""), ("Request", (0, 0, 1), b"{}"), ("Cancel", (*ROUTE, 3), b""),
        ("Pong", (0, 0, 1), b""), ("Hello", (0, 0, 0), b""), ("HelloAck", (0, 0, 0), b""), ("HelloAck", (0, 0, 3), b""),
    ):
        rules = "F1 V42" if kind == "Request" else "F1"
        wrong.case(rules, f"{kind} from a host, {'/'.join(map(str, identity))}", recv(kind, *identity, body),
                   closed("wrong_frame"))
    for kind, identity in (
        ("Response", (*ROUTE, 0)), ("Response", (0, 0, 0)), ("Error", (*ROUTE, 0)), ("Error", (0, 0, 0)),
        ("StreamData", (0, 0, 3)), ("StreamData", (*ROUTE, 0)), ("StreamEnd", (0, 0, 3)), ("StreamEnd", (*ROUTE, 0)),
        ("Push", (*ROUTE, 3)), ("Push", (0, 0, 0)), ("Ping", (0, 0, 0)), ("Ping", (*ROUTE, 1)), ("Goodbye", (0, 0, 3)),
        ("Goodbye", (*ROUTE, 3)),
    ):
        wrong.case("F1 F4", f"{kind} with identity {'/'.join(map(str, identity))}", recv(kind, *identity),
                   closed("wrong_frame"))
    for kind in ("Response", "Error"):
        wrong.case("F4", f"a binary control {kind}", recv(kind, 0, 0, 3, b"{}", flags=0x0B), closed("wrong_frame"))
        wrong.case("F4 W1", f"a control {kind} of 65,537 bytes, on its header", recv_head(kind, 65537, 0, 0, 3),
                   closed("wrong_frame"))
    wrong.case("F3", "a StreamEnd with a body", *client_request(stream="yes"), recv("StreamEnd", *ROUTE, 3, b"x"), LOST,
               closed("wrong_frame"))
    wrong.case("F1 O2", "what was sent is unknown", *client_request(), recv("Pong", 0, 0, 1), LOST,
               closed("wrong_frame"))

    stale = File("frames/client-stale.vec", "exchange", "Well-shaped but stale: dropped, and the request still settles",
                 **base)
    for kind, identity, body in (
        ("Response", (*ROUTE, 9), ANSWER), ("Error", (*ROUTE, 9), text_error()), ("StreamData", (*ROUTE, 9), b"x"),
        ("StreamEnd", (*ROUTE, 9), b""), ("Push", (*ROUTE, 0), b"x"), ("Goodbye", (8, 1, 0), b""),
        ("Goodbye", (CHANNEL, EPOCH - 1, 0), b""),
    ):
        stale.case("F2", f"{kind} {'/'.join(map(str, identity))}", *client_request(), recv(kind, *identity, body),
                   *client_response())
    for identity in ((8, EPOCH, 3), (CHANNEL, EPOCH + 1, 3)):
        stale.case("F9 Q4", f"the right correlation on {identity[0]}/{identity[1]} matches nothing", *client_request(),
                   recv("Response", *identity, ANSWER), *client_response())
    stale.case("F5 V19", "a second terminal", *client_call(), recv("Response", *ROUTE, 3, ANSWER),
               recv("Error", *ROUTE, 3, text_error()), *client_call(4, "b"))
    stale.case("F2", "a control Response that nobody waits for", recv("Response", 0, 0, 9, {"op": "catalog.list"}),
               *client_call())

    calls = File("frames/client-requests.vec", "exchange", "Requests as a client sends and settles them", **base)
    calls.case("F9 Q1", "two requests, answered in the other order", *client_request(3, "a"), *client_request(4, "b"),
               *client_response(4, "b"), *client_response(3, "a"))
    calls.case("W11", "flags of a binary request",
               command("request", [("body", BODY)], op="a", channel=CHANNEL, epoch=EPOCH, binary="yes"),
               expect("Request", *ROUTE, 3, body=BODY, flags=0x03),
               recv("Response", *ROUTE, 3, ANSWER, flags=0x0B),
               event("settled", [("body", ANSWER)], op="a", outcome="terminal", kind="response", binary="yes"))
    for flags in (0x00, 0x02, 0x04, 0x10):
        calls.case("W11", f"a response with flags 0x{flags:02x}", *client_request(),
                   recv("Response", *ROUTE, 3, ANSWER, flags=flags), client_response()[1])
    calls.case("W2", "empty both ways", *client_request(body=b""), *client_response(body=b""))
    calls.case("L1 V35 W11", "a Pong repeats its Ping's flags and identity",
               recv("Ping", 0, 0, 1, flags=0x00), expect("Pong", 0, 0, 1, flags=0x00),
               recv("Ping", 0, 0, 2, flags=0x02), expect("Pong", 0, 0, 2, flags=0x02),
               recv("Ping", 0, 0, 2**64 - 1, flags=0x04), expect("Pong", 0, 0, 2**64 - 1, flags=0x04))
    calls.case("Q3 V43", "a Ping's correlation may be a pending request's", *client_request(), recv("Ping", 0, 0, 3),
               expect("Pong", 0, 0, 3), *client_response())
    calls.case("F6", "a unary call gets an item", *client_request(), recv("StreamData", *ROUTE, 3, b"x"),
               settled("a", "outcome_unknown", "unexpected_stream"), expect("Cancel", *ROUTE, 3), *client_call(4, "b"))
    calls.case("F6", "a unary call gets an end", *client_request(), recv("StreamEnd", *ROUTE, 3),
               settled("a", "terminal", "unexpected_stream"), *client_call(4, "b"))
    calls.case("F6", "a stream gets a Response", *client_request(stream="yes"), recv("Response", *ROUTE, 3, ANSWER),
               settled("a", "terminal", "unexpected_response"), *client_call(4, "b"))
    calls.case("Q5", "a stream of two items, one of them empty", *client_request(stream="yes"),
               recv("StreamData", *ROUTE, 3, b"one"), event("item", [("body", b"one")], op="a", binary="no"),
               recv("StreamData", *ROUTE, 3, b""), event("item", op="a", binary="no"),
               recv("StreamEnd", *ROUTE, 3), event("settled", op="a", outcome="terminal", kind="stream_end"))

    errors = File("frames/client-errors.vec", "exchange", "Error bodies as a client reads them", **base)

    def error(rules, name, body, *end):
        errors.case(rules, name, *client_request(), recv("Error", *ROUTE, 3, body), *end)

    error("C6", "a plain one", text_error(), settled("a", "terminal", "nope", message="no"))
    error("C6", "with advice", text_error(retry_after_ms=50),
          settled("a", "terminal", "nope", message="no", retry_after_ms=50))
    error("C6", "with unknown members", text_error(extra=[{"a": 1}]), settled("a", "terminal", "nope", message="no"))
    error("C6", "a code of 128 bytes", text_error("a" * 128), settled("a", "terminal", "a" * 128, message="no"))
    error("C6", "every kind of character", text_error("aZ09_.-"), settled("a", "terminal", "aZ09_.-", message="no"))
    for what, hint in (("-1", "-1"), ("1.5", "1.5"), ("2^64", "18446744073709551616"), ("a string", '"50"')):
        error("C6", f"a hint of {what} is no hint", text_error()[:-1] + f',"retry_after_ms":{hint}}}',
              settled("a", "terminal", "nope", message="no", retry_after_ms="none"))
    error("C6", "a message over 4,096 bytes is cut",
          ['{"code":"nope","message":"', Fill(0x61, 5000), '"}'],
          event("settled", [("message", Fill(0x61, 4096))], op="a", outcome="terminal", kind="error", code="nope"))
    malformed = settled("a", "terminal", "malformed_error")
    for what, body in (
        ("not JSON", "oops"), ("empty", b""), ("an array", '["nope"]'), ("without a code", '{"message":"no"}'),
        ("with an empty code", text_error("")), ("with a code of 129 bytes", text_error("a" * 129)),
        ("with a blank in its code", text_error("no pe")), ("with a code that is a number", text_error(1)),
        ("with a repeated code", '{"code":"nope","code":"nope","message":"no"}'),
        ("with invalid UTF-8", [b'{"code":"nope","message":"', b"\xff", b'"}']),
        ("with bytes behind it", text_error() + "x"),
    ):
        error("F7 C6", what, body, malformed, *client_call(4, "b"))

    opens = File("frames/client-control.vec", "exchange", "Control answers as a client reads them", **base)
    again = [
        command("open_route", IDENTITY_FIELDS, op="s", kind="tool_provider", module="lab"),
        expect_json("Request", 0, 0, 3, route_open()),
    ]
    for what, body in (
        ("not JSON", "oops"), ("another op", {**OPENED, "op": "catalog.list", "route_channel": 9}),
        ("channel 0", {**OPENED, "route_channel": 0}), ("channel 65,536", {**OPENED, "route_channel": 65536}),
        ("epoch 0", {**OPENED, "route_channel": 9, "route_epoch": 0}),
        ("epoch 2^32", {**OPENED, "route_channel": 9, "route_epoch": 2**32}),
        ("no epoch", {"op": "route.open", "route_channel": 9}), ("a channel that is live", OPENED),
        ("a live channel at another epoch", {**OPENED, "route_epoch": 78}),
        ("a repeated member", compact({**OPENED, "route_channel": 9})[:-1] + ',"route_epoch":77}'),
        ("a fraction", '{"op":"route.open","route_channel":9.0,"route_epoch":77}'),
    ):
        opens.case("F8", f"route.open answered by {what}", *again, recv("Response", 0, 0, 3, body),
                   settled("s", "outcome_unknown", "connection_lost"), closed("wrong_frame"))
    opens.case("F8", "unknown members do no harm", *again,
               recv("Response", 0, 0, 3, {**OPENED, "route_channel": 9, "extra": 1}),
               event("route_opened", op="s", channel=9, epoch=77))
    opens.case("C9", "an Error ends its own correlation only", *client_request(3, "a"),
               command("open_route", IDENTITY_FIELDS, op="s", kind="tool_provider", module="lab"),
               expect_json("Request", 0, 0, 4, route_open()), recv("Error", 0, 0, 4, text_error("unknown_module")),
               settled("s", "terminal", "unknown_module", message="no"), *client_response(3, "a"))
    listing = [command("catalog", op="c"), expect_json("Request", 0, 0, 3, {"op": "catalog.list"})]
    for what, body in (
        ("not JSON", "oops"), ("another op", {"op": "host.shutdown"}), ("no modules", {"op": "catalog.list"}),
    ):
        opens.case("F8", f"catalog.list answered by {what}", *listing, recv("Response", 0, 0, 3, body),
                   settled("c", "terminal", "malformed_response"), *client_call(4))

    ends = File("frames/client-ends.vec", "exchange", "How a host's side of the bytes can end", **base)
    ends.case("W5 G1", "EOF at a frame boundary", *client_request(), eof(), LOST, closed("eof"))
    ends.case("G1", "a connection Goodbye", *client_request(), recv("Goodbye", 0, 0, 0), LOST, closed("goodbye"))
    for count in (1, 5, 20, 21, 28):
        ends.case("W2 V14 G2 O2", f"EOF after {count} bytes of 29", *client_request(),
                  recv_first(count, "Response", *ROUTE, 3, ANSWER), eof(), LOST, closed("corruption"))
    ends.case("O3 V14", "a terminal that came before stays", *client_call(), recv_first(5, "Push", *ROUTE, 0), eof(),
              closed("corruption"))
    for error, kind, more in (
        ("unsupported_version", "Response", dict(ver=1)), ("unknown_type", 12, dict(flags=0)),
        ("reserved_flags", "Response", dict(flags=0x8A)), ("invalid_priority", "Response", dict(flags=0x0E)),
        ("invalid_admission", "Response", dict(flags=0x3A)), ("sheddable_not_allowed", "Error", dict(flags=0x2A)),
        ("pure_header_length", "Ping", dict(length=1, channel=0, epoch=0)),
        ("body_too_large", "Response", dict(length=MAX_BODY + 1)), ("zero_epoch", "Response", dict(epoch=0)),
        ("control_epoch", "Response", dict(channel=0)),
    ):
        named = {"channel": CHANNEL, "epoch": EPOCH, "corr": 3, **more}
        scenario = {"body_too_large": " V13 W7"}.get(error, " V15" if "flags" in more else "")
        ends.case(f"W2 AE2{scenario}", f"{error}: closed on the header", *client_request(),
                  recv_malformed(error, kind, **named), LOST, closed("corruption"))

    cuts = File("frames/client-cuts.vec", "exchange", "A transport that fails in the middle of a request", **base,
                play="core")
    asks = [command("request", [("body", BODY)], op="a", channel=CHANNEL, epoch=EPOCH)]
    also = command("request", [("body", BODY)], op="b", channel=CHANNEL, epoch=EPOCH)
    request = ("Request", CHANNEL, EPOCH)
    unsent = settled("a", "not_sent", "connection_retired")
    cuts.case("O1 V37", "no byte was taken", *asks, cut(0, *request, 3, body=BODY), eof(), unsent, closed("io"))
    for count in (1, 20, 21, 28):
        cuts.case("O2 G2 V14", f"{count} bytes of 29 were taken", *asks, cut(count, *request, 3, body=BODY), eof(), LOST,
                  closed("io"))
    cuts.case("O1 O2 G2", "one was taken wholly, the next not at all", *client_request(), also,
              cut(0, *request, 4, body=BODY), eof(), LOST, settled("b", "not_sent", "connection_retired"), closed("io"))
    cuts.case("G4 O3", "a terminal that arrives after the failed write is a terminal", *client_request(), also,
              cut(5, *request, 4, body=BODY), *client_response(), eof(),
              settled("b", "outcome_unknown", "connection_lost"), closed("io"))

    late = File("frames/client-deadlines.vec", "exchange", "Time as a client measures it", **base, play="core")
    late.case("W6", "waiting for a frame has no limit", advance(3_600_000), *client_call())
    for count in (1, 20, 21, 28):
        late.case("W6 E2", f"{count} bytes of 29, and no more: no request's own deadline is in the way",
                  recv_first(count, "Response", *ROUTE, 9, ANSWER), advance(29_999), advance(1),
                  closed("frame_deadline"))
    late.case("E1 E2 E3 X3", "a request's deadline settles that request alone", *client_request(), advance(29_999), advance(1),
              settled("a", "outcome_unknown", "deadline_expired"), expect("Cancel", *ROUTE, 3), *client_call(4, "b"))
    late.case("F2 F5", "its late answer is dropped", *client_request(), advance(30_000),
              settled("a", "outcome_unknown", "deadline_expired"), expect("Cancel", *ROUTE, 3),
              recv("Response", *ROUTE, 3, ANSWER), *client_call(4, "b"))

    large = File("frames/client-largest.vec", "exchange", "A body of exactly 64 MiB", **base)
    large.case("W7 W12 V12", "a response of 64 MiB is delivered", *client_request(),
               *client_response(body=Fill(0, MAX_BODY)))
    return [wrong, stale, calls, errors, opens, ends, cuts, late, large]


def files():
    return [*host(), *client()]
