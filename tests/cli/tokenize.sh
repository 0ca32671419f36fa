# tokenize.sh - ids of whole texts, cut only when asked, from a model directory or its tokenizer file.
printf '{"id":"a","text":"the cat sat on the mat"}\n{"id":2,"text":""}\n' >in.jsonl
warpgroup tokenize -m "$MODEL" in.jsonl
echo "=> $?"
warpgroup tokenize -m "$MODEL/tokenizer.json" --max-length 4 in.jsonl
warpgroup tokenize -m "$MODEL" --max-length 4 --truncate tail in.jsonl
warpgroup tokenize -m "$MODEL" --max-length 4 --truncate error in.jsonl
echo "=> $?"
warpgroup tokenize -m missing in.jsonl
echo "=> $?"
