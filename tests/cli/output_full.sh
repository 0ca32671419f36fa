# output_full.sh - a full disk is seen, exit 3.
[[ -w /dev/full ]] || exit 77
printf '{"text":"good"}\n' >in.jsonl
warpgroup read in.jsonl >/dev/full
echo "=> $?"
warpgroup embed -m "$MODEL" --log-level error in.jsonl >/dev/full
echo "=> $?"
