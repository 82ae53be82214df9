#!/usr/bin/env python3
"""Mutants of core against core's own tests: no test that cannot fail, no line that nobody needs.

    .ci/mutants.py changed [MINUTES]   those on lines that differ from HOSTWIRE_BASE (by default the commit before this one)
    .ci/mutants.py shards              all of core, a shard at a time; begins where the last run stopped

What may live stands in .cargo/mutants.toml, with its reason. A mutant that never ends counts as caught. Needs cargo-mutants; Python's
standard library only.
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "target" / "mutants"
NEXT = OUT / "next-shard"
SHARDS = 200
# Core's tests pass by themselves in another step. Those that have to end take seconds: five minutes are for a busy machine.
HOW = ["-p", "hostwire-core", "--baseline", "skip", "--timeout", "300", "--no-shuffle", "--colors", "never"]
TESTS = ["--", "--lib", "--test", "it"]
# cargo-mutants' own: all caught; some never ended.
CAUGHT = (0, 3)


def mutants(name, *options, seconds=None):
    """Runs some. Whether all were caught, or nothing if the time was over before."""
    command = ["cargo", "mutants", *HOW, "--output", str(OUT / name), *options, *TESTS]
    env = {**os.environ, "CARGO_PROFILE_DEV_DEBUG": "0"}
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL)
    try:
        return process.wait(seconds) in CAUGHT
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()
        return None


def changed(minutes):
    base = os.environ.get("HOSTWIRE_BASE", "HEAD~1")
    command = ["git", "diff", base, "--", "core/src"]
    diff = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if diff.returncode != 0:
        print(f"no diff to {base}, so nothing to compare with: {diff.stderr.strip()}")
        return 0
    OUT.mkdir(parents=True, exist_ok=True)
    patch = OUT / "changed.diff"
    patch.write_text(diff.stdout)
    if not diff.stdout:
        print(f"core is what it is in {base}")
        return 0
    caught = mutants("changed", "--in-diff", str(patch), seconds=minutes * 60)
    if caught is None:
        # What was judged by then is written down; a mutant that lived until then fails the step all the same.
        lived = OUT / "changed" / "mutants.out" / "missed.txt"
        caught = not (lived.exists() and lived.read_text().strip())
        print(f"stopped after {minutes} minutes; the rest comes with the shards")
    return 0 if caught else 1


def shards():
    OUT.mkdir(parents=True, exist_ok=True)
    lived = []
    start = int(NEXT.read_text()) if NEXT.exists() else 0
    for step in range(SHARDS):
        shard = (start + step) % SHARDS
        print(f"shard {shard} of {SHARDS}", flush=True)
        if not mutants(f"shard-{shard}", "--shard", f"{shard}/{SHARDS}"):
            lived.append(shard)
        NEXT.write_text(f"{(shard + 1) % SHARDS}\n")
    print(f"mutants live in {len(lived)} shards {lived}")
    return 1 if lived else 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["changed"]:
            sys.exit(changed(5))
        case ["changed", minutes] if minutes.isdecimal():
            sys.exit(changed(int(minutes)))
        case ["shards"]:
            sys.exit(shards())
        case _:
            print(__doc__, file=sys.stderr)
            sys.exit(64)
