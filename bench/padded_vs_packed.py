#!/usr/bin/env python3
"""Padded against packed: one model over one corpus of PDFs, by the systems that people choose between.

usage: padded_vs_packed.py --model DIR|FILE.gguf --corpus stress|uniform|long|FOLDER|FILE.jsonl --out DIR
                           [--systems hf,st,wrapper,engine] [--device cpu|cuda] [--dtype f32|bf16|f16]...

    hf       transformers, batches of 8 in arrival order, padded to the longest
    st       sentence-transformers encode(), batches of 32, sorted by length
    wrapper  the same transformers model on warpgroup's bins (warpgroup.VarlenModel)
    engine   `warpgroup embed`: no torch; computes on CPUs in f32, and is left out, by name, elsewhere

All get the same texts: the PDFs are read once, by `warpgroup read`, and the time that takes is stated apart.
Then, in turns, each system runs once a round in a process of its own that stays up with its model loaded (the
engine is started anew and says itself when its model was open). Inside a system's time: tokenising, packing
or padding, the forward passes, pooling. One round comes first and is not counted; after it the vectors of all
systems are compared, and a run in which they disagree, or count other tokens, ends there. A model in a GGUF
file is given to the torch systems as the same weights dequantised (peers/dequantise.py).

--no-limit: texts as long as the model has positions for. A padded batch may then need more memory than there is,
so what it would need is computed (padded_memory.py says how, and a smaller batch is run to check it), and
`hf` is run only with --run-padded.

Writes results.json, results.md, results.png and results.svg into --out.
"""
import argparse
import hashlib
import json
import os
import pathlib
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import make_pdfs
import padded_memory
import packed_report
from compare import HERE, PAUSE_S, Peer, Warpgroup, machine

SYSTEMS = ("hf", "st", "wrapper", "engine")
SCRIPTS = {"hf": "hf_padded.py", "st": "st_encode.py", "wrapper": "packed_hf.py"}
BATCHES = {"hf": 8, "st": 32}
# Largest difference of two vectors of length 1 that is rounding, and the least cosine.
AGREE = {"f32": (1e-3, 0.9999), "bf16": (0.2, 0.97), "f16": (0.05, 0.999)}
CHECK_LENGTH = 1024
CPU_FLAGS = ("fma", "avx2", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_tile", "asimd", "sve")


def fail(message):
    sys.exit(f"padded_vs_packed: {message}")


class Engine(Warpgroup):
    """The CLI; keeps the vectors of its last run, and knows what a run over one short text takes."""

    def __init__(self, args, model, corpus):
        super().__init__(argparse.Namespace(**{**vars(args), "model": str(model)}), corpus)
        self.name = "engine"
        self.folder = tempfile.TemporaryDirectory(prefix="warpgroup-bench-")
        tiny = pathlib.Path(self.folder.name, "tiny.jsonl")
        tiny.write_text('{"text": "One short text."}\n')
        report, _, self.start_cpu_s = self.report([*self.command[:-1], str(tiny)])
        self.loaded_mb = report["peak_bytes"] / 2**20

    def report(self, command):
        """(report.json, wall seconds, CPU seconds) of one process."""
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder.name))
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*command, "--normalize", "-o", str(out / "out")], capture_output=True, text=True)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if done.returncode != 0:
            fail(f"{' '.join(command)} gave status {done.returncode}:\n{done.stderr[-2000:]}")
        self.vectors = out / "out" / "embeddings.npy"
        return json.loads((out / "out" / "report.json").read_text()), wall, cpu

    def run(self):
        report, wall, cpu = self.report(self.command)
        peak = report["peak_bytes"] / 2**20
        rows = round(report["tokens"] / (1 - report["padding"]))
        return {"peer": self.name, "documents": report["documents"], "tokens": report["tokens"],
                "seconds": report["seconds"], "cpu_s": round(cpu - self.start_cpu_s, 4),
                "tokens_per_s": report["tokens"] / report["seconds"],
                "padding": report["padding"], "rows": rows, "threads": report["configuration"]["threads"],
                "rss_mb": round(peak), "loaded_mb": round(self.loaded_mb), "growth_mb": round(peak - self.loaded_mb, 1),
                "process_s": round(wall, 4), "bin_tokens": report["configuration"]["max_batch_tokens"],
                "bins": report["bins"], "report": report, "versions": {"warpgroup": report["warpgroup"]}}

    def save(self, path):
        pathlib.Path(path).write_bytes(self.vectors.read_bytes())

    def close(self):
        self.folder.cleanup()


class TorchSystem(Peer):
    """A script of peers/ that stays up."""

    def __init__(self, name, args, folder, corpus, max_length):
        command = [args.python, str(HERE / "peers" / SCRIPTS[name]), "--serve", "--model", str(folder),
                   "--corpus", corpus, "--threads", str(args.threads), "--max-length", str(max_length),
                   "--device", args.device, "--dtype", args.dtype]
        command += ["--batch", str(BATCHES[name])] if name in BATCHES else []
        command += ["--bin-tokens", str(args.bin_tokens)] if name == "wrapper" else []
        command += ["--attention", args.hf_attention] if name == "hf" else []
        super().__init__(name, command)
        self.name = name

    def save(self, path):
        self.ask(f"save {path}")


# ------------------------------------------------------------------------------- model and texts

def hf_folder(model, cache):
    """What the torch systems load."""
    if model.is_dir():
        return model
    sys.path.insert(0, str(HERE / "peers"))
    from dequantise import dequantised
    return dequantised(model, cache)


def model_hash(folder):
    """sha256 of the weights that the torch systems load."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with open(path, "rb") as f:
            while block := f.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def positions(config):
    """Tokens of the longest text that the model has positions for."""
    most = config["max_position_embeddings"]
    if config["model_type"] in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        most -= config.get("pad_token_id", 1) + 1  # these count from padding_idx + 1
    return most


def corpus_folder(args, folder):
    """(path, kind, manifest or None) of PDFs or JSONL; makes the named corpora."""
    if args.corpus not in make_pdfs.KINDS:
        path = pathlib.Path(args.corpus)
        if not path.exists():
            fail(f"--corpus {args.corpus}: no such file, and the names are {', '.join(make_pdfs.KINDS)}")
        return path, path.name, None
    path = pathlib.Path(folder, args.corpus)
    return path, args.corpus, make_pdfs.make(args.corpus, path, args.documents, args.seed)


def read_texts(args, source, folder):
    """(JSONL file, texts, seconds of reading it out of the PDFs or None)."""
    out = pathlib.Path(folder, "texts.jsonl")
    seconds = None
    if source.is_dir():
        if not args.warpgroup:
            fail(f"{source} is a folder of documents, and `warpgroup read` reads them: give --warpgroup FILE, "
                 "or a JSONL file as --corpus")
        start = time.perf_counter()
        done = subprocess.run([args.warpgroup, "read", str(source)], capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if done.returncode != 0:
            fail(f"warpgroup read {source}: status {done.returncode}:\n{done.stderr[-2000:]}")
        lines = done.stdout.splitlines()
    else:
        lines = source.read_text().splitlines()
    texts = [json.loads(line)["text"] for line in lines if line.strip()][:args.documents]
    if not texts:
        fail(f"{source} gave no text")
    out.write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts)))
    return str(out), texts, seconds


def token_lengths(folder, texts, max_length):
    """Tokens of each text by the tokenizer that comes with the model, cut like everywhere."""
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(str(pathlib.Path(folder, "tokenizer.json")))
    tok.no_padding()
    tok.enable_truncation(max_length)
    return [len(e.ids) for e in tok.encode_batch(texts)]


def padded_rows(lengths, batch):
    """Rows that batches in arrival order, each padded to its longest text, compute."""
    return sum(len(part) * max(part) for part in (lengths[at:at + batch] for at in range(0, len(lengths), batch)))


def length_table(lengths):
    """Counts by powers of two, and where the middle is."""
    buckets = {}
    for n in lengths:
        low = 1 << (n.bit_length() - 1)
        buckets[low] = buckets.get(low, 0) + 1
    ordered = sorted(lengths)
    return {"histogram": [{"from": low, "to": 2 * low - 1, "count": count} for low, count in sorted(buckets.items())],
            "tokens": sum(lengths), "shortest": ordered[0], "median": ordered[len(ordered) // 2],
            "longest": ordered[-1]}


# ------------------------------------------------------------------------------- the measurement

def commit():
    """Commit of this checkout, and whether it has changes."""
    def git(*words):
        done = subprocess.run(["git", "-C", str(HERE), *words], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""
    return {"commit": git("rev-parse", "HEAD") or None, "changed": bool(git("status", "--porcelain", "-uno"))}


def compiler(program):
    """What the program says in its own file about who compiled it."""
    if not program:
        return None
    found = re.search(rb"GCC: \([^)]*\) [\w.]+|clang version [\w.]+", pathlib.Path(program).read_bytes())
    return found[0].decode() if found else None


def environment(args):
    info = pathlib.Path("/proc/cpuinfo").read_text()
    flags = set((re.search(r"^(?:flags|Features)\s*:\s*(.*)", info, re.M) or ["", ""])[1].split())
    meminfo = dict(re.findall(r"^(\w+):\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.M))
    return {**machine(), "load_1_5_15": os.getloadavg(), "cpu_flags": [f for f in CPU_FLAGS if f in flags],
            "memory_mb": int(meminfo["MemTotal"]) // 1024,
            "memory_available_mb": int(meminfo["MemAvailable"]) // 1024,
            "python": platform.python_version(),
            "compiler": compiler(args.warpgroup), **commit()}


def compare_vectors(systems, base, dtype, folder):
    """{system: {cosine_min, difference_max}} against `base`; ends the run where they disagree."""
    import numpy as np
    vectors = {}
    for system in systems:
        path = os.path.join(folder, system.name + ".npy")
        system.save(path)
        vectors[system.name] = np.load(path).astype(np.float64)
    most, least = AGREE[dtype]
    out = {}
    for name, v in vectors.items():
        if v.shape != vectors[base].shape:
            fail(f"{name} gave {v.shape[0]} vectors of {v.shape[1]}, {base} {vectors[base].shape}")
        cosine = (v * vectors[base]).sum(1) / np.linalg.norm(v, axis=1) / np.linalg.norm(vectors[base], axis=1)
        apart = np.abs(v - vectors[base]).max()
        out[name] = {"cosine_min": float(cosine.min()), "difference_max": float(apart)}
        if not (apart <= most and cosine.min() >= least):
            fail(f"the vectors of {name} and {base} disagree: cosine {cosine.min():.6f}, difference {apart:.3g}, "
                 f"document {int(cosine.argmin())}")
    return out


def measure(systems, rounds, after_first):
    """{name: [result of each round]}; after_first(results) is called when each has run once, uncounted."""
    runs, first = {s.name: [] for s in systems}, []
    for turn in range(rounds + 1):
        for i in range(len(systems)):
            system = systems[(turn + i) % len(systems)]
            load = os.getloadavg()[0]
            result = {**system.run(), "load": load}
            print(f"{f'round {turn}' if turn else 'warm-up'}: {system.name} "
                  f"{result['tokens_per_s']:.0f} tokens/s, {result['seconds']:.1f} s", file=sys.stderr)
            if turn > 0:
                runs[system.name].append(result)
            else:
                first.append({**result, "system": system.name})
            time.sleep(PAUSE_S)
        if turn == 0:
            after_first(first)
    return runs


def summarise(runs, base):
    """One row a system; ratios are medians of the ratios of the rounds."""
    rows = []
    for name, results in runs.items():
        speeds = [r["tokens_per_s"] for r in results]
        ratios = [r["tokens_per_s"] / b["tokens_per_s"] for r, b in zip(results, runs[base])]
        rows.append({"system": name, "documents": results[0]["documents"], "tokens": results[0]["tokens"],
                     "rows": results[0]["rows"], "padding": 1 - results[0]["tokens"] / results[0]["rows"],
                     "tokens_per_s": statistics.median(speeds), "tokens_per_s_min": min(speeds),
                     "tokens_per_s_max": max(speeds), "ratio": statistics.median(ratios), "ratio_min": min(ratios),
                     "ratio_max": max(ratios), "seconds": statistics.median(r["seconds"] for r in results),
                     "cpu_s": statistics.median(r["cpu_s"] for r in results),
                     "peak_mb": max(r["rss_mb"] for r in results), "loaded_mb": results[0]["loaded_mb"],
                     "growth_mb": max(r["growth_mb"] for r in results), "bin_tokens": results[0].get("bin_tokens"),
                     "versions": results[0]["versions"]})
    return rows


def check_counts(results, lengths):
    """Ends the run unless real tokens are the tokenizer's in all systems, and `hf` padded its batches as it should."""
    for row in results:
        if row["tokens"] != sum(lengths) or row["documents"] != len(lengths):
            fail(f"{row['system']} counts {row['tokens']} tokens in {row['documents']} documents; the tokenizer "
                 f"of the model {sum(lengths)} in {len(lengths)}: the speeds cannot be compared")
        want = padded_rows(lengths, BATCHES["hf"])
        if row["system"] == "hf" and row["rows"] != want:
            fail(f"hf computed {row['rows']} rows; batches of {BATCHES['hf']} have {want}")


def no_limit(args, folder, config, lengths, corpus, rows):
    """What the padded batches would ask for, and how well the formula does where they can run."""
    batch = BATCHES["hf"]
    parts = [lengths[at:at + batch] for at in range(0, len(lengths), batch)]
    worst = max(parts, key=lambda part: len(part) * max(part))
    shape = padded_memory.shape(config, args.dtype)
    asked = padded_memory.padded(shape, len(worst), max(worst))
    out = {"formula": padded_memory.FORMULA, "shape": shape, "batch": len(worst), "longest": max(worst),
           "padded_computed_mb": asked["peak"] / 2**20, "parts_mb": {k: v / 2**20 for k, v in asked.items()},
           "cache_computed_mb": padded_memory.cache(shape, len(worst), max(worst)) / 2**20,
           "padding_computed": 1 - sum(lengths) / padded_rows(lengths, batch)}
    check = TorchSystem("hf", args, folder, corpus, min(CHECK_LENGTH, max(worst)))
    result = check.run()
    check.close()
    cut = [min(n, CHECK_LENGTH) for n in worst]
    formula = padded_memory.padded(shape, len(cut), max(cut))["peak"] / 2**20
    out["check"] = {"batch": len(cut), "longest": max(cut), "formula_mb": formula,
                    "measured_mb": result["growth_mb"], "ratio": result["growth_mb"] / formula}
    out["padded_measured_mb"] = next((row["growth_mb"] for row in rows if row["system"] == "hf"), None)
    out["ratios"] = {row["system"]: out["padded_computed_mb"] / max(row["growth_mb"], 1)
                     for row in rows if row["system"] in ("wrapper", "engine")}
    return out


# ------------------------------------------------------------------------------------- main

def parse():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--model", required=True, type=pathlib.Path, help="Hugging Face folder, or one GGUF file")
    ap.add_argument("--corpus", help="stress, uniform or long (made here), a folder of documents, or a JSONL file; "
                    "default stress, with --no-limit long")
    ap.add_argument("--documents", type=int, default=400, help="the first N only; named corpora have as many")
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--max-length", type=int, default=512, help="tokens kept of a text; 0: the model's positions")
    ap.add_argument("--no-limit", action="store_true", help="--max-length 0, and the padded batches' memory computed")
    ap.add_argument("--run-padded", action="store_true", help="with --no-limit: run hf too")
    ap.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    ap.add_argument("--dtype", choices=list(AGREE), default="f32")
    ap.add_argument("--systems", default=",".join(SYSTEMS))
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--bin-tokens", type=int, default=0, help="wrapper; 0: the measured knee")
    ap.add_argument("--hf-attention", default="sdpa", help="hf; flash_attention_2 where flash-attn is installed")
    ap.add_argument("--warpgroup", help="the CLI: reads the PDFs, and is the engine")
    ap.add_argument("--warpgroup-args", default="", help="more options for it, in one string")
    ap.add_argument("--python", default=sys.executable, help="the interpreter that has torch and warpgroup")
    ap.add_argument("--cache", default=os.path.expanduser("~/.cache/warpgroup/bench"), help="dequantised weights")
    ap.add_argument("--out", type=pathlib.Path, required=True)
    args = ap.parse_args()
    if args.rounds < 1 or args.documents < 1:
        ap.error("--rounds and --documents are at least 1")
    args.corpus = args.corpus or ("long" if args.no_limit else "stress")
    args.max_length = 0 if args.no_limit else args.max_length
    if not (args.model.is_file() if args.model.suffix == ".gguf" else args.model.is_dir()):
        ap.error(f"--model {args.model}: neither a folder nor a .gguf file")
    return args


def chosen(args):
    """(names to run, {name: why it is left out})."""
    names = list(dict.fromkeys(args.systems.split(",")))
    for name in names:
        if name not in SYSTEMS:
            fail(f"--systems: '{name}' is unknown; {', '.join(SYSTEMS)} are known")
    left_out = {}
    if "engine" in names and (args.device != "cpu" or args.dtype != "f32"):
        left_out["engine"] = f"computes in f32 on CPUs, not in {args.dtype} on {args.device}"
    elif "engine" in names and not args.warpgroup:
        left_out["engine"] = "no --warpgroup FILE was given"
    if args.no_limit and not args.run_padded:
        left_out.update({name: "padded batches are computed, not run, without a limit"
                         for name in ("hf", "st") if name in names})
    names = [name for name in names if name not in left_out]
    if not names:
        fail(f"no system is left to run: {left_out}")
    return names, left_out


def main():
    args = parse()
    names, left_out = chosen(args)
    with tempfile.TemporaryDirectory(prefix="warpgroup-bench-") as scratch:
        folder = hf_folder(args.model, args.cache)
        config = json.loads((folder / "config.json").read_text())
        max_length = args.max_length = min(args.max_length or positions(config), positions(config))
        source, kind, manifest = corpus_folder(args, scratch)
        corpus, texts, extraction = read_texts(args, source, scratch)
        lengths = token_lengths(folder, texts, max_length)
        record = environment(args)
        systems = [Engine(args, args.model, corpus) if name == "engine"
                   else TorchSystem(name, args, folder, corpus, max_length) for name in names]
        base = "hf" if "hf" in names else names[0]
        agreement = {}

        def check(results):
            check_counts(results, lengths)
            agreement.update(compare_vectors(systems, base, args.dtype, scratch))

        runs = measure(systems, args.rounds, check)
        for system in systems:
            system.close()
        rows = summarise(runs, base)
        result = {
            "machine": record, "left_out": left_out, "base": base,
            "model": {"name": args.model.name, "type": config["model_type"], "sha256": model_hash(folder)},
            "settings": {"corpus": kind, "documents": len(lengths), "seed": args.seed, "max_length": max_length,
                         "device": args.device, "dtype": args.dtype, "threads": args.threads,
                         "rounds": args.rounds, "batches": BATCHES, "hf_attention": args.hf_attention},
            "corpus": {"sha256": hashlib.sha256("\0".join(texts).encode()).hexdigest(), "manifest": manifest,
                       "extraction_s": extraction},
            "lengths": length_table(lengths), "agreement": agreement, "summary": rows, "runs": runs}
        if args.no_limit:
            result["no_limit"] = no_limit(args, folder, config, lengths, corpus, rows)
    packed_report.write(result, args.out)
    print(packed_report.markdown(result), end="")


if __name__ == "__main__":
    main()
