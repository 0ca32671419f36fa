# embed_options.sh - options that change what a vector is.
printf '{"id":"a","text":"the cat sat on the mat"}\n' >in.jsonl
shape()
{
    warpgroup embed -m "$MODEL" --log-level error "$@" in.jsonl | python3 -c '
import json, sys
for line in sys.stdin:
    rows = json.loads(line)["embedding"]
    rows = rows if isinstance(rows[0], list) else [rows]
    print(len(rows), len(rows[0]), all(abs(sum(x * x for x in r) - 1) < 1e-4 for r in rows))'
}
shape
shape --no-normalize
shape --truncate-dim 8 --normalize
shape --pooling cls
shape --pooling none --no-normalize
shape --prompt 'query: '
warpgroup embed -m "$MODEL" --prompt-name nothing in.jsonl
echo "=> $?"
warpgroup embed -m "$MODEL" --max-length 100000 in.jsonl
echo "=> $?"
warpgroup embed -m "$MODEL" --truncate-dim 100000 in.jsonl
echo "=> $?"
