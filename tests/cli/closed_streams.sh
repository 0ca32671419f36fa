# closed_streams.sh - a closed standard stream is an error of that stream and of nothing else.
printf '{"text":"good"}\n' >in.jsonl
warpgroup read in.jsonl <&-
echo "=> $?"
warpgroup read in.jsonl >&-
echo "=> $?"
warpgroup read missing.txt 2>&-
echo "=> $?"
warpgroup read - <&-
echo "=> $?"
