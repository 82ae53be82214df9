#!/usr/bin/env python3
"""Tests hostwire.lua with tshark, on a capture that this program writes: `check.py`, or `check.py -v` for what tshark says.

Needs tshark and nothing else: packets are made here, byte by byte, so that no capture rights are asked for.
"""

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLIENT, HOST = 40000, 43123


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Capture:
    """A pcap file of one TCP connection over raw IPv4 (link type 101)."""

    def __init__(self, client=CLIENT):
        self.out = bytearray(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 101))
        self.sequence = {"client": 1000, "host": 5000}
        self.client = client
        self.at = 0

    def segment(self, side, payload, flags=0x18):
        ports = (self.client, HOST) if side == "client" else (HOST, self.client)
        other = "host" if side == "client" else "client"
        tcp = struct.pack(
            ">HHIIBBHHH", *ports, self.sequence[side], self.sequence[other], 5 << 4, flags, 65535, 0, 0
        )
        loopback = bytes([127, 0, 0, 1])
        pseudo = loopback + loopback + struct.pack(">BBH", 0, 6, len(tcp) + len(payload))
        tcp = tcp[:16] + struct.pack(">H", checksum(pseudo + tcp + payload)) + tcp[18:]
        length = 20 + len(tcp) + len(payload)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, length, 1, 0, 64, 6, 0, loopback, loopback)
        ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
        packet = ip + tcp + payload
        self.at += 1000
        self.out += struct.pack("<IIII", 1, self.at, len(packet), len(packet)) + packet
        self.sequence[side] += len(payload) + (1 if flags & 3 else 0)

    def connect(self):
        self.segment("client", b"", 0x02)
        self.segment("host", b"", 0x12)
        self.segment("client", b"", 0x10)
        return self


def message(text):
    return struct.pack("<I", len(text)) + text.encode()


def frame(kind, flags, identity, body=b"", length=None, ver=2):
    channel, epoch, corr = identity
    length = len(body) if length is None else length
    return struct.pack("<IBBBHIQ", length, ver, kind, flags, channel, epoch, corr) + body


def handshake(capture):
    capture.segment("client", message('{"client_nonce":[1,SECRETNONCE],"role":"client"}'))
    capture.segment("host", message('{"daemon_id":[],"server_proof":[SECRETPROOF]}'))
    capture.segment("client", message('{"client_auth":[SECRETPROOF]}'))
    return capture


def tshark(capture):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "it.pcap"
        path.write_bytes(capture.out)
        command = ["tshark", "-X", f"lua_script:{HERE / 'hostwire.lua'}", "-d", f"tcp.port=={HOST},hostwire"]
        run = lambda *more: subprocess.run(
            [*command, "-r", str(path), *more], check=True, capture_output=True, text=True, timeout=120
        )
        dump = run("-T", "json", "--no-duplicate-keys", "-Y", "hostwire")
        lines = run("-o", 'gui.column.format:"Info","%i"', "-Y", "hostwire").stdout.splitlines()
        lines = [line.strip() for line in lines]
        both = dump.stdout + "\n".join(lines) + dump.stderr
    if "Lua" in dump.stderr:
        sys.exit(dump.stderr)
    if "-v" in sys.argv:
        print("\n".join(lines))
    return lines, json.loads(dump.stdout), both


def values(dump, name):
    """All values of a field, in order, however deep they stand."""
    found = []

    def walk(node):
        if isinstance(node, dict):
            for key, value in node.items():
                if key == name:
                    found.extend(value if isinstance(value, list) else [value])
                else:
                    walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(dump)
    return [value for value in found if isinstance(value, str)]


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}:\n  expected {wanted}\n  got      {got}")


def good():
    capture = handshake(Capture().connect())
    negotiate = frame(0, 2, (0, 0, 1), b'{"op":"transport.negotiate","negotiation_version":1}')
    opening = frame(0, 2, (0, 0, 2), b'{"op":"route.open","target":{}}')
    # Two in a packet, and one in three pieces, cut inside its header and inside its body.
    capture.segment("client", negotiate + opening)
    capture.segment("host", frame(1, 10, (0, 0, 1), b'{"op":"transport.negotiate"}'))
    answer = frame(1, 10, (0, 0, 2), b'{"op":"route.open","route_channel":7,"route_epoch":77}')
    for piece in (answer[:3], answer[3:30], answer[30:]):
        capture.segment("host", piece)
    capture.segment("client", frame(0, 3, (7, 77, 3), b"\x00\x01\x02"))
    capture.segment("host", frame(3, 2, (7, 77, 3), b"one") + frame(4, 10, (7, 77, 3)))
    capture.segment("client", frame(0, 2, (7, 77, 4), b"x") + frame(6, 0, (7, 77, 4)))
    capture.segment("host", frame(5, 10, (7, 77, 4), b'{"code":"cancelled","message":"m"}'))
    capture.segment("host", frame(7, 2, (0, 0, 1)))
    capture.segment("client", frame(8, 2, (0, 0, 1)) + frame(11, 0, (0, 0, 0)))
    lines, dump, both = tshark(capture)
    expect(
        "what is told",
        [line for line in lines if line],
        [
            "client hello",
            "host challenge",
            "client proof",
            "Request 0/0/1 transport.negotiate; Request 0/0/2 route.open",
            "Response 0/0/1 transport.negotiate",
            "Response 0/0/2 route.open",
            "Request 7/77/3",
            "StreamData 7/77/3; StreamEnd 7/77/3",
            "Request 7/77/4; Cancel 7/77/4",
            "Error 7/77/4 cancelled",
            "Ping 0/0/1",
            "Pong 0/0/1; Goodbye 0/0/0",
        ],
    )
    expect("operations", values(dump, "hostwire.op"), ["transport.negotiate", "route.open"] * 2)
    expect("codes", values(dump, "hostwire.code"), ["cancelled"])
    expect("types", values(dump, "hostwire.type"), list("0011034065") + ["7", "8", "11"])
    expect("channels", values(dump, "hostwire.channel")[4:6], ["7", "7"])
    expect("binary", [v for v in values(dump, "hostwire.flags.binary")].count("1"), 1)
    expect("nothing malformed", values(dump, "hostwire.reason"), [])
    expect("no secret is spelled out", "SECRET" in both, False)


def bad():
    cases = [
        ("unsupported version (W2)", "client", frame(0, 2, (0, 0, 1), ver=3)),
        ("unknown type (W2)", "client", frame(12, 2, (0, 0, 1))),
        ("reserved flag bits (W2)", "client", frame(0, 0x42, (0, 0, 1))),
        ("invalid priority (W2)", "client", frame(0, 6, (0, 0, 1))),
        ("invalid admission class (W2)", "client", frame(0, 0x32, (0, 0, 1))),
        ("Sheddable on a frame that must not be shed (W4)", "client", frame(0, 0x22, (0, 0, 1))),
        ("flags on a pure header (W3)", "client", frame(6, 1, (7, 77, 1))),
        ("body on a pure header (W2)", "client", frame(6, 0, (7, 77, 1), b"x")),
        ("body over 64 MiB (W2)", "client", frame(0, 2, (7, 77, 1), length=67108865)),
        ("epoch on the control channel (W2)", "client", frame(0, 2, (0, 5, 1))),
        ("no epoch on a route (W2)", "client", frame(0, 2, (5, 0, 1))),
        ("nobody sends this type (F1)", "client", frame(9, 2, (0, 0, 1))),
        ("the client never sends this type (F1)", "client", frame(1, 2, (0, 0, 1))),
        ("the host never sends this type (F1)", "host", frame(0, 2, (0, 0, 1))),
        ("a control request without an operation (C3)", "client", frame(0, 2, (0, 0, 1), b"{}")),
        ("an error without a code (F7)", "host", frame(5, 10, (0, 0, 1), b"{}")),
    ]
    for reason, side, bytes_ in cases:
        capture = handshake(Capture().connect())
        capture.segment(side, bytes_)
        _, dump, _ = tshark(capture)
        expect(reason, values(dump, "hostwire.reason"), [reason])
    capture = Capture().connect()
    capture.segment("client", struct.pack("<I", 4097))
    expect("A1", values(tshark(capture)[1], "hostwire.reason"), ["a handshake message over 4,096 bytes (A1)"])
    return len(cases) + 1


good()
print(f"dissector: fields named, {bad()} kinds of malformed frames flagged")
