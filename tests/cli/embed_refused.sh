# embed_refused.sh - a model or an output that cannot be used is refused before input is read, exit 3.
printf '{"text":"good"}\n' >in.jsonl
mkdir empty
warpgroup embed -m empty in.jsonl
echo "=> $?"
warpgroup embed -m missing in.jsonl
echo "=> $?"
warpgroup embed -m "$MODEL" -o nowhere/deep/out in.jsonl
echo "=> $?"
echo here >out.jsonl
warpgroup embed -m "$MODEL" -o out.jsonl in.jsonl
echo "=> $?"
cat out.jsonl
warpgroup embed -m "$MODEL" --memory 1M in.jsonl
echo "=> $?"
