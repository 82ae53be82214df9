#!/usr/bin/env python3
"""Breaks a line per rule of child processes, one at a time, and checks that the rule's test goes red (PA16).

    .ci/child-mutants.py [ID…]      all of testing/processes/mutants.txt, or those

Works on the files in place and puts them back, also when it is interrupted. Needs a clean tree.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def mutants():
    """(ID, file, test filter, text that goes, text that comes) of each block."""
    for block in (ROOT / "testing/processes/mutants.txt").read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            rule, file, test = lines[0].split()
            old = "\n".join(line[1:] for line in lines[1:] if line.startswith("-"))
            new = "\n".join(line[1:] for line in lines[1:] if line.startswith("+"))
            yield rule, ROOT / file, test, old, new


# Where a named test may stand, and what runs it there.
PLACES = {
    "core/src/child": ["-p", "hostwire-core", "--lib"],
    "shell/src/process": ["-p", "hostwire", "--lib"],
    "testing/processes/tests/it": ["-p", "hostwire-processes", "--test", "it"],
}


def place(file, test):
    """What runs the test: the place of the line itself comes first."""
    places = sorted(PLACES, key=lambda folder: not str(file.relative_to(ROOT)).startswith(folder))
    for folder in places:
        if any(f"fn {test}" in source.read_text() for source in (ROOT / folder).rglob("*.rs")):
            return PLACES[folder]
    raise SystemExit(f"no test begins with {test}")


def main(wanted):
    lived = []
    for rule, path, test, old, new in mutants():
        if wanted and rule not in wanted:
            continue
        text = path.read_text()
        where = place(path, test)
        assert text.count(old) == 1, f"{rule}: its line stands {text.count(old)} times in {path.name}"
        try:
            path.write_text(text.replace(old, new))
            command = ["cargo", "test", "-q", "-p", "hostwire-core", "--lib", f"{test}"]
            try:
                done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
                verdict = "red" if "test result: FAILED" in done.stdout else "lives" if done.returncode == 0 else "broken"
            except subprocess.TimeoutExpired:
                verdict = "red (never ends)"
        finally:
            path.write_text(text)
        print(f"{rule:<5}{verdict}", flush=True)
        if verdict in ("lives", "broken"):
            lived.append(rule)
    print(f"{len(lived)} not red" + "".join(f" {rule}" for rule in lived))
    return 1 if lived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
