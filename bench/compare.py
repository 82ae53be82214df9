#!/usr/bin/env python3
"""Compares hostwire with a raw socket and with other libraries, in one run on one machine.

    bench/compare.py                                   # all contenders, all workloads: some 40 minutes
    bench/compare.py --quick                           # raw, the prototype and hostwire only: some minutes
    bench/compare.py --place one-core --workloads ping,pipeline
    bench/compare.py --report                          # tables and plots again, from bench/compare.json

Server and client are separate processes. Contenders take turns, a fresh pair of processes each time, so that whatever else the
machine does meets all of them; what is compared are medians. Results are kept in bench/compare.json, one entry per place and
workload, from which docs/benchmarks.md and its plots are made (bench/report.py).
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMPARE = HERE / "compare"
RESULTS = HERE / "compare.json"
WORKLOADS = ["ping", "pipeline", "fan", "block", "bulk", "stream", "connect"]
PLACES = {"free": ([], []), "one-core": (["taskset", "-c", "0"],) * 2}


@dataclass(frozen=True)
class Contender:
    name: str
    program: str
    runtime: str
    options: tuple = ()
    lacks: tuple = ()

    @property
    def key(self):
        return f"{self.name} {self.runtime}"

    @property
    def is_peer(self):
        return self.program.startswith("peer-")


def contenders():
    found = []
    for name in ("raw", "mux"):
        found += [Contender(name, "raw", rt, (f"variant={name}",)) for rt in ("ct", "mt", "smol")]
        found.append(Contender(f"{name}-unix", "raw", "ct", (f"variant={name}", "net=unix")))
    found += [Contender("hostwire", "ours", rt) for rt in ("ct", "mt", "smol")]
    found.append(Contender("hostwire-unix", "ours", "ct", ("net=unix",)))
    for name in ("tarpc", "tonic", "h2", "yamux", "jsonrpsee"):
        lacks = ("stream",) if name == "tarpc" else ()
        found += [Contender(name, f"peer-{name}", rt, lacks=lacks) for rt in ("ct", "mt")]
    return found


def target():
    return Path(os.environ.get("CARGO_TARGET_DIR", COMPARE / "target")) / "release"


def build(chosen):
    packages = sorted({c.program for c in chosen})
    command = ["cargo", "build", "--release", "--locked"] + [part for p in packages for part in ("-p", p)]
    subprocess.run(command, cwd=COMPARE, check=True)


class Server:
    """A server process; it ends with its standard input."""

    def __init__(self, contender, pin=(), options=()):
        self.directory = tempfile.mkdtemp(prefix="hostwire-bench-")
        os.chmod(self.directory, 0o700)
        self.contender = contender
        self.port = random.randrange(20_000, 30_000)  # only the name of a Unix domain socket
        self.process = self.start(pin, "server", f"port={self.port}", *options)
        self.port = ready(self.process)

    def start(self, pin, role, *options):
        command = [*pin, target() / self.contender.program, role, f"rt={self.contender.runtime}",
                   f"dir={self.directory}", *self.contender.options, *options]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                text=True)

    def client(self, pin, workload, seconds, options=()):
        process = self.start(pin, "client", f"port={self.port}", f"server={self.process.pid}", f"workload={workload}",
                             f"secs={seconds}", *options)
        try:
            out, _ = process.communicate(timeout=60 + 10 * seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None
        lines = [line for line in out.splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else None

    def stop(self):
        stop(self.process)
        shutil.rmtree(self.directory, ignore_errors=True)


def ready(process):
    line = process.stdout.readline().split()
    if not line or line[0] != "READY":
        raise RuntimeError("a process did not start")
    return int(line[1])


def stop(process):
    process.stdin.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def once(contender, workload, place, seconds):
    server_pin, client_pin = PLACES[place]
    try:
        server = Server(contender, server_pin)
    except RuntimeError:
        return None
    try:
        return server.client(client_pin, workload, seconds)
    finally:
        server.stop()


# Fairness: a caller on a connection of its own, and a hog on the same host or on another.

HOGS = ["bodies", "stalled", "cancels"]


def fairness(kind, where, seconds):
    contender = Contender("hostwire", "ours", "ct")
    servers = [Server(contender), Server(contender)]
    hogged = servers[0 if where == "same" else 1]
    try:
        hog = hogged.start((), "hog", f"kind={kind}", f"port={hogged.port}")
        ready(hog)
        time.sleep(0.3)
        result = servers[0].client((), "ping", seconds)
        stop(hog)
        return result
    finally:
        for server in servers:
            server.stop()


# Idle: many connections that nobody uses.

def status(pid, key):
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(key))


def wakeups(pid):
    """By thread: one that ends takes its count with it."""
    counts = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as lines:
            counts[task] = next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
    return counts


def idle(runtime, connections, seconds):
    contender = Contender("hostwire", "ours", runtime)
    server = Server(contender, options=(f"connections={connections + 8}",))
    try:
        def holder(count):
            process = server.start((), "idle", f"connections={count}", f"port={server.port}")
            ready(process)
            return process

        few = holder(1)
        base = [status(pid, "VmRSS") for pid in (server.process.pid, few.pid)]
        many = holder(connections)
        time.sleep(15)  # setup's timers run out, and the threads that read the discovery file end
        pids = (server.process.pid, many.pid)
        memory = [(status(pid, "VmRSS") - before) / connections for pid, before in zip(pids, base)]
        before = [wakeups(pid) for pid in pids]
        time.sleep(seconds)
        after = [wakeups(pid) for pid in pids]
        woken = [sum(count - first[task] for task, count in last.items() if task in first) / seconds
                 for first, last in zip(before, after)]
        stop(many)
        stop(few)
        return {"connections": connections, "kib_host": memory[0], "kib_client": memory[1],
                "wakeups_host": woken[0], "wakeups_client": woken[1]}
    finally:
        server.stop()


# Results.

def summary(runs):
    found = {}
    for key in runs[0]:
        values = sorted(run[key] for run in runs)
        found[key] = statistics.median(values)
    rates = sorted(run["rate"] for run in runs)
    found["rate_low"], found["rate_high"] = rates[0], rates[-1]
    found["runs"] = len(runs)
    return found


def machine():
    model = "unknown"
    with open("/proc/cpuinfo") as lines:
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    model = f"{fields.get('vendor_id', '')} family {fields.get('cpu family', '')} model {fields.get('model', '')}"
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    return {"processors": os.cpu_count(), "model": model, "virtual": "hypervisor" in fields.get("flags", ""),
            "kernel": os.uname().release.split("-")[0], "rustc": rustc,
            "day": time.strftime("%Y-%m-%d", time.gmtime())}


def load():
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {"workloads": {}}


def keep(results):
    results["machine"] = machine()
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def show(place, workload, rows):
    raw = max((row["rate"] for key, row in rows.items() if key.split()[0] == "raw"), default=None)
    print(f"\n{workload}, {place}")
    for key, row in sorted(rows.items(), key=lambda item: -item[1]["rate"]):
        ratio = f"{row['rate'] / raw:5.2f}" if raw else "    -"
        print(f"  {key:20} {row['rate']:11.0f}/s {ratio} of raw  p50 {row['p50'] / 1e3:7.1f} us  p99 {row['p99'] / 1e3:8.1f} us"
              f"  cpu {row['cpu_client'] / 1e3:6.2f} + {row['cpu_server'] / 1e3:6.2f} us"
              f"  waited {row['waited']:.2f}  ({row['rate_low']:.0f} to {row['rate_high']:.0f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--secs", type=float, default=1.0)
    parser.add_argument("--place", choices=PLACES, default="free")
    parser.add_argument("--workloads", default=",".join([*WORKLOADS, "fairness", "idle"]))
    parser.add_argument("--only", default="", help="contenders, as `hostwire` or `hostwire ct`, separated by commas")
    parser.add_argument("--quick", action="store_true", help="no peers, three repetitions")
    parser.add_argument("--dry", action="store_true", help="keep no results")
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--report", action="store_true", help="only tables and plots")
    arguments = parser.parse_args()
    if arguments.report:
        import report
        return report.write()
    only = [name for name in arguments.only.split(",") if name]
    chosen = [c for c in contenders() if (not only or c.name in only or c.key in only)
              and not (arguments.quick and c.is_peer) and not (arguments.place != "free" and c.runtime == "mt")]
    reps = min(arguments.reps, 3) if arguments.quick else arguments.reps
    workloads = arguments.workloads.split(",")
    if not arguments.no_build:
        build(chosen)
    results = load()
    for workload in workloads:
        if workload == "fairness":
            got = {}
            for _ in range(reps):
                for kind in HOGS:
                    for where in ("same", "other"):
                        run = fairness(kind, where, arguments.secs)
                        if run:
                            got.setdefault(f"{kind} {where}", []).append(run)
            rows = {key: summary(runs) for key, runs in got.items()}
            for key, row in rows.items():
                print(f"fairness {key:16} p50 {row['p50'] / 1e3:8.1f} us  p99 {row['p99'] / 1e3:8.1f} us  {row['rate']:.0f}/s", flush=True)
        elif workload == "idle":
            rows = {rt: idle(rt, 10_000, 5) for rt in ("ct", "smol")}
            print("idle", json.dumps(rows, indent=1), flush=True)
        else:
            got = {}
            able = [c for c in chosen if workload not in c.lacks]
            for _ in range(reps):
                random.shuffle(able)
                for contender in able:
                    run = once(contender, workload, arguments.place, arguments.secs)
                    if run:
                        got.setdefault(contender.key, []).append(run)
                    else:
                        print(f"# {workload} {contender.key}: no result", file=sys.stderr)
            rows = {key: summary(runs) for key, runs in got.items()}
            show(arguments.place, workload, rows)
        place = results["workloads"].setdefault(arguments.place, {})
        place[workload] = {**place.get(workload, {}), **rows} if only else rows
        if not arguments.dry:
            keep(results)
    if not arguments.dry:
        import report
        report.write()
    return None


if __name__ == "__main__":
    main()
