# read_kinds.sh - text, Markdown, JSON lines, PDF, gzip, a directory; ids and order.
mkdir -p in/b in/a
printf 'plain text\nof two lines\n' >in/b/one.txt
printf '# Title\n' >in/a/two.md
printf '{"text":"r\\u00e9cord","id":9007199254740993}\n\n{"text":"no id"}\n' >in/lines.jsonl
printf 'packed\n' | gzip -n >in/z.txt.gz
printf 'not ours' >in/a/picture.xyz
cp "$DATA/../../examples/corpus/papers/radio-1.pdf" in/a/paper.pdf
warpgroup read in | cut -c 1-120
echo "=> ${PIPESTATUS[0]}"
warpgroup read --lines in/b/one.txt in/a/picture.xyz
echo "=> $?"
