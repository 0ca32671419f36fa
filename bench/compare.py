#!/usr/bin/env python3
"""Measures `warpgroup embed` and its peers in turns on one corpus and gives medians, spread and ratios.

usage: compare.py --warpgroup FILE --model DIR --corpus FILE.jsonl --python VENV/bin/python [--peer SPEC]...

A machine's speed drifts, so nothing is compared with a figure of another hour: in every round each
contestant runs once, and the order is turned by one from round to round. A ratio is the median of
the ratios of the rounds. Model load is outside all figures: a peer keeps its process and its model and runs
when told to; warpgroup is started anew each time and its own report.json is read.

SPEC   hf[:BATCH]  st[:BATCH]  ov[:BATCH[xSTREAMS]]  ort[:BATCH[xSTREAMS]]  ort-plain[:BATCH[xSTREAMS]]
Writes compare.json and compare.md into --out.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = {"hf": ["hf_padded.py"], "st": ["st_encode.py"], "ov": ["ov_sorted.py"],
           "ort": ["ort_sorted.py", "--graph", "fused"], "ort-plain": ["ort_sorted.py", "--graph", "plain"]}
DEFAULT_PEERS = "hf:8 st:32 ov:1 ov:4 ov:32 ov:1x2 ov:4x2 ov:16x2 ort-plain:1x2 ort-plain:16x2".split()
PAUSE_S = 0.5  # thread pools spin for a while after their work; longer than any of theirs


def peer_command(spec, args, corpus):
    parsed = re.fullmatch(r"([a-z-]+)(?::(\d+)(?:x(\d+))?)?", spec)
    if not parsed or parsed[1] not in SCRIPTS:
        sys.exit(f"compare: peer '{spec}' is unknown; one of {', '.join(SCRIPTS)}, then :BATCH or :BATCHxSTREAMS")
    kind, batch, streams = parsed.groups()
    script, *rest = SCRIPTS[kind]
    command = [args.python, str(HERE / "peers" / script), *rest, "--serve", "--model", args.model,
               "--corpus", corpus, "--threads", str(args.threads), "--max-length", str(args.max_length)]
    command += ["--batch", batch] if batch else []
    return command + (["--streams", streams] if streams else [])


class Peer:
    """A peer script kept running; run() has it do the corpus once."""

    def __init__(self, spec, command):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True)
        self.name = self.answer(spec)["ready"]

    def answer(self, who):
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: peer {who} ended:\n{self.log.read()[-2000:]}")
        return json.loads(line)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer(self.name)

    def run(self):
        return self.ask("run")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Warpgroup:
    """The CLI, a new process for each run."""

    def __init__(self, args, corpus):
        self.name = "warpgroup"
        self.command = [args.warpgroup, "embed", "-m", args.model, "--max-length", str(args.max_length),
                        "--threads", str(args.threads), "--progress", "none", *args.warpgroup_args.split(), corpus]

    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "out")
            start = time.perf_counter()
            done = subprocess.run([*self.command, "-o", str(out)], capture_output=True, text=True)
            wall = time.perf_counter() - start
            if done.returncode != 0:
                sys.exit(f"compare: {' '.join(self.command)} gave status {done.returncode}:\n{done.stderr[-2000:]}")
            report = json.loads((out / "report.json").read_text())
        return {"peer": self.name, "documents": report["documents"], "tokens": report["tokens"],
                "seconds": round(report["tokens"] / report["tokens_per_s"], 4),
                "tokens_per_s": report["tokens_per_s"], "padding": report["padding"],
                "wall_s": round(wall, 4), "rss_mb": round(report["peak_bytes"] / 2**20),
                "versions": {"warpgroup": report.get("versions")}}

    def close(self):
        pass


def machine():
    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"cpu": model[1] if model else platform.machine(), "cpus": len(os.sched_getaffinity(0)),
            "kernel": platform.release(), "load": os.getloadavg()[0]}


def limited(corpus, limit, folder):
    """The corpus, or a file of its first `limit` lines, so that every contestant reads the same."""
    if not limit:
        return corpus
    path = pathlib.Path(folder, pathlib.Path(corpus).name)
    with open(corpus) as source:
        path.write_text("".join(line for _, line in zip(range(limit), source)))
    return str(path)


def measure(contestants, rounds):
    """{name: [result of each round]}; one round more comes first and is not counted."""
    results = {c.name: [] for c in contestants}
    for turn in range(rounds + 1):
        for i in range(len(contestants)):
            c = contestants[(turn + i) % len(contestants)]
            result = c.run()
            print(f"{'warm-up' if turn == 0 else f'round {turn}'}: {c.name} "
                  f"{result['tokens_per_s']:.0f} tokens/s", file=sys.stderr)
            if turn > 0:
                results[c.name].append(result)
            time.sleep(PAUSE_S)
    return results


def summarise(results, base):
    rows = []
    for name, runs in results.items():
        speeds = [r["tokens_per_s"] for r in runs]
        ratios = [b["tokens_per_s"] / r["tokens_per_s"] for b, r in zip(results[base], runs)]
        rows.append({"peer": name, "tokens": runs[0]["tokens"], "median": statistics.median(speeds),
                     "min": min(speeds), "max": max(speeds), "ratio": statistics.median(ratios),
                     "ratio_min": min(ratios), "ratio_max": max(ratios), "padding": runs[0]["padding"],
                     "rss_mb": max(r["rss_mb"] for r in runs), "versions": runs[0]["versions"]})
    return sorted(rows, key=lambda r: -r["median"])


def table(rows, base):
    lines = [f"| | real tokens/s, median (min-max) | {base} is faster by (min-max) | padding | peak MB |",
             "|---|---|---|---|---|"]
    for r in rows:
        lines.append(f"| {r['peer']} | {r['median']:.0f} ({r['min']:.0f}-{r['max']:.0f}) | "
                     f"{r['ratio']:.2f} ({r['ratio_min']:.2f}-{r['ratio_max']:.2f}) | "
                     f"{100 * r['padding']:.1f} % | {r['rss_mb']} |")
    return "\n".join(lines) + "\n"


def parse():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--warpgroup", help="the CLI; without it only the peers are measured")
    ap.add_argument("--warpgroup-args", default="", help="more options for it, in one string")
    ap.add_argument("--model", required=True)
    ap.add_argument("--corpus", required=True)
    ap.add_argument("--limit", type=int, default=0, help="first N documents only")
    ap.add_argument("--peer", action="append", metavar="SPEC", help=f"default: {' '.join(DEFAULT_PEERS)}")
    ap.add_argument("--python", default=sys.executable, help="the interpreter that has the peers")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--max-length", type=int, default=512)
    ap.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    return ap.parse_args()


def main():
    args = parse()
    with tempfile.TemporaryDirectory() as folder:
        corpus = limited(args.corpus, args.limit, folder)
        contestants = [Warpgroup(args, corpus)] if args.warpgroup else []
        contestants += [Peer(spec, peer_command(spec, args, corpus)) for spec in args.peer or DEFAULT_PEERS]
        before = machine()
        results = measure(contestants, args.rounds)
        for c in contestants:
            c.close()
    tokens = {name: runs[0]["tokens"] for name, runs in results.items()}
    if len(set(tokens.values())) != 1:
        sys.exit(f"compare: the token counts differ, so the speeds cannot be compared: {tokens}")
    base = contestants[0].name
    rows = summarise(results, base)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "compare.json").write_text(json.dumps(
        {"machine": before, "corpus": pathlib.Path(args.corpus).name, "limit": args.limit,
         "threads": args.threads, "max_length": args.max_length, "rounds": args.rounds,
         "summary": rows, "runs": results}, indent=1) + "\n")
    (args.out / "compare.md").write_text(table(rows, base))
    print(table(rows, base), end="")


if __name__ == "__main__":
    main()
