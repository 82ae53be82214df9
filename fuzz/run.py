#!/usr/bin/env python3
"""Runs fuzz targets, one after the other: `fuzz/run.py SECONDS [--record] [TARGET ...]`; without names, all of them.

Each starts from the committed seeds and what earlier runs left in `fuzz/corpus`. A finding ends the run with an exit code of 1 and is
in `fuzz/artifacts`. `--record` adds a line for each target to FIGURES.md. Needs cargo-fuzz and a nightly toolchain; Python's standard
library only.
"""

import datetime
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TARGETS = re.findall(r'^name = "(\w+)"$', (HERE / "Cargo.toml").read_text(), re.MULTILINE)


# Nothing here is `unsafe`: the address sanitizer would find what the compiler excludes, at a quarter of the speed.
def cargo(command, *args):
    return ["cargo", "+nightly", "fuzz", command, "--sanitizer", "none", *args]


def run(target, seconds):
    """One target; its figures as cells of a table, or nothing if it found something."""
    corpus = HERE / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    # An input takes milliseconds; on a machine that does something else, a minute.
    limits = [f"-max_total_time={seconds}", "-timeout=60", "-rss_limit_mb=2048", "-verbosity=1"]
    process = subprocess.Popen(
        cargo("run", target, str(corpus), str(HERE / "seeds" / target), "--", *limits),
        cwd=HERE.parent, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    tail, cover, done = [], None, None
    for line in process.stderr:
        tail = [*tail[-200:], line]
        cover = re.search(r"cov: (\d+) ft: (\d+)", line) or cover
        done = re.search(r"Done (\d+) runs in (\d+) second", line) or done
    if process.wait() != 0 or not done:
        sys.stderr.writelines(tail)
        return None
    edges, features = cover.groups() if cover else ("?", "?")
    return [target, *done.groups(), edges, features]


def main(seconds, record, targets):
    if subprocess.run(cargo("build"), cwd=HERE.parent, stdin=subprocess.DEVNULL).returncode != 0:
        return 1
    found = 0
    for target in targets:
        cells = run(target, seconds)
        if cells is None:
            print(f"{target}: a finding", flush=True)
            found = 1
            continue
        print("{}: {} runs in {} s, {} edges, {} features".format(*cells), flush=True)
        if record:
            with open(HERE / "FIGURES.md", "a") as figures:
                figures.write(f"| {datetime.date.today()} | " + " | ".join(cells) + " |\n")
    return found


if __name__ == "__main__":
    os.environ.setdefault("CARGO_TERM_COLOR", "never")
    arguments = sys.argv[1:]
    record = "--record" in arguments
    arguments = [argument for argument in arguments if argument != "--record"]
    if not arguments or not arguments[0].isdecimal() or not set(arguments[1:]) <= set(TARGETS):
        print(f"usage: fuzz/run.py SECONDS [--record] [{'|'.join(TARGETS)}]", file=sys.stderr)
        sys.exit(64)
    sys.exit(main(arguments[0], record, arguments[1:] or TARGETS))
