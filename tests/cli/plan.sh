# plan.sh - the dry run on standard output.
corpus=$DATA/../../examples/corpus
warpgroup plan -m "$MODEL" --max-length 64 --max-batch-tokens 256 "$corpus/notes.jsonl"
echo "=> $?"
