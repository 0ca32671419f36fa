"""What every peer script shares: options, the corpus, the measured loop and its one line of JSON.

A script calls options(), loads its library and model, then serve(options, peer, versions, encode), where
encode(texts) tokenises, computes, pools and normalises all of them and returns (vectors, real tokens,
rows computed). Model load is outside the clock, tokenisation and pooling are inside.

Standard output carries JSON lines only: one per run. With --serve the script first says {"ready": ...} and
then runs once for each line "run" on standard input, so that compare.py can take turns; "save FILE" writes the
vectors of the last run.

Memory: after one short text has gone through the model, what is held is `loaded_mb` (weights, libraries, code);
each run reports `rss_mb`, its own peak, and `growth_mb`, the part of it beyond `loaded_mb`: the activations.
On CUDA all three are those of torch's allocator on the device.
"""
import argparse
import json
import os
import re
import resource
import sys
import time

WARM_UP = "One short text, so that weights and libraries are in memory before anything is counted."


def options(batch, extra=()):
    ap = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.split("\n")[0])
    ap.add_argument("--model", required=True, help="sentence-transformers folder")
    ap.add_argument("--corpus", required=True, help="JSONL with a \"text\" key")
    ap.add_argument("--limit", type=int, default=0, help="first N documents only")
    ap.add_argument("--batch", type=int, default=batch)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--max-length", type=int, default=512)
    ap.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="torch peers only")
    ap.add_argument("--dtype", default="f32", choices=["f32", "bf16", "f16"], help="torch peers only")
    ap.add_argument("--runs", type=int, default=3)
    ap.add_argument("--serve", action="store_true", help="one run for each line 'run' on standard input")
    ap.add_argument("--save", help="write the vectors of the last run as .npy")
    ap.add_argument("--cache", default=os.path.expanduser("~/.cache/warpgroup/bench"),
                    help="where exported ONNX files are kept")
    for name, settings in extra:
        ap.add_argument(name, **settings)
    args = ap.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    os.environ["HF_HUB_OFFLINE"] = "1"
    # Libraries print to standard output as they like; only this module keeps the real one.
    args.out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return args


class HostMemory:
    """Resident set of this process in MB; the peak starts anew at reset() where the kernel allows it."""

    def status(self, key):
        with open("/proc/self/status") as f:
            found = re.search(rf"^{key}:\s+(\d+) kB", f.read(), re.M)
        return int(found[1]) / 1024 if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def used(self):
        return self.status("VmRSS")

    def reset(self):
        try:
            with open("/proc/self/clear_refs", "w") as f:
                f.write("5")
        except OSError:
            pass  # then the peak is that of all runs so far

    def peak(self):
        return self.status("VmHWM")


def serve(args, peer, versions, encode, prepare=None, memory=None, extra=None):
    """The measured loop. prepare(texts) is called once before it, for what is no part of the measured work;
    extra() gives more fields for the line of a run."""
    with open(args.corpus) as f:
        texts = [json.loads(line)["text"] for line in f]
    texts = texts[:args.limit] if args.limit else texts
    memory = memory or HostMemory()

    def say(value):
        args.out.write(json.dumps(value) + "\n")
        args.out.flush()

    def run():
        memory.reset()
        start, cpu_start = time.perf_counter(), time.process_time()
        vectors, tokens, rows = encode(texts)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu_start
        peak = memory.peak()
        say({"peer": peer, "batch": args.batch, "documents": len(texts), "tokens": tokens,
             "seconds": round(seconds, 4), "cpu_s": round(cpu, 4), "tokens_per_s": round(tokens / seconds, 1),
             "padding": round((rows - tokens) / rows, 4), "rows": rows, "threads": args.threads,
             "rss_mb": round(peak), "loaded_mb": round(loaded), "growth_mb": round(peak - loaded, 1),
             "versions": versions, **(extra() if extra else {})})
        return vectors

    def save(path):
        import numpy
        numpy.save(path, numpy.asarray(vectors, dtype=numpy.float32))

    encode([WARM_UP])
    loaded = memory.used()
    if prepare:
        prepare(texts)
    vectors = None
    if args.serve:
        say({"ready": peer})
        for line in sys.stdin:
            verb, _, rest = line.strip().partition(" ")
            if verb == "run":
                vectors = run()
            elif verb == "save":
                save(rest)
                say({"saved": rest})
    else:
        for _ in range(args.runs):
            vectors = run()
    if args.save and vectors is not None:
        save(args.save)


def tokenizer(args):
    """The Rust tokenizer with this run's limit, without padding."""
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(os.path.join(args.model, "tokenizer.json"))
    tok.enable_truncation(args.max_length)
    tok.no_padding()
    return tok


def encode_sorted(tok, batch, streams, forward):
    """encode() for a runtime that is given padded id arrays: batches of similar length, longest first.

    forward(ids, mask) -> hidden states; with streams > 1 it is called from that many threads at once.
    """
    import concurrent.futures
    import numpy as np
    pool = concurrent.futures.ThreadPoolExecutor(streams)

    def encode(texts):
        ids = [e.ids for e in tok.encode_batch(texts)]
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        out = [None] * len(ids)

        def one(at):
            picked = order[at:at + batch]
            x = np.zeros((len(picked), len(ids[picked[0]])), np.int64)
            mask = np.zeros_like(x)
            for row, i in enumerate(picked):
                x[row, :len(ids[i])] = ids[i]
                mask[row, :len(ids[i])] = 1
            hidden = forward(x, mask)
            for row, i in enumerate(picked):
                v = hidden[row, :len(ids[i])].mean(0)
                out[i] = v / np.linalg.norm(v)
            return x.size

        starts = range(0, len(order), batch)
        rows = sum(pool.map(one, starts) if streams > 1 else map(one, starts))
        return np.stack(out), sum(map(len, ids)), rows

    return encode
