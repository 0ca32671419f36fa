# embed_same.sh - the same bytes whatever threads, bin size, order and bin mates.
corpus=$DATA/../../examples/corpus/notes.jsonl
embed()
{
    warpgroup embed -m "$MODEL" --log-level error "$@"
}
embed "$corpus" >one
embed --threads 3 "$corpus" >two && cmp one two
embed --threads 1 --max-batch-tokens 64 --max-length 64 "$corpus" >small
embed --threads 2 --max-batch-tokens 500 --max-length 64 "$corpus" >large && cmp small large
tac "$corpus" >reversed.jsonl
embed reversed.jsonl | tac >three && cmp one three
head -n 1 "$corpus" >alone.jsonl
embed alone.jsonl >alone && head -n 1 one | cmp - alone
embed --padded 4 "$corpus" >padded && wc -l <padded
embed --padded 4 --sorted "$corpus" | wc -l
