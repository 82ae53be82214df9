"""The oracle: `python3 vectors/oracle make` writes the vectors, `python3 vectors/oracle check` compares and decodes them.

`check` fails if a file differs from its description in one byte, is missing, is extra, or does not decode to what it
says. Python's standard library only.
"""

import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import auth, candidate, control, documents, frames, headers, negotiation, reader, requests, whole  # noqa: E402,E401

ROOT = HERE.parent / "files"


def described():
    files = {}
    for module in (headers, documents, auth, frames, control, negotiation, candidate, requests, whole):
        for file in module.files():
            assert file.path not in files, f"{file.path} is described twice"
            files[file.path] = file.text()
    return files


def make(files):
    for path, text in files.items():
        target = ROOT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for path in sorted(ROOT.rglob("*.vec")):
        if path.relative_to(ROOT).as_posix() not in files:
            path.unlink()
    return check(files)


def check(files):
    wrong, cases = [], 0
    here = {path.relative_to(ROOT).as_posix(): path for path in ROOT.rglob("*.vec")}
    for path in sorted(files.keys() | here.keys()):
        if path not in here:
            wrong.append(f"{path}: missing; run `python3 vectors/oracle make`")
        elif path not in files:
            wrong.append(f"{path}: no description makes this file")
        else:
            text = here[path].read_text()
            if text != files[path]:
                pairs = zip(text.split("\n") + [""], files[path].split("\n") + [""])
                line = next((n for n, (a, b) in enumerate(pairs, 1) if a != b), 0)
                wrong.append(f"{path}:{line}: differs from its description")
            try:
                cases += reader.check(text)
            except reader.Wrong as error:
                wrong.append(f"{path}:{error}")
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(here)} files, {cases} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] not in (["make"], ["check"]):
        print("usage: python3 vectors/oracle make|check", file=sys.stderr)
        sys.exit(64)
    sys.exit({"make": make, "check": check}[sys.argv[1]](described()))
