# read_nothing.sh - no documents at all is fine, and said.
mkdir empty
warpgroup read empty
