# usage.sh - wrong usage is told in a sentence, exit 2, before anything is opened.
try()
{
    warpgroup "$@" 2>&1
    echo "=> $?"
}
try
try embd
try score -m x y
try -m x embed y
try info x
try embed
try embed -m
try embed -m x
try embed y
try embed -m x --max-lenght 4 y
try embed -m x --quiet y
try embed -m x --stride 3 y
try embed -m x --truncate chunk y
try embed -m x --truncate middle y
try embed -m x --device cuda:0,1 y
# Recipe D-05: a device that was asked for is never replaced in silence.
try embed -m x --device cuda y
try probe -m x --device cuda
try embed -m x --dtype bf16 y
try embed -m x --pooling average y
try embed -m x --max-length 0 y
try embed -m x --max-length 12x y
try embed -m x --max-length -3 y
try embed -m x --threads 99999999999 y
try embed -m x --max-batch-tokens many y
# Recipe B-02: limits that cannot work.
try embed -m x --max-batch-tokens 0 y
try embed -m x --max-batch-tokens -3 y
try embed -m "$MODEL" --max-length 64 --max-batch-tokens 1 y
try embed -m x --memory 2GX y
try embed -m x --memory 0 y
try embed -m x --memory 1e30 y
try embed -m x --lines=yes y
try embed -m x --sorted y
try read --padded 8 y
try read --format csv y
try tokenize --model=x
exit 0
