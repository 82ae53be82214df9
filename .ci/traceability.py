#!/usr/bin/env python3
"""Joins the rule IDs of docs/protocol.md and docs/child-processes.md with what proves and what enforces them.

A rule is *proven* by a vector that names it, or by test code that cites it; a rule is *enforced* by a line of code outside
tests that cites it in a plain comment. (Doc comments explain, they enforce nothing.) A scenario (AE1, V12) needs a proof
only. What is missing stands in .ci/traceability-missing.txt, one `ID proof` or `ID line` a line. That list may only shrink:
something missing that is not on it is an error, and so is an entry that is no longer missing, or a citation of a rule that
does not exist.

    .ci/traceability.py            check, the tables included
    .ci/traceability.py tables     write the tables: docs/conformance.md, and the last column of docs/field-reports.md
    .ci/traceability.py shrink     drop from the list what is no longer missing
    .ci/traceability.py show ID    where one rule is cited
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MISSING = ROOT / ".ci" / "traceability-missing.txt"
CONFORMANCE = ROOT / "docs" / "conformance.md"
FIELD_REPORTS = ROOT / "docs" / "field-reports.md"
SKIPPED = {"target", "mutants.out", ".git"}

# Rules that no line of code enforces: they say what the words mean, or what is left to others.
DEFINITIONS = {"T1", "T2", "T3", "Q6"}

# Where code enforces rules. The vectors' own code only plays them.
ENFORCING = {"core", "shell", "shell-tokio", "shell-smol", "cli"}


# No leading zero and at most two digits: `B015` is something else.
ID = r"\b([A-Z]{1,2})([1-9]\d?)(?:\s?(?:–|-|to)\s?([A-Z]{1,2})([1-9]\d?))?\b"


def rules():
    """Rules and scenarios of the contract, in its order: {ID: is a scenario}."""
    found, scenarios = {}, False
    for line in (ROOT / "docs" / "protocol.md").read_text().splitlines():
        scenarios = scenarios or line.startswith("## 19.")
        cell = re.match(r"\| ([A-Z]{1,2}\d+(?:, [A-Z]{1,2}\d+)*) \|", line)
        if cell:
            for rule in cell.group(1).split(", "):
                assert rule not in found, f"{rule} stands twice in the contract"
                found[rule] = scenarios
    assert len(found) > 150, "the contract's tables have changed their form"
    # What is promised of child processes: each is a test, wherever its line is.
    for line in (ROOT / "docs" / "child-processes.md").read_text().splitlines():
        cell = re.match(r"\| (P[ABD]\d+) \|", line)
        if cell:
            assert cell.group(1) not in found, f"{cell.group(1)} stands twice"
            found[cell.group(1)] = True
    assert sum(rule.startswith("P") and len(rule) > 2 for rule in found) > 50, "the child's table has changed its form"
    return found


def citations(text, families):
    """IDs in a piece of text, with ranges (`A1–A10`, `A1-A10`, `A1 to A10`) spelled out."""
    for first, low, second, high in re.findall(ID, text):
        if first in families:
            last = int(high) if second == first else int(low)
            for number in range(int(low), max(int(low), last) + 1):
                yield f"{first}{number}"


def sources(suffix):
    for path in sorted(ROOT.rglob(f"*{suffix}")):
        if not SKIPPED & set(path.relative_to(ROOT).parts):
            yield path


def is_test_file(path):
    """A file of tests: in a `tests` folder, or below `testing/`, `fuzz/`, or named so."""
    parts = path.relative_to(ROOT).parts
    return "tests" in parts or path.name == "tests.rs" or parts[0] in ("testing", "fuzz")


def split_rust(path):
    """(comments of code outside tests, all of the test code), each as [(line, text)]."""
    lines = path.read_text().splitlines()
    if is_test_file(path):
        return [], list(enumerate(lines, 1))
    plain, tests, inside = [], [], False
    for number, line in enumerate(lines, 1):
        # By our style tests stand last in a file, so what follows the first `cfg(test)` on a module is test code.
        if re.match(r"\s*#\[cfg\(test\)\]", line) and any(
            re.match(r"\s*(pub(\([a-z]+\))? )?mod \w+ \{", later) for later in lines[number:number + 3]
        ):
            inside = True
        if inside:
            tests.append((number, line))
            continue
        comment = re.search(r"(?<![:\"'/])//(?![/!])(.*)", line)
        if comment and path.relative_to(ROOT).parts[0] in ENFORCING:
            plain.append((number, comment.group(1)))
    return plain, tests


def collect(families):
    proofs, lines = {}, {}

    def note(where, rule, path, number):
        where.setdefault(rule, []).append(f"{path.relative_to(ROOT)}:{number}")

    for path in sources(".rs"):
        plain, tests = split_rust(path)
        for place, found in ((lines, plain), (proofs, tests)):
            for number, text in found:
                # A test may cite a rule in its name: `w9_the_version_is_judged_first`.
                # Field reports, three digits, may stand among them: `b106_v23_a5_…`.
                named = re.search(r"\bfn ((?:[a-z]{1,2}[1-9]\d{0,2}_)+)", text) if place is proofs else None
                names = re.findall(r"[A-Z]{1,2}[1-9]\d?(?=_)", named.group(1).upper()) if named else []
                cited = set(citations(f"{text} {' '.join(names)}", families))
                for rule in cited:
                    note(place, rule, path, number)
    for path in sources(".vec"):
        for number, text in enumerate(path.read_text().splitlines(), 1):
            if text.startswith("case "):
                for rule in text[5:].split(": ", 1)[0].split():
                    note(proofs, rule, path, number)
    return proofs, lines


def reports(text):
    """The field reports that a piece of text cites, in a name or a comment."""
    return {found.upper() for found in re.findall(r"(?<![A-Za-z0-9])[Bb]\d{3}(?![0-9])", text)}


def name_at(lines, number):
    """The function that a line of tests belongs to: for a comment above one that one, else the one before it."""
    ahead = number - 1
    while ahead < len(lines) and re.match(r"\s*(//|#\[|$)", lines[ahead]):
        ahead += 1
    behind = range(number - 1, -1, -1)
    commented = lines[number - 1].lstrip().startswith("//")
    for index in [ahead, *behind] if commented else behind:
        found = index < len(lines) and re.match(r"\s*(?:pub(?:\([a-z]+\))? )?(?:async )?fn (\w+)", lines[index])
        if found:
            return found.group(1)
    return None


def where(place):
    """`file::test` of a proof, `file` of a line of code; a case of a vector by the file's name."""
    path, number = place.rsplit(":", 1)
    if path.endswith(".rs"):
        name = name_at((ROOT / path).read_text().splitlines(), int(number))
        return f"`{path}`" if name is None else f"`{path}` {name}"
    return f"`{path}`"


def cell(places, named):
    """A table's cell: the first three places, and how many there are besides."""
    found = sorted({where(place) if named else f"`{place.rsplit(':', 1)[0]}`" for place in places}, key=lambda text: (" " not in text, text))
    return ", ".join(found[:3]) + (f", and {len(found) - 3} more" if len(found) > 3 else "")


def conformance(known, proofs, lines):
    """docs/conformance.md."""
    text = [
        "# Rules, and what holds them",
        "",
        "Written by `.ci/traceability.py tables` from the rule IDs in tests, vectors and comments; checked in CI, where a rule without a",
        "test, a scenario without a result, or a table that is not this one fails. Three places a cell; `.ci/traceability.py show ID` names",
        "all, with their lines. The rules themselves are in [protocol.md](protocol.md).",
    ]
    for title, scenario in (("Rules", False), ("Scenarios", True)):
        text += ["", f"## {title}", "", "| ID | proven by | enforced in |" if not scenario else "| ID | proven by |",
                 "| --- | --- | --- |" if not scenario else "| --- | --- |"]
        for rule, is_scenario in known.items():
            if is_scenario == scenario:
                enforced = [] if scenario else [cell(lines.get(rule, []), False) or "says what words mean"]
                text.append("| " + " | ".join([rule, cell(proofs.get(rule, []), True) or "**nothing**", *enforced]) + " |")
    return "\n".join(text) + "\n"


def field_reports():
    """docs/field-reports.md with its last column as the tests say, and the rows that no test cites."""
    cited = {}
    for path in sources(".rs"):
        for number, line in split_rust(path)[1]:
            for report in reports(line):
                cited.setdefault(report, []).append(f"{path.relative_to(ROOT)}:{number}")
    for path in [*sources(".vec"), *sources(".py")]:
        if path.name != "traceability.py":
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for report in reports(line):
                    cited.setdefault(report, []).append(f"{path.relative_to(ROOT)}:{number}")
    rows, bare = [], []
    for line in FIELD_REPORTS.read_text().splitlines():
        row = re.match(r"\| (B\d{3}) \|", line)
        if row:
            places = cell(cited.get(row.group(1), []), True)
            bare += [] if places else [row.group(1)]
            line = line.rsplit(" | ", 1)[0] + f" | {places or '**nothing**'} |"
        rows.append(line)
    return "\n".join(rows) + "\n", bare


def once_listed(entries):
    """Those of the entries that some earlier version of the list did not have: it may only shrink."""

    def git(*words):
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""

    name = MISSING.relative_to(ROOT).as_posix()
    grown = set()
    for commit in git("log", "--format=%H", "--", name).split():
        before = set(git("show", f"{commit}:{name}").splitlines())
        grown |= {entry for entry in entries if before and entry not in before}
    return grown


def main(arguments):
    known = rules()
    families = {re.match(r"[A-Z]+", rule).group() for rule in known}
    proofs, lines = collect(families)
    if len(arguments) == 2 and arguments[0] == "show":
        for name, where in (("proof", proofs), ("line", lines)):
            for place in where.get(arguments[1], ["none"]):
                print(f"{name:<6}{place}")
        return 0
    if arguments == ["tables"]:
        CONFORMANCE.write_text(conformance(known, proofs, lines))
        FIELD_REPORTS.write_text(field_reports()[0])
        return 0
    if arguments not in ([], ["shrink"]):
        print(__doc__, file=sys.stderr)
        return 64

    missing = [f"{rule} proof" for rule in known if rule not in proofs]
    missing += [
        f"{rule} line" for rule, scenario in known.items()
        if not scenario and rule not in DEFINITIONS and rule not in lines
    ]
    listed = [line for line in MISSING.read_text().splitlines() if line and not line.startswith("#")]
    if arguments == ["shrink"]:
        kept = set(listed) & set(missing)
        text = [line for line in MISSING.read_text().splitlines() if not line or line.startswith("#") or line in kept]
        MISSING.write_text("\n".join(text) + "\n")
        listed = [line for line in listed if line in kept]

    wrong = [f"{entry}: missing, and not on the list; cite the rule, do not list it" for entry in missing
             if entry not in listed]
    wrong += [f"{entry}: no longer missing; remove it from the list (`.ci/traceability.py shrink`)"
              for entry in listed if entry not in missing and entry.split()[0] in known]
    wrong += [f"{entry}: on the list for the second time" for entry in set(listed) if listed.count(entry) > 1]
    wrong += [f"{entry}: was not on the list before; it may only shrink" for entry in sorted(once_listed(listed))]
    wrong += [f"{entry}: on the list, but no such rule" for entry in listed if entry.split()[0] not in known]
    for name, where in (("proof", proofs), ("line", lines)):
        wrong += [f"{rule}: cited as a {name} at {where[rule][0]}, but no such rule"
                  for rule in sorted(where.keys() - known.keys())]
    table, bare = field_reports()
    wrong += [f"{report}: a field report that no test cites" for report in bare]
    wrong += [f"{path.relative_to(ROOT)}: not what the tests say (`.ci/traceability.py tables`)"
              for path, text in ((CONFORMANCE, conformance(known, proofs, lines)), (FIELD_REPORTS, table))
              if path.read_text() != text]
    for line in wrong:
        print(line, file=sys.stderr)
    done = len(known) - len({entry.split()[0] for entry in missing})
    print(f"{len(known)} rules and scenarios, {done} complete, {len(missing)} pieces missing, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
