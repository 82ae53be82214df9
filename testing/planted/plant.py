#!/usr/bin/env python3
"""Plants each fault of faults.toml in a copy of the tree and shows that a named test catches it within a minute.

    testing/planted/plant.py             every fault, against the tests named for it, or against all of core's where none is
    testing/planted/plant.py discover    every fault, against all of core's tests
    testing/planted/plant.py check       whether each still has its place; builds nothing

Needs cargo and Python 3.11; the copy is in target/planted.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COPY = ROOT / "target" / "planted"
CORE = ["core", "Cargo.toml", "Cargo.lock", "README.md"]


def copy():
    """Core alone, as a workspace of its own, so that a fault costs one crate's build."""
    for name in CORE:
        source, target = ROOT / name, COPY / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    manifest = (COPY / "Cargo.toml").read_text()
    manifest = re.sub(r"members = \[.*?\]", 'members = ["core"]', manifest, flags=re.DOTALL)
    (COPY / "Cargo.toml").write_text(manifest)
    # docs that tests read
    shutil.copytree(ROOT / "docs", COPY / "docs", dirs_exist_ok=True)


def cargo(*words, timeout=None):
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


TESTS = ["test", "-p", "hostwire-core", "--lib", "--test", "it"]


def edited(fault):
    text = (ROOT / fault["file"]).read_text()
    for old, new in (("old", "new"), ("also_old", "also_new")):
        if old in fault:
            if text.count(fault[old]) != 1:
                sys.exit(f"{fault['kind']}: its place in {fault['file']} is gone, or there is another like it")
            text = text.replace(fault[old], fault[new])
    return text


def run(names):
    """The tests of these names (all of them, without): those that went red, whether they ended, and whether their process broke off."""
    built, said = cargo(*TESTS, "--no-run")
    if built != 0:
        sys.exit(f"does not build:\n{said}")
    red = set()
    code, said = cargo(*TESTS, "--no-fail-fast", "--", *(["--exact", *names] if names else []), timeout=60 if names else 300)
    red |= set(re.findall(r"^test (\S+) \.\.\. FAILED", said, re.MULTILINE))
    return (red, code is not None, code not in (None, 0) and not red, said)


def main(mode):
    faults = tomllib.loads((HERE / "faults.toml").read_text())["fault"]
    edits = [edited(fault) for fault in faults]
    if mode == "check":
        print(f"{len(faults)} faults have their places")
        return 0
    discover = mode == "discover"
    copy()
    names = sorted({name for fault in faults for name in fault.get("caught_by", [])})
    if names and not discover:
        red, ended, broke, said = run(names)
        ran = sum(int(count) for count in re.findall(r"test result: ok\. (\d+) passed", said))
        if red or broke or not ended or ran != len(names):
            sys.exit(f"without a fault: {len(names)} tests are named, {ran} passed, red: {sorted(red)}")
    lived = 0
    for fault, text in zip(faults, edits, strict=True):
        place = COPY / fault["file"]
        place.write_text(text)
        named = [] if discover else fault.get("caught_by", [])
        red, ended, broke, _ = run(named)
        place.write_text((ROOT / fault["file"]).read_text())
        # A panic while another unwinds aborts the process, and nobody is left to say which test it was.
        caught = broke or not ended or (red == set(named) if named else bool(red))
        lived += not caught
        how = "aborts" if broke else ", ".join(sorted(red)) if ended else "does not end"
        print(f"{'caught' if caught else 'LIVES '}  {fault['kind']}: {how}", flush=True)
    print(f"{len(faults)} faults, {len(faults) - lived} caught")
    return 1 if lived else 0


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["discover"], ["check"]):
        print(__doc__, file=sys.stderr)
        sys.exit(64)
    sys.exit(main("".join(sys.argv[1:])))
