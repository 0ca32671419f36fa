# tokenize.sh - ids of whole texts, cut only when asked, from a model directory or its tokenizer file.
printf '{"id":"a","text":"the cat sat on the mat"}\n{"id":2,"text":""}\n' >in.jsonl
warpgroup tokenize -m "$MODEL" in.jsonl
echo "=> $?"
warpgroup tokenize -m "$MODEL/tokenizer.json" --max-length 4 in.jsonl
warpgroup tokenize -m "$MODEL" --max-length 4 --truncate tail in.jsonl
warpgroup tokenize -m "$MODEL" --max-length 4 --truncate error in.jsonl
echo "=> $?"
# ready ids are limited too
printf '{"id":3,"ids":[2,7,8,9,3]}\n' >ids.jsonl
warpgroup tokenize -m "$MODEL" --ids-field ids ids.jsonl
warpgroup tokenize -m "$MODEL" --ids-field ids --max-length 2 ids.jsonl
warpgroup tokenize -m "$MODEL" --ids-field ids --max-length 2 --truncate tail ids.jsonl
warpgroup tokenize -m "$MODEL" --ids-field ids --max-length 2 --truncate error ids.jsonl
warpgroup tokenize -m missing in.jsonl
echo "=> $?"
