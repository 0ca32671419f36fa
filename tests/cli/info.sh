# info.sh - the machine, and a model.
warpgroup info | sed -E 's/^(warpgroup|instruction sets|libraries) +.*/\1/'
warpgroup info -m "$MODEL" | sed -n '/^model/,$p' | sed -E 's/^(runs on|hash|loaded in|parameters) +.*/\1/'
warpgroup info -m "$DATA/tiny-heads/bert-3" | grep '^head'
warpgroup info -m missing
echo "=> $?"
