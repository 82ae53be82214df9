"""Files that are read before a connection exists: the discovery file (D1 to D3) and the lifecycle record (P6)."""

from text import File, Fill, Step, size
from wire import DAEMON_ID, DAEMON_VER, KEY, compact

GONE = object()


def discovery(**change):
    value = {
        "schema": 1, "wire_version": 2, "endpoints": [{"host": "127.0.0.1", "port": 43123}],
        "key": list(KEY), "daemon_id": list(DAEMON_ID), "pid": 4242, "daemon_ver": DAEMON_VER, **change,
    }
    return compact({key: item for key, item in value.items() if item is not GONE})


def record(**change):
    value = {
        "schema": 1, "phase": "running", "launch_id": "0123456789abcdef" * 2, "daemon_id": DAEMON_ID.hex(),
        "payload_manifest_digest": "", "pid": 4242, "written_at_ms": 1700000000000, **change,
    }
    return compact({key: item for key, item in value.items() if item is not GONE})


def case(file, rules, name, accepted, body):
    file.case(rules, name, Step("bytes", "", [("text", body)]), Step("result", "accepted" if accepted else "refused"))


def endpoint(host="127.0.0.1", port=43123):
    return discovery(endpoints=[{"host": host, "port": port}])


def raw(text, old, new):
    assert text.count(old) == 1, (old, text)
    return text.replace(old, new)


def files():
    plain = discovery()

    good = File("document/discovery-accepted.vec", "document", "Discovery files that are read", document="discovery")
    case(good, "D2", "the contract's example", True, plain)
    case(good, "D2", "unknown members are ignored", True, discovery(extra={"a": [1, None, "x"]}))
    case(good, "D2", "white space around and inside", True, [b" \n\t", plain.replace(",", ", ").encode(), b" \r\n"])
    case(good, "D2", "members in another order", True,
         "{" + '"pid":4242,' + raw(plain, '"pid":4242,', "")[1:])
    case(good, "D3", "only the first endpoint counts", True,
         discovery(endpoints=[{"host": "127.0.0.1", "port": 1}, {"host": "::1", "port": 0}]))
    case(good, "D3", "port 1", True, endpoint(port=1))
    case(good, "D3", "port 65535", True, endpoint(port=65535))
    case(good, "D1 V1", "65,536 bytes", True, [plain, Fill(0x20, 65536 - size(plain))])

    bad = File("document/discovery-refused.vec", "document", "Discovery files that are refused", document="discovery")
    case(bad, "D1 V2", "65,537 bytes", False, [plain, Fill(0x20, 65537 - size(plain))])
    case(bad, "D2", "an empty file", False, b"")
    case(bad, "D2", "an array", False, "[1]")
    case(bad, "D2", "cut in the middle", False, plain[:100])
    for name, change in (("absent", GONE), ("null", None), ("a string", "2"), ("another value", 3), ("zero", 0)):
        case(bad, "D2 V51", f"wire_version {name}", False, discovery(wire_version=change))
    for text in ("2.0", "2.5", "2e0", "-2", "18446744073709551618"):
        case(bad, "D2 V51", f"wire_version {text}", False, raw(plain, '"wire_version":2', f'"wire_version":{text}'))
    for name, change in (("absent", GONE), ("null", None), ("a string", "1"), ("another value", 2)):
        case(bad, "D2", f"schema {name}", False, discovery(schema=change))
    case(bad, "D2", "schema 1.0", False, raw(plain, '"schema":1', '"schema":1.0'))
    for name, change in (("absent", GONE), ("empty", []), ("an object", {}), ("null", None), ("of strings", ["a"])):
        case(bad, "D2", f"endpoints {name}", False, discovery(endpoints=change))
    for name, change in (
        ("absent", GONE), ("of 31 bytes", list(KEY)[:31]), ("of 33 bytes", [*KEY, 0]), ("a string", KEY.hex()),
        ("with 256 in it", [*KEY[:31], 256]), ("with -1 in it", [*KEY[:31], -1]), ("with null in it", [*KEY[:31], None]),
    ):
        case(bad, "D2", f"key {name}", False, discovery(key=change))
    case(bad, "D2", "key with 31.0 in it", False, raw(plain, ",30,31]", ",30,31.0]"))
    for name, change in (("absent", GONE), ("of 15 bytes", list(DAEMON_ID)[:15]), ("of 17 bytes", [*DAEMON_ID, 0])):
        case(bad, "D2", f"daemon_id {name}", False, discovery(daemon_id=change))
    for name, change in (("absent", GONE), ("null", None), ("a string", "4242")):
        case(bad, "D2", f"pid {name}", False, discovery(pid=change))
    case(bad, "D2", "pid 4242.5", False, raw(plain, '"pid":4242', '"pid":4242.5'))
    for name, change in (("absent", GONE), ("empty", ""), ("a number", 1)):
        case(bad, "D2", f"daemon_ver {name}", False, discovery(daemon_ver=change))
    case(bad, "D2", "a repeated member", False, raw(plain, '"schema":1', '"schema":1,"schema":1'))
    case(bad, "D2", "a repeated member, spelled with an escape", False,
         raw(plain, '"schema":1', '"schema":1,"\\u0073chema":1'))
    case(bad, "D2", "a byte-order mark", False, [b"\xef\xbb\xbf", plain])
    case(bad, "D2", "bytes behind the root", False, plain + "x")
    case(bad, "D2", "a second root", False, plain + plain)
    case(bad, "D2", "invalid UTF-8", False, [plain[:-2].encode(), b"\xff", b'"}'])
    for host in ("localhost", "0.0.0.0", "::1", "127.0.0.2", "127.0.0.1.", "127.1", " 127.0.0.1", "127.0.0.01", ""):
        case(bad, "D3 V4", f"host {host or 'empty'}", False, endpoint(host=host))
    for port in (0, 65536, -1, "43123", None):
        case(bad, "D3 V4", f"port {compact(port)}", False, endpoint(port=port))
    case(bad, "D3 V4", "port 43123.0", False, raw(plain, "43123", "43123.0"))
    case(bad, "D3", "the second endpoint does not help", False,
         discovery(endpoints=[{"host": "::1", "port": 1}, {"host": "127.0.0.1", "port": 1}]))

    life = File("document/lifecycle.vec", "document", "Lifecycle records", document="lifecycle")
    for phase in ("starting", "running", "stopping"):
        case(life, "P6", f"phase {phase}", True, record(phase=phase))
    case(life, "P6", "with a digest", True, record(payload_manifest_digest="ab" * 32))
    for phase in ("stopped", "Running", "", None, 1):
        case(life, "P6", f"phase {compact(phase)}", False, record(phase=phase))
    for name in ("schema", "phase", "launch_id", "daemon_id", "payload_manifest_digest", "pid", "written_at_ms"):
        case(life, "P6", f"{name} absent", False, record(**{name: GONE}))
        case(life, "P6", f"{name} null", False, record(**{name: None}))
    for name in ("launch_id", "daemon_id"):
        for what, value in (("of 31 digits", "a" * 31), ("of 33 digits", "a" * 33), ("in capitals", "A" * 32),
                            ("not hex", "g" * 32), ("empty", "")):
            case(life, "P6", f"{name} {what}", False, record(**{name: value}))
    for what, value in (("of 63 digits", "a" * 63), ("of 65 digits", "a" * 65), ("in capitals", "A" * 64)):
        case(life, "P6", f"digest {what}", False, record(payload_manifest_digest=value))
    case(life, "P6", "an unknown member", False, record(extra=1))
    case(life, "P6", "schema 2", False, record(schema=2))
    case(life, "P6", "schema 1.0", False, raw(record(), '"schema":1', '"schema":1.0'))
    case(life, "P6", "a negative time", False, record(written_at_ms=-1))
    case(life, "P6", "a time with a fraction", False, raw(record(), "1700000000000", "1700000000000.5"))
    case(life, "P6", "a negative pid", False, record(pid=-1))
    case(life, "P6", "a repeated member", False, raw(record(), '"pid":4242', '"pid":4242,"pid":4242'))
    case(life, "P6", "bytes behind the root", False, record() + "{}")
    case(life, "P6", "an empty file", False, b"")
    case(life, "P6", "an array", False, "[1]")
    return [good, bad, life]
