#!/usr/bin/env bash
# test_man_page.sh - the man page is clean, and it, --help and the parser know the same commands and
# options.
set -uo pipefail
page=$WGT_SOURCE/docs/warpgroup.1
bad=0

if command -v man >/dev/null && [[ $(man --version 2>/dev/null) == man* ]]; then
    warnings=$(LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)
    [[ -z $warnings ]] || { echo "man --warnings: $warnings"; bad=1; }
else
    echo "man is not installed: the page was not formatted"
fi

help=$("$WGT_CLI" --help)
# Options that have a paragraph of their own, as --name.
options_of_page()
{
    sed 's/\\-/-/g; s/\\fB//g; s/\\fR//g' "$page" | sed -n '/^\.SH OPTIONS/,/^\.SH LATER/p' |
        grep -E '^\.B[RI]* ' | grep -oE '(^|[ "])--[a-z][a-z-]*' | tr -d ' "' | sort -u
}
options_of_help()
{
    sed '/^with a later release/,$d' <<<"$help" |
        sed -nE 's/^  (-[a-zA-Z], )?(--[a-z][a-z-]*).*/\2/p' | sort -u
}
later_of_page()
{
    sed 's/\\-/-/g' "$page" | sed -n '/^\.SH LATER/,/^\.SH EXIT/p' | grep -E '^\.B ' |
        sed 's/^\.B //' | tr ' ' '\n' | sort -u
}
later_of_help()
{
    sed -n 's/^with a later release: //p' <<<"$help" | tr ' ' '\n' | sort -u
}
commands_of_page()
{
    sed -n '/^\.SH COMMANDS/,/^\.SH OPTIONS/p' "$page" | sed -n '/^\.TP/{n;s/^\.B //p}' | sort -u
}
commands_of_help()
{
    sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' <<<"$help" | sort -u
}
# The table that the parser reads, in its own words.
options_of_parser()
{
    grep -oE '^ +\{"[a-z-]+", (0|'"'.'"'), KIND_[A-Z0-9]+' "$WGT_SOURCE/src/cli/options.c" |
        grep -oE '"[a-z-]+"' | tr -d '"' | sed 's/^/--/' | sort -u
}

same()
{
    if [[ -z $2 || $2 != "$3" ]]; then
        echo "$1 differ"
        diff <(echo "$2") <(echo "$3")
        bad=1
    fi
}
same "options of --help and the man page" "$(options_of_help)" "$(options_of_page)"
same "options of --help and the parser" "$(options_of_help)" "$(options_of_parser)"
same "later words of --help and the man page" "$(later_of_help)" "$(later_of_page)"
same "commands of --help and the man page" "$(commands_of_help)" "$(commands_of_page)"

# The parser knows each option of --help, and refuses by name what comes later.
for name in $(options_of_help); do
    said=$("$WGT_CLI" embed "$name" 2>&1 >/dev/null)
    [[ $said != *"no option"* ]] || { echo "$name is in --help: $said"; bad=1; }
done
for name in $(later_of_help); do
    if [[ $name == --* ]]; then
        said=$("$WGT_CLI" embed "$name" 2>&1 >/dev/null)
    else
        said=$("$WGT_CLI" "$name" 2>&1 >/dev/null)
    fi
    [[ $? == 2 && $said == "warpgroup: $name comes with a later release" ]] ||
        { echo "$name: $said"; bad=1; }
done
exit "$bad"
