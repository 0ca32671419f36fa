# help.sh - help and version go to standard output, exit 0.
warpgroup --help | grep -c .
warpgroup embed --help | head -n 2
warpgroup read -h | grep -e --padded -e --lines
warpgroup --version | sed 's/ [0-9.]*$/ N/'
warpgroup plan -V | sed 's/ [0-9.]*$/ N/'
