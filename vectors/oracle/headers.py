"""Headers by themselves: bytes to fields, or to the name of the first failed check (W9)."""

from text import NAMES, File, Step
from wire import MAX_BODY, PURE, header


def bytes_step(fields, count=21):
    """The first `count` bytes of a header, cut between or inside fields."""
    out, left = [], count
    for name, value in fields:
        if left > 0:
            out.append((name, value[:left]))
        left -= len(value)
    return Step("bytes", "", out)


def fields_of(kind, channel=0, epoch=0, corr=0, length=0, flags=0):
    names = ("passive", "interactive", "background")
    admissions = ("normal", "expedite", "sheddable")
    return dict(
        type=kind, len=length, channel=channel, epoch=epoch, corr=corr,
        binary="yes" if flags & 1 else "no", priority=names[flags >> 1 & 3], last="yes" if flags & 8 else "no",
        admission=admissions[flags >> 4 & 3],
    )


def good(file, rules, name, kind, **values):
    values = {"flags": 0, **values}
    file.case(rules, name, bytes_step(header(kind, **values)), Step("result", "frame", **fields_of(kind, **values)))


def bad(file, rules, name, error, kind, count=21, **values):
    file.case(rules, name, bytes_step(header(kind, **values), count), Step("result", error))


ROUTED = dict(channel=7, epoch=77, corr=2)


def files():
    examples = File("header/examples.vec", "header", "The two headers that the contract spells out")
    good(examples, "W11", "route.open of 173 bytes", "Request", corr=1, length=173, flags=0x02)
    good(examples, "W11", "a routed background request of 44 bytes", "Request", **ROUTED, length=44, flags=0x04)

    legal = File("header/legal.vec", "header", "Every type, every legal flag, every bound of a header's fields")
    for kind in NAMES:
        good(legal, "W2", f"{kind} on a route", kind, **ROUTED)
        good(legal, "W2", f"{kind} on the control channel", kind, corr=2)
    for kind in PURE:
        for flags, name in ((0x00, "passive"), (0x02, "interactive"), (0x04, "background")):
            good(legal, "W3", f"{kind} {name}", kind, **ROUTED, flags=flags)
    for flags, name in (
        (0x01, "binary"), (0x08, "last"), (0x10, "expedite"), (0x1D, "all that a request may carry at once"),
    ):
        good(legal, "W2", f"Request {name}", "Request", **ROUTED, flags=flags)
    good(legal, "W4", "Push sheddable", "Push", **ROUTED, flags=0x20)
    good(legal, "W4", "StreamData sheddable", "StreamData", **ROUTED, flags=0x20)
    good(legal, "W2", "every field at its maximum", "Request",
         channel=0xFFFF, epoch=0xFFFFFFFF, corr=2**64 - 1, length=MAX_BODY, flags=0x1D)
    good(legal, "W2", "an empty request", "Request", channel=1, epoch=1, corr=1)
    good(legal, "W7 V12", "a body of 64 MiB", "Request", **ROUTED, length=MAX_BODY)
    good(legal, "W9 F3", "a StreamEnd with a body passes the header's checks", "StreamEnd", **ROUTED, length=1)

    short = File("header/incomplete.vec", "header", "The frozen prefix is judged before the rest has come")
    for count in (0, 1, 4):
        bad(short, "W1", f"{count} bytes, of a bad version", "incomplete", "Request", count, ver=1, corr=1)
    for count in (5, 6, 20):
        bad(short, "W1", f"{count} bytes of a good header", "incomplete", "Request", count, corr=1)
    for version in (0, 1, 3, 0xFF):
        bad(short, "W1 W2 AE2", f"five bytes are enough for version {version}", "unsupported_version", "Request", 5,
            ver=version, corr=1)
    bad(short, "W1 W9", "an over-long body waits for the whole header", "incomplete", "Request", 20,
        length=MAX_BODY + 1, corr=1)

    broken = File("header/malformed.vec", "header", "One failed check at a time")
    for version in (0, 1, 3, 0xFF):
        bad(broken, "W2 AE2", f"version {version}", "unsupported_version", "Request", ver=version, **ROUTED)
    for kind in (12, 0xEE, 0xFF):
        bad(broken, "W2 AE2", f"type {kind}", "unknown_type", kind, **ROUTED, flags=0)
    for flags in (0x40, 0x80, 0xC0):
        bad(broken, "W2 V15", f"reserved bits 0x{flags:02x}", "reserved_flags", "Request", **ROUTED, flags=flags)
    bad(broken, "W2 V15", "priority 3", "invalid_priority", "Request", **ROUTED, flags=0x06)
    bad(broken, "W2 V15", "admission class 3", "invalid_admission", "Request", **ROUTED, flags=0x30)
    for kind in NAMES:
        if kind not in ("Push", "StreamData"):
            bad(broken, "W4", f"sheddable {kind}", "sheddable_not_allowed", kind, **ROUTED, flags=0x20)
    for kind in PURE:
        for flags, name in ((0x01, "binary"), (0x08, "last"), (0x10, "expedite")):
            bad(broken, "W3", f"{kind} {name}", "pure_header_flags", kind, **ROUTED, flags=flags)
        bad(broken, "W2", f"{kind} with a body", "pure_header_length", kind, **ROUTED, length=1, flags=0)
    for length in (MAX_BODY + 1, 0x7FFFFFFF, 0xFFFFFFFF - 20, 0xFFFFFFFF):
        bad(broken, "W2 W7 V13 AE2", f"a body of {length} bytes", "body_too_large", "Request", **ROUTED, length=length)
    for epoch in (1, 0xFFFFFFFF):
        bad(broken, "W2", f"epoch {epoch} on the control channel", "control_epoch", "Request", epoch=epoch, corr=1)
    for channel in (1, 0xFFFF):
        bad(broken, "W2", f"no epoch on channel {channel}", "zero_epoch", "Request", channel=channel, corr=1)

    # Two failures in one header: the earlier check names the error. Neighbours in W9's list, and the ends of it.
    order = File("header/order.vec", "header", "The order of the checks: of two failures the earlier one is named")
    pairs = (
        ("unsupported_version", "unknown_type", 12, dict(ver=3)),
        ("unknown_type", "reserved_flags", 12, dict(flags=0x40)),
        ("reserved_flags", "invalid_priority", "Request", dict(flags=0x46)),
        ("invalid_priority", "invalid_admission", "Request", dict(flags=0x36)),
        ("invalid_admission", "pure_header_flags", "Cancel", dict(flags=0x31)),
        ("sheddable_not_allowed", "pure_header_flags", "Ping", dict(flags=0x21)),
        ("pure_header_flags", "pure_header_length", "Ping", dict(flags=0x01, length=1)),
        ("pure_header_length", "body_too_large", "Pong", dict(length=MAX_BODY + 1, flags=0)),
        ("body_too_large", "zero_epoch", "Request", dict(length=MAX_BODY + 1, epoch=0)),
        ("body_too_large", "control_epoch", "Request", dict(length=MAX_BODY + 1, channel=0)),
        ("unsupported_version", "everything else", 0xFF, dict(ver=0xFF, flags=0xFF, length=0xFFFFFFFF, epoch=0)),
        ("unknown_type", "body_too_large", 0xFF, dict(length=0xFFFFFFFF, flags=0)),
        ("sheddable_not_allowed", "body_too_large", "Request", dict(flags=0x20, length=MAX_BODY + 1)),
    )
    for error, other, kind, change in pairs:
        bad(order, "W9", f"{error} before {other}", error, kind, **{**ROUTED, **change})

    # A zeroed header with one byte of ones: no width but the field's own is ever touched.
    sweep = File("header/sweep.vec", "header", "A header of zeroes but version 2, with 0xff at each offset in turn")
    zeroed = b"\0\0\0\0\x02" + bytes(16)
    widths = (("len", 4), ("ver", 1), ("type", 1), ("flags", 1), ("channel", 2), ("epoch", 4), ("corr", 8))
    for offset in range(21):
        data = bytearray(zeroed)
        data[offset] = 0xFF
        fields, at = [], 0
        for name, width in widths:
            fields.append((name, bytes(data[at:at + width])))
            at += width
        if offset < 3:
            result = Step("result", "frame", **fields_of("Request", length=0xFF << 8 * offset)) \
                if 0xFF << 8 * offset <= MAX_BODY else Step("result", "body_too_large")
        elif offset == 3:
            result = Step("result", "body_too_large")
        elif offset == 4:
            result = Step("result", "unsupported_version")
        elif offset == 5:
            result = Step("result", "unknown_type")
        elif offset == 6:
            result = Step("result", "reserved_flags")
        elif offset < 9:
            result = Step("result", "zero_epoch")
        elif offset < 13:
            result = Step("result", "control_epoch")
        else:
            result = Step("result", "frame", **fields_of("Request", corr=0xFF << 8 * (offset - 13)))
        sweep.case("W9", f"offset {offset}", Step("bytes", "", fields), result)
    return [examples, legal, short, broken, order, sweep]
