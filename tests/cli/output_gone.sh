# output_gone.sh - a reader that goes away is a write error, not a death by SIGPIPE.
for i in {1..20000}; do echo '{"text":"a line that fills the pipe before long"}'; done >in.jsonl
warpgroup read in.jsonl | head -n 1
echo "=> ${PIPESTATUS[0]}"
