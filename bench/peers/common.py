"""What every peer script shares: options, the corpus, the measured loop and its one line of JSON.

A script calls options(), loads its library and model, then serve(options, peer, versions, encode), where
encode(texts) tokenises, computes, pools and normalises all of them and returns (vectors, real tokens,
rows computed). Model load is outside the clock, tokenisation and pooling are inside.

Standard output carries JSON lines only: one per run. With --serve the script first says {"ready": ...} and
then runs once for each line "run" on standard input, so that compare.py can take turns.
"""
import argparse
import json
import os
import resource
import sys
import time


def options(batch, extra=()):
    ap = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.split("\n")[0])
    ap.add_argument("--model", required=True, help="sentence-transformers folder")
    ap.add_argument("--corpus", required=True, help="JSONL with a \"text\" key")
    ap.add_argument("--limit", type=int, default=0, help="first N documents only")
    ap.add_argument("--batch", type=int, default=batch)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--max-length", type=int, default=512)
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


def serve(args, peer, versions, encode):
    with open(args.corpus) as f:
        texts = [json.loads(line)["text"] for line in f]
    texts = texts[:args.limit] if args.limit else texts

    def say(value):
        args.out.write(json.dumps(value) + "\n")
        args.out.flush()

    def run():
        start = time.perf_counter()
        vectors, tokens, rows = encode(texts)
        seconds = time.perf_counter() - start
        say({"peer": peer, "batch": args.batch, "documents": len(texts), "tokens": tokens,
             "seconds": round(seconds, 4), "tokens_per_s": round(tokens / seconds, 1),
             "padding": round((rows - tokens) / rows, 4), "threads": args.threads,
             "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
             "versions": versions})
        return vectors

    vectors = None
    if args.serve:
        say({"ready": peer})
        for line in sys.stdin:
            if line.strip() == "run":
                vectors = run()
    else:
        for _ in range(args.runs):
            vectors = run()
    if args.save and vectors is not None:
        import numpy
        numpy.save(args.save, numpy.asarray(vectors, dtype=numpy.float32))


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
