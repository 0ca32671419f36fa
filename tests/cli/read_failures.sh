# read_failures.sh - what cannot be read is listed with its place, the rest is done, exit 1.
printf '{"text":"good"}\n{"text":3}\n{broken\n{"text":"last"}\n' >in.jsonl
cp "$DATA/../../examples/corpus/papers/scanned-page.pdf" scan.pdf
warpgroup read in.jsonl scan.pdf missing.txt
echo "=> $?"
warpgroup read --failures list.jsonl in.jsonl scan.pdf missing.txt 2>&1 >/dev/null
echo "=> $?"
cat list.jsonl
warpgroup read --failures list.jsonl in.jsonl
