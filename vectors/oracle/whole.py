"""The states that other exchanges begin in, and whole calls from the first byte to the last (AE1)."""

from text import File
from wire import closed, command, eof, expect
from world import (
    CLIENT_AUTH, CLIENT_ROUTE, CLIENT_TCP, ELIDED, HOST_AUTH, HOST_ROUTE, HOST_TCP, client_call, host_call,
)

def files():
    out = []
    for subject, tcp, route in (("client", CLIENT_TCP, CLIENT_ROUTE), ("host", HOST_TCP, HOST_ROUTE)):
        for name, about, rules, steps in (
            ("auth", "Authenticated, nothing negotiated", "A9", []),
            ("tcp", "Authenticated, TCP selected", "N5", tcp),
            ("route", "Authenticated, TCP selected, one route open", "R1", [*tcp, *route]),
        ):
            if (subject, name) == ("client", "auth"):
                continue  # A client goes on by itself.
            file = File(f"setup/{subject}-{name}.vec", "exchange", about, subject=subject, auth="elided")
            file.case(rules, about[0].lower() + about[1:], ELIDED, *steps)
            out.append(file)

    host = File("whole/host.vec", "exchange", "A host serves one call, from the first byte to the last", subject="host",
                auth="full", play="core")
    host.case("AE1 A9 A10 N5 R1 F9 W5", "authenticate, negotiate, open, call, EOF", *HOST_AUTH, *HOST_TCP, *HOST_ROUTE,
              *host_call(), eof(), closed("eof"))
    client = File("whole/client.vec", "exchange", "A client makes one call, from the first byte to the last",
                  subject="client", auth="full", play="core")
    client.case("AE1 A3 N5 R1 F9 Q1 G1", "authenticate, negotiate, open, call, close", *CLIENT_AUTH, *CLIENT_TCP,
                *CLIENT_ROUTE, *client_call(), command("close"), expect("Goodbye", 0, 0, 0), closed("local"))
    return [*out, host, client]
