#!/usr/bin/env python3
"""Instructions per operation, counted by callgrind: `bench/counts.py check` compares with counts.json, `bench/counts.py record` writes it.

Each measure runs with N and with 2 N operations; the difference, divided by N, is the operation alone. A count that leaves its record by
more than the tolerance, in either direction, is a failure: a gain is recorded, so that it cannot be lost unseen. Needs valgrind; Python's
standard library only.
"""

import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE / "counts.json"
TABLE = HERE.parent / "docs" / "benchmarks.md"
COUNTS = HERE / "target" / "release" / "counts"
TOLERANCE = 0.05
N = 800  # a multiple of the legality table's 16 rows
# Operations among 10,000 pending ones: enough of them that what a table does once in a while is in the mean.
MANY = {"submit_to_settle_10k": 20_000, "dispatch_to_settle_10k": 20_000}
# What may cost at most so many times what another does, whatever the record says.
RATIOS = {
    ("submit_to_settle_10k", "submit_to_settle"): 1.5,
    ("dispatch_to_settle_10k", "dispatch_to_settle"): 1.5,
}


def instructions(measure, count):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(COUNTS), measure, str(count)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(f"{measure}: valgrind failed\n{done.stderr}")
    return int(found.group(1))


def per_operation(measure):
    n = MANY.get(measure, N)
    return round((instructions(measure, 2 * n) - instructions(measure, n)) / n)


def tabled(text, counts):
    """The table with these counts."""
    for name, count in counts.items():
        text, rows = re.subn(rf"^(\| `{name}` \| )[\d,]+ \|", rf"\g<1>{count:,} |", text, flags=re.MULTILINE)
        if rows != 1:
            sys.exit(f"{TABLE.name} needs one row for {name}")
    return text


def main(mode):
    subprocess.run(["cargo", "build", "--release", "--locked"], cwd=HERE, stdin=subprocess.DEVNULL, check=True)
    measures = subprocess.run([COUNTS], capture_output=True, text=True, check=True).stdout.split()
    rustc = subprocess.run(["rustc", "--version"], cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()
    counts = {name: per_operation(name) for name in measures}
    if mode == "record":
        RECORD.write_text(json.dumps({"rustc": rustc, "instructions": counts}, indent=4) + "\n")
        TABLE.write_text(tabled(TABLE.read_text(), counts))
    record = json.loads(RECORD.read_text())
    wanted, wrong = record["instructions"], sorted(record["instructions"].keys() ^ counts.keys())
    for name in wrong:
        print(f"{name}: recorded or measured, not both", file=sys.stderr)
    for name in sorted(wanted.keys() & counts.keys()):
        change = counts[name] / wanted[name] - 1
        beyond = abs(change) > TOLERANCE
        wrong += [name] * beyond
        print(f"{name:<24} {counts[name]:>8} {change:>+7.1%}{'  beyond the tolerance' if beyond else ''}")
    for (many, one), most in RATIOS.items():
        ratio = counts[many] / counts[one]
        if ratio > most:
            wrong.append(many)
        print(f"{many} costs {ratio:.2f} times {one}, at most {most}{'  beyond' if ratio > most else ''}")
    if tabled(TABLE.read_text(), wanted) != TABLE.read_text():
        wrong.append(TABLE.name)
        print(f"{TABLE.name}: not the recorded counts", file=sys.stderr)
    if wrong:
        print(f"recorded with {record['rustc']}, counted with {rustc}; if the change is wanted: bench/counts.py record",
              file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] not in (["check"], ["record"]):
        print("usage: bench/counts.py check|record", file=sys.stderr)
        sys.exit(64)
    sys.exit(main(sys.argv[1]))
