"""The tables of docs/benchmarks.md and its plots, from bench/compare.json. Python's standard library only."""

import json
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "compare.json"
PAGE = HERE.parent / "docs" / "benchmarks.md"
PLOTS = HERE.parent / "docs" / "benchmarks"
BEGIN, END = "<!-- compared: begin -->", "<!-- compared: end -->"

ABOUT = {
    "ping": "256 B, one connection, one call at a time",
    "pipeline": "256 B, one connection, 32 calls under way",
    "fan": "256 B, 8 connections with 16 calls under way each",
    "block": "64 KiB, 4 calls under way",
    "bulk": "1 MiB, 4 calls under way",
    "stream": "a streamed answer of 100,000 items of 1 KiB",
    "connect": "connect, handshake, first answer (hostwire: an open route)",
}
ORDER = list(ABOUT)
PLACE = {"free": "client and server wherever the system puts them", "one-core": "both pinned to one processor"}


def processor(row):
    return row["cpu_client"] + row["cpu_server"]


def groups(rows):
    """Each contender on that of its tokio runtimes that uses less of the processors; smol and the socket kind by themselves."""
    found = {}
    for key, row in rows.items():
        name, runtime = key.split()
        name = f"{name} (smol)" if runtime == "smol" else name
        if name not in found or processor(row) < processor(found[name][1]):
            found[name] = (runtime, row)
    return found


def table(rows):
    found = groups(rows)
    ceiling = found["raw"][1]
    lines = ["| contender | runtime | processor time, client + server | of it in user mode | raw's share of it | p50 | p99 | per second | lowest to highest run |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name, (runtime, row) in sorted(found.items(), key=lambda item: processor(item[1][1])):
        latency = [f"{row[p] / 1e3:,.0f} µs" if row[p] else "–" for p in ("p50", "p99")]
        user = f"{row['user_client'] / 1e3:.2f} + {row['user_server'] / 1e3:.2f} µs" if "user_client" in row else "–"
        lines.append(f"| {name} | {runtime} | {row['cpu_client'] / 1e3:.2f} + {row['cpu_server'] / 1e3:.2f} µs | {user} "
                     f"| {processor(ceiling) / processor(row):.2f} | {latency[0]} | {latency[1]} | {row['rate']:,.0f} "
                     f"| {row['rate_low']:,.0f} to {row['rate_high']:,.0f} |")
    return lines


def plot(title, rows):
    found = groups(rows)
    ceiling = processor(found["raw"][1])
    bars = sorted(((name, ceiling / processor(row)) for name, (_, row) in found.items()), key=lambda bar: -bar[1])
    most = max(1.0, *(bar[1] for bar in bars))
    left, width, step = 150, 470, 24
    height = 56 + step * len(bars)
    scale = width / most
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 70}" height="{height}" '
           'font-family="sans-serif" font-size="12" role="img">',
           f"<title>{escape(title)}</title>", '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="8" y="18" font-weight="bold">{escape(title)}</text>',
           f'<line x1="{left + scale:.1f}" y1="28" x2="{left + scale:.1f}" y2="{height - 20}" stroke="#999" stroke-dasharray="3 3"/>',
           f'<text x="{left}" y="{height - 6}" fill="#555">operations per second of processor time, as a share of raw</text>']
    for index, (name, share) in enumerate(bars):
        y = 34 + step * index
        kind = name.split()[0].split("-")[0]
        color = "#1f6fb2" if kind == "hostwire" else "#c9a227" if kind in ("raw", "mux") else "#9aa5b1"
        out += [f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>',
                f'<rect x="{left}" y="{y + 2}" width="{share * scale:.1f}" height="14" fill="{color}"/>',
                f'<text x="{left + share * scale + 6:.1f}" y="{y + 13}">{share:.2f}</text>']
    return "\n".join([*out, "</svg>", ""])


def fairness(rows):
    lines = ["| hog | p50, same host | p50, other host | ratio | p99, same host | p99, other host | ratio |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for kind in dict.fromkeys(key.split()[0] for key in rows):
        same, other = rows.get(f"{kind} same"), rows.get(f"{kind} other")
        if same and other:
            cells = []
            for p in ("p50", "p99"):
                cells += [f"{same[p] / 1e3:,.0f} µs", f"{other[p] / 1e3:,.0f} µs", f"{same[p] / other[p]:.2f}"]
            lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return lines


def idle(rows):
    lines = ["| runtime | connections | resident memory each, host | client | wake-ups per second, host | client |",
             "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for runtime, row in rows.items():
        lines.append(f"| {runtime} | {row['connections']:,} | {row['kib_host']:.1f} KiB | {row['kib_client']:.1f} KiB "
                     f"| {row['wakeups_host']:.1f} | {row['wakeups_client']:.1f} |")
    return lines


def write():
    results = json.loads(RESULTS.read_text())
    PLOTS.mkdir(exist_ok=True)
    about = results["machine"]
    kind = "virtual " if about["virtual"] else ""
    lines = [f"Measured on {about['day']}: {about['processors']} {kind}processors ({about['model']}), Linux {about['kernel']}, "
             f"rustc {about['rustc']}.", ""]
    for place, workloads in sorted(results["workloads"].items()):
        for workload in [name for name in ORDER if name in workloads]:
            rows = workloads[workload]
            runs = max(row["runs"] for row in rows.values())
            waited = sorted(row["waited"] for row in rows.values())[len(rows) // 2]
            late = sorted(row["late_p99"] for row in rows.values())[len(rows) // 2]
            lines += [f"### {workload}: {ABOUT[workload]} ({place})", ""]
            lines += [f"{PLACE[place][0].upper()}{PLACE[place][1:]}; medians of {runs} runs. Ready threads waited "
                      f"{waited:.2f} s in each second for a processor"
                      + (f"; a timer of 5 ms was {late / 1e6:.1f} ms late at p99." if late else "."), ""]
            lines += table(rows)
            name = f"{workload}-{place}.svg"
            (PLOTS / name).write_text(plot(f"{workload}: {ABOUT[workload]} ({place})", rows))
            lines += ["", f"![{workload}, {place}](benchmarks/{name})", ""]
    free = results["workloads"].get("free", {})
    if "fairness" in free:
        lines += ["### fairness: a caller of 256 B beside a connection that takes what it can get", ""]
        lines += [*fairness(free["fairness"]), ""]
    if "idle" in free:
        lines += ["### idle: connections that nobody uses", "", *idle(free["idle"]), ""]
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + BEGIN + "\n\n" + "\n".join(lines) + "\n" + END + after)
