"""Authentication: the proofs by themselves, and every way a handshake can go (A1 to A10)."""

from text import File, Fill, Step, size
from wire import (
    CLIENT_NONCE, DAEMON_ID, KEY, SERVER_NONCE, advance, challenge, client_auth, client_proof, closed, compact, eof,
    expect_json, expect_message, hello, recv, recv_message, server_proof,
)
from world import CLIENT_AUTH, HOST_AUTH, negotiate, selected


def padded(value, count):
    """The message with white space up to `count` bytes."""
    text = compact(value)
    return [text, Fill(0x20, count - size(text))]


def octets(values):
    return "[" + ",".join(values) + "]"


def spoiled(name, value, good):
    """The ways to spoil an array of bytes: (what, JSON text of the whole message)."""
    numbers = [str(item) for item in value]
    text = compact(good)
    place = f'"{name}":{octets(numbers)}'
    assert text.count(place) == 1
    for what, other in (
        ("of one too few", octets(numbers[:-1])), ("of one too many", octets(numbers + ["0"])), ("empty", "[]"),
        ("with 256 in it", octets(numbers[:-1] + ["256"])), ("with -1 in it", octets(numbers[:-1] + ["-1"])),
        ("with 1.0 in it", octets(numbers[:-1] + ["1.0"])), ("with 1e1 in it", octets(numbers[:-1] + ["1e1"])),
        ("with a string in it", octets(numbers[:-1] + ['"1"'])), ("with null in it", octets(numbers[:-1] + ["null"])),
        ("null", "null"), ("a string", '"x"'),
    ):
        yield f"{name} {what}", text.replace(place, f'"{name}":{other}')
    yield f"{name} absent", text.replace(place + ",", "").replace("," + place, "").replace(place, "")
    yield f"{name} repeated", text.replace(place, place + "," + place)


def broken_json(good):
    text = compact(good)
    yield "not JSON", "hello"
    yield "an array", "[1]"
    yield "cut before its end", text[:-1]
    yield "with bytes behind the root", text + "x"
    yield "with a byte-order mark", [b"\xef\xbb\xbf", text]
    yield "with invalid UTF-8", [text[:-1].encode(), b',"x":"\xff"}']


def proofs():
    file = File("proof/proofs.vec", "proof", "HMAC-SHA256 over both nonces and the daemon ID, a domain for each direction")
    for name, change in (
        ("the fixed vector", {}),
        ("another key", {"key": bytes(reversed(KEY))}),
        ("nonces exchanged", {"client": SERVER_NONCE, "server": CLIENT_NONCE}),
        ("another daemon ID", {"daemon": bytes(16)}),
    ):
        value = {"key": KEY, "client": CLIENT_NONCE, "server": SERVER_NONCE, "daemon": DAEMON_ID, **change}
        file.case("A3 A4", name, Step("given", "", [
            ("key", value["key"]), ("client_nonce", value["client"]), ("server_nonce", value["server"]),
            ("daemon_id", value["daemon"]),
        ]), Step("result", "", [
            ("server_p", server_proof(**change)), ("client_p", client_proof(**change)),
        ]))
    assert server_proof().hex() == "eaaef5c991b53669e1c35c18b93a4f2b1bac2954550c0f908141ae29a339cec0"
    assert client_proof().hex() == "a833c73da0b7206ddf520661de0151f0871b8c5bc4ab15a1453bd6754063e4cd"
    return file


def host():
    challenged = [recv_message("hello", hello()), expect_message("challenge", challenge())]
    # What shows that the host has accepted: it reads an envelope.
    goes_on = [recv("Request", 0, 0, 1, negotiate()), expect_json("Response", 0, 0, 1, selected())]

    good = File("auth/host-accepts.vec", "exchange", "Handshakes that a host accepts", subject="host", auth="full",
                play="core")
    good.case("A9 A10 N1", "the plain exchange, and an envelope right behind it", *HOST_AUTH, *goes_on)
    good.case("A1 V8", "messages of exactly 4,096 bytes", recv_message("hello", padded(hello(), 4096)),
              expect_message("challenge", challenge()), recv_message("client_auth", padded(client_auth(), 4096)),
              *goes_on)
    good.case("A4", "any role will do", recv_message("hello", hello(role="nobody")),
              expect_message("challenge", challenge()), recv_message("client_auth", client_auth()), *goes_on)
    good.case("A7", "unknown members are ignored", recv_message("hello", hello(extra=[{"a": None}], key="x")),
              expect_message("challenge", challenge()), recv_message("client_auth", client_auth(extra=1)), *goes_on)
    good.case("A5", "one millisecond before the deadline", *challenged, advance(1999),
              recv_message("client_auth", client_auth()), *goes_on)

    first = File("auth/host-refuses-hello.vec", "exchange", "First messages that close the socket, and nothing is sent",
                 subject="host", auth="full")
    for length in (4097, 65536, 2**32 - 1):
        first.case("A1 A6 V9", f"a length of {length}, refused on the prefix alone",
                   recv_message("hello", b"", length=length), closed("auth"))
    first.case("A6", "a length of zero", recv_message("hello", b"", length=0), closed("auth"))
    for what, text in [*broken_json(hello()), *spoiled("client_nonce", CLIENT_NONCE, hello())]:
        first.case("A6", what, recv_message("hello", text), closed("auth"))
    for what, value in (("absent", ...), ("null", None), ("a number", 1), ("an array", [])):
        first.case("A6", f"role {what}", recv_message("hello", hello(role=value)), closed("auth"))
    first.case("A7", "role repeated", recv_message("hello", compact(hello())[:-1] + ',"role":"client"}'),
               closed("auth"))
    first.case("A6", "an envelope in its place", recv("Request", 0, 0, 1, negotiate()), closed("auth"))
    first.case("A6", "EOF before the first byte", eof(), closed("auth"))
    first.case("A6", "EOF inside the length", Step("recv", "first 3 of 85", [("bytes", b"\x51\0\0")]), eof(),
               closed("auth"))
    first.case("A6", "EOF inside the message", Step("recv", "short message", [
        ("len", b"\x51\0\0\0"), ("json", b'{"client_nonce":[')]), eof(), closed("auth"))

    # Any host's challenge will do: what follows is wrong for all of them.
    anyone = {"daemon_id": "*", "server_nonce": "*", "daemon_ver": "*", "server_proof": "*"}
    challenged = [recv_message("hello", hello()), expect_message("challenge", anyone)]
    second = File("auth/host-refuses-proof.vec", "exchange",
                  "Second messages that close the socket: no envelope is read, nothing is said", subject="host",
                  auth="full")
    proof = client_proof()
    # An envelope right behind a bad proof is never looked at.
    unread = recv("Request", 0, 0, 1, negotiate())
    for what, value in (
        ("wrong in its first byte", bytes([proof[0] ^ 1]) + proof[1:]),
        ("wrong in its last byte", proof[:-1] + bytes([proof[-1] ^ 0x80])),
        ("of zeroes", bytes(32)),
        ("that echoes the server's", server_proof()),
        ("made with another key", client_proof(key=bytes(32))),
        ("for another daemon ID", client_proof(daemon=bytes(16))),
        ("with the nonces exchanged", client_proof(client=SERVER_NONCE, server=CLIENT_NONCE)),
    ):
        second.case("A4 A6 V39", f"a proof {what}", *challenged,
                    recv_message("client_auth", client_auth(client_auth=list(value))), unread, closed("auth"))
    for length in (4097, 2**32 - 1):
        second.case("A1 A6 V9", f"a length of {length}", *challenged, recv_message("client_auth", b"", length=length),
                    closed("auth"))
    for what, text in [*broken_json(client_auth()), *spoiled("client_auth", proof, client_auth())]:
        second.case("A6", what, *challenged, recv_message("client_auth", text), closed("auth"))
    second.case("A6", "the first message once more", *challenged, recv_message("hello", hello()), closed("auth"))
    second.case("A6", "EOF in its place", *challenged, eof(), closed("auth"))

    challenged = [recv_message("hello", hello()), expect_message("challenge", challenge())]
    late = File("auth/host-deadline.vec", "exchange", "One absolute deadline covers the handshake", subject="host",
                auth="full", play="core")
    late.case("A5 A6", "nothing arrives", advance(1999), advance(1), closed("auth_deadline"))
    dribble = [("a", 500), ("b", 500), ("c", 500), ("d", 500)]
    steps = [Step("recv", "short message", [("len", b"\x51\0\0\0"), ("json", b'{"c')])]
    for letter, pause in dribble:
        steps += [Step("recv", "raw", [("bytes", letter.encode())]), advance(pause)]
    late.case("A5 A6", "bytes that keep coming do not move it", *steps, closed("auth_deadline"))
    late.case("A5 A6", "the challenge has been sent", *challenged, advance(2000), closed("auth_deadline"))
    return [good, first, second, late]


def client():
    sent = [expect_message("hello", hello())]
    proof = expect_message("client_auth", client_auth())

    good = File("auth/client-accepts.vec", "exchange", "Challenges that a client accepts", subject="client", auth="full",
                play="core")
    negotiates = expect_json("Request", 0, 0, 1, negotiate())
    good.case("A3 A9 A10", "the plain exchange; the client speaks on without waiting", *CLIENT_AUTH, negotiates)
    good.case("A1 V8", "a challenge of exactly 4,096 bytes", *sent,
              recv_message("challenge", padded(challenge(), 4096)), proof, negotiates)
    good.case("A7", "unknown members are ignored", *sent, recv_message("challenge", challenge(extra={"a": [1]})), proof,
              negotiates)
    good.case("A6", "members in another order", *sent,
              recv_message("challenge", dict(reversed(list(challenge().items())))), proof, negotiates)

    bad = File("auth/client-refuses.vec", "exchange", "Challenges after which a client sends nothing more",
               subject="client", auth="full", play="core")
    right = server_proof()
    for what, value in (
        ("wrong in its first byte", bytes([right[0] ^ 1]) + right[1:]),
        ("wrong in its last byte", right[:-1] + bytes([right[-1] ^ 0x80])),
        ("of zeroes", bytes(32)),
        ("that is the client's", client_proof()),
        ("made with another key", server_proof(key=bytes(32))),
    ):
        bad.case("A3 A6 V10", f"a proof {what}", *sent,
                 recv_message("challenge", challenge(server_proof=list(value))), closed("auth"))
    other = bytes(reversed(DAEMON_ID))
    bad.case("A3 V10", "another daemon ID, with a proof that fits it", *sent,
             recv_message("challenge", challenge(daemon_id=list(other), server_proof=list(server_proof(daemon=other)))),
             closed("auth"))
    bad.case("A3 V10", "another daemon ID, with a proof that fits the file's", *sent,
             recv_message("challenge", challenge(daemon_id=list(other))), closed("auth"))
    for value in ("example/0.1.1", "", "example/0.1.0 "):
        bad.case("A3", f"daemon_ver '{value}'", *sent, recv_message("challenge", challenge(daemon_ver=value)),
                 closed("auth"))
    for what, value in (("absent", ...), ("null", None), ("a number", 1)):
        bad.case("A6", f"daemon_ver {what}", *sent, recv_message("challenge", challenge(daemon_ver=value)),
                 closed("auth"))
    for length in (4097, 2**32 - 1):
        bad.case("A1 A6 V9", f"a length of {length}", *sent, recv_message("challenge", b"", length=length),
                 closed("auth"))
    spoilers = [
        *broken_json(challenge()), *spoiled("daemon_id", DAEMON_ID, challenge()),
        *spoiled("server_nonce", SERVER_NONCE, challenge()), *spoiled("server_proof", right, challenge()),
    ]
    for what, text in spoilers:
        bad.case("A6", what, *sent, recv_message("challenge", text), closed("auth"))
    bad.case("A6", "EOF in its place", *sent, eof(), closed("auth"))
    bad.case("A6", "EOF inside it", *sent, Step("recv", "short message", [
        ("len", b"\x90\x01\0\0"), ("json", b'{"daemon_id":[')]), eof(), closed("auth"))
    return [good, bad]


def files():
    return [proofs(), *host(), *client()]
