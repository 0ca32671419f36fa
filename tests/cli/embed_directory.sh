# embed_directory.sh - what a directory OUT holds.
printf '{"id":"a","text":"the cat sat on the mat"}\n{"id":"bad","text":[]}\n{"text":"dogs"}\n' >in.jsonl
warpgroup embed -m "$MODEL" -o out --max-length 5 in.jsonl
echo "=> $?"
ls out
cat out/rows.jsonl out/failures.jsonl
python3 - <<'PYTHON'
import json
report = json.load(open("out/report.json"))
for key in ("documents", "failed", "truncated", "warnings", "tokens"):
    print(key, report[key])
for key in ("tokens_per_s", "documents_per_s", "padding", "padding_of_batches_of_8", "peak_bytes", "stages"):
    assert key in report, key
data = open("out/embeddings.npy", "rb").read()
header = data[10 : 10 + int.from_bytes(data[8:10], "little")].decode()
print(data[:6], eval(header)["shape"])
PYTHON
# What is there is never overwritten.
warpgroup embed -m "$MODEL" -o out in.jsonl
echo "=> $?"
