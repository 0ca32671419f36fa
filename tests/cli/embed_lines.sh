# embed_lines.sh - one JSON line a document, in input order, failures listed, exit 1.
printf '{"id":"a","text":"the cat sat on the mat"}\n{"id":"bad","text":[]}\n{"text":"dogs"}\n' >in.jsonl
warpgroup embed -m "$MODEL" in.jsonl >out.jsonl
echo "=> $?"
# Digits depend on the instruction set; what a line is made of does not.
python3 - <<'PYTHON'
import json
for line in open("out.jsonl"):
    row = json.loads(line)
    norm = sum(x * x for x in row["embedding"]) ** 0.5
    print(row["id"], list(row), len(row["embedding"]), f"{norm:.4f}")
PYTHON
warpgroup embed -m "$MODEL" -o file.jsonl --log-level error in.jsonl
cmp out.jsonl file.jsonl && echo "a file and standard output are the same"
