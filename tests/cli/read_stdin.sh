# read_stdin.sh - standard input is JSON lines unless --format says otherwise; escapes survive.
printf '{"t":{"x":"tab\\there"},"key":"a\\"b"}\n{"t":{"x":"nul \\u0000, del \\u007f"},"key":[1, 2]}' |
    warpgroup read --text-field t.x --id-field key -
printf 'one\ntwo\n' | warpgroup read --format text --lines -
printf '{"input_ids":[101, 7, 102]}\n' | warpgroup read --ids-field input_ids -
