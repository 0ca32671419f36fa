# verify.sh - packed equals alone; a reference agrees, and a changed one does not.
warpgroup embed -m "$MODEL" "$DATA/tiny-bert-h32-d8-mean/reference.jsonl" --progress none --log-level error >vectors.jsonl
warpgroup read "$DATA/tiny-bert-h32-d8-mean/reference.jsonl" 2>/dev/null >texts.jsonl
python3 - <<'PYTHON'
import json
texts = {json.dumps(d["id"]): d["text"] for d in map(json.loads, open("texts.jsonl"))}
rows = [json.loads(line) for line in open("vectors.jsonl")]
with open("good.jsonl", "w") as good, open("bad.jsonl", "w") as bad:
    for i, row in enumerate(rows):
        line = {"text": texts[json.dumps(row["id"])], "embedding": row["embedding"]}
        print(json.dumps(line), file=good)
        if i == 1:
            line["embedding"][3] += 0.01
        print(json.dumps(line), file=bad)
PYTHON
warpgroup verify -m "$MODEL" --reference good.jsonl
echo "=> $?"
warpgroup verify -m "$MODEL" --reference bad.jsonl texts.jsonl
echo "=> $?"
printf '{"text": "a cat"}\nno json\n{"text": "a signal of a cat and of a signal of a cat"}\n{"text": "the signal"}\n' >mixed.jsonl
warpgroup verify -m "$MODEL" --max-batch-tokens 12 mixed.jsonl
echo "=> $?"
printf '{"text": "a", "embedding": [1, 2]}\n' >short.jsonl
warpgroup verify -m "$MODEL" --reference short.jsonl
echo "=> $?"
