#!/usr/bin/env python3
"""Plants each fault of faults.toml in a copy of core and shows that the tests named for it go red, within a minute.

    testing/planted/plant.py [WORD]           every fault (or those whose kind has the word) against the tests named for it
    testing/planted/plant.py discover [WORD]  against all of core's tests: which go red
    testing/planted/plant.py check            whether each has its place and its tests, and the docs their table; builds nothing
    testing/planted/plant.py table            writes that table, docs/planted.md

A fault that has lost its place, does not build, or is not caught fails by itself: the others are tried all the same, and the exit status is
1. Needs cargo and Python 3.11; the copy is in target/planted.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COPY = ROOT / "target" / "planted"
CORE = ["core", "Cargo.toml", "Cargo.lock", "README.md", "docs"]  # with what its tests read
TABLE = ROOT / "docs" / "planted.md"
MINUTE = 60


class Failed(Exception):
    """Why a fault could not be tried."""


def copy():
    """Core alone, as a workspace of its own, so that a fault costs one crate's build."""
    for name in CORE:
        source, target = ROOT / name, COPY / name
        if source.is_dir():
            # Nothing of what an earlier run planted, and nothing as old as what it built from that: cargo goes by the files' times.
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, copy_function=shutil.copy)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    manifest = (COPY / "Cargo.toml").read_text()
    manifest = re.sub(r"members = \[.*?\]", 'members = ["core"]', manifest, flags=re.DOTALL)
    (COPY / "Cargo.toml").write_text(manifest)


def cargo(*words, timeout=None):
    """Runs cargo in the copy: its exit status, none where the time was over, and what it said."""
    # Each fault is built once and run once: what is quick to build is quickest.
    quick = {"CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_PROFILE_DEV_OPT_LEVEL": "0"}
    env = {**os.environ, "CARGO_TERM_COLOR": "never", "RUST_BACKTRACE": "0", **quick}
    process = subprocess.Popen(["cargo", *words], cwd=COPY, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        said, _ = process.communicate(timeout=timeout)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the test that does not end is cargo's child
        said, _ = process.communicate()
        return None, said


def edited(fault):
    text = (ROOT / fault["file"]).read_text()
    for old, new in (("old", "new"), ("also_old", "also_new")):
        if old in fault:
            if text.count(fault[old]) != 1:
                raise Failed(f"its place in {fault['file']} is gone, or there is another like it")
            text = text.replace(fault[old], fault[new])
    return text


def run(names):
    """Runs the tests of these names, or all: those that passed, those that went red, and how it ended where that was not by itself."""
    # Those below the code stand in modules of this name; what is not asked for is not built.
    below, beside = (any(("::tests::" in name) == inside for name in names) for inside in (True, False))
    tests = ["test", "-p", "hostwire-core", *["--lib"] * (below or not names), *["--test", "it"] * (beside or not names)]
    built, said = cargo(*tests, "--no-run")
    if built != 0:
        raise Failed("does not build:\n" + "\n".join(line for line in said.splitlines() if re.match(r"error|\s+-->", line)))
    words = ["--exact", *names] if names else []
    code, said = cargo(*tests, "--no-fail-fast", "--", *words, timeout=MINUTE if names else 5 * MINUTE)
    passed, red = (set(re.findall(rf"^test (\S+) \.\.\. {how}$", said, re.MULTILINE)) for how in ("ok", "FAILED"))
    # A panic while another unwinds aborts the process, and nobody is left to say which test it was; it was one of those that were asked for.
    end = "does not end" if code is None else "aborts" if code != 0 and not red else None
    return passed, red, end


def attempt(fault, discover):
    """Plants one fault. Returns whether it was caught as it is to be, and what was seen."""
    place, named = COPY / fault["file"], set(fault["caught_by"])
    place.write_text(edited(fault))
    try:
        _, red, end = run([] if discover else sorted(named))
    finally:
        place.write_text((ROOT / fault["file"]).read_text())
    seen = ", ".join([*sorted(red), *([end] if end else [])]) or "nothing went red"
    if discover:
        return bool(red or end) and named <= red, seen
    return bool(named) and (red == named or end == "aborts"), seen


def plant(faults, discover):
    copy()
    names = sorted({name for fault in faults for name in fault["caught_by"]})
    passed, red, end = run(names) if names else (set(), set(), None)
    if red or end or passed != set(names):
        sys.exit(f"without a fault: red {sorted(red)}, not run {sorted(set(names) - passed - red)}, {end or 'ended'}")
    lived = []
    for fault in faults:
        began = time.monotonic()
        try:
            caught, seen = attempt(fault, discover)
        except Failed as why:
            caught, seen = False, str(why)
        if not caught:
            lived.append(fault["kind"])
        print(f"{'caught' if caught else 'LIVES '} {time.monotonic() - began:4.0f} s  {fault['kind']}: {seen}", flush=True)
    print(f"{len(faults)} faults, {len(faults) - len(lived)} caught" + "".join(f"\n  not: {kind}" for kind in lived))
    return 1 if lived else 0


def table(faults):
    rows = [f"| {fault['kind']} | `{fault['file']}` | {', '.join(f'`{name}`' for name in fault['caught_by'])} |" for fault in faults]
    return "\n".join(["""# Faults planted on purpose

Written by `testing/planted/plant.py table` from `testing/planted/faults.toml`, which holds each fault as the lines that it changes.
`testing/planted/plant.py` plants one after the other in a copy of core, builds it, and runs the tests named here: every one of them has to go
red within a minute. `.ci/nightly` does that; `.ci/run` checks that each fault still has its place and its tests, and that this is the table.

| fault | planted in | goes red |
| --- | --- | --- |""", *rows, ""])


def check(faults):
    """Whether all of it still fits the sources."""
    wrong = []
    sources = "\n".join(path.read_text() for folder in ("src", "tests") for path in (ROOT / "core" / folder).rglob("*.rs"))
    for fault in faults:
        try:
            edited(fault)
        except Failed as why:
            wrong.append(f"{fault['kind']}: {why}")
        if not fault["caught_by"]:
            wrong.append(f"{fault['kind']}: no test is named")
        for name in fault["caught_by"]:
            if f"fn {name.split('::')[-1]}(" not in sources:
                wrong.append(f"{fault['kind']}: there is no test {name}")
    if not TABLE.exists() or TABLE.read_text() != table(faults):
        wrong.append("docs/planted.md is not the table of these faults: testing/planted/plant.py table writes it")
    print("\n".join(wrong) or f"{len(faults)} faults have their places and their tests")
    return 1 if wrong else 0


def main(words):
    faults = tomllib.loads((HERE / "faults.toml").read_text())["fault"]
    for fault in faults:
        fault.setdefault("caught_by", [])
    if words == ["check"]:
        return check(faults)
    if words == ["table"]:
        TABLE.write_text(table(faults))
        return 0
    discover = words[:1] == ["discover"]
    word = words[discover:]
    if len(word) > 1 or word and word[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 64
    return plant([fault for fault in faults if not word or word[0] in fault["kind"]], discover)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
