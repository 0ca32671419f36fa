# embed_stopped.sh - SIGINT and SIGTERM leave whole rows and the statuses 130 and 143.
stop()
{
    local signal=$1 out=$2 pid
    mkfifo "$out.jsonl"
    # A shell starts background jobs with SIGINT ignored, so Python starts the program.
    python3 - "$WGT_CLI" "$MODEL" "$out" "$signal" <<'PYTHON'
import os, signal, subprocess, sys, time
cli, model, out, name = sys.argv[1:]
signal.signal(signal.SIGINT, signal.default_int_handler)
run = subprocess.Popen([cli, "embed", "-m", model, "-o", out, "--threads", "1", out + ".jsonl"],
                       stderr=subprocess.PIPE)
pipe = open(out + ".jsonl", "w")
for i in range(2000):
    pipe.write('{"text":"the cat sat on the mat %d"}\n' % i)
pipe.flush()
# The input stays open, so the run waits for more; rows come in the meantime.
for _ in range(600):
    if os.path.exists(out + "/rows.jsonl") and os.path.getsize(out + "/rows.jsonl") > 0:
        break
    time.sleep(0.05)
run.send_signal(getattr(signal, name))
said = run.communicate(timeout=60)[1].decode()
print(run.returncode, "stopped by " + name in said)
PYTHON
    # Every line is whole and the vectors are as many as the lines.
    python3 - "$out" <<'PYTHON'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1] + "/rows.jsonl")]
data = open(sys.argv[1] + "/embeddings.npy", "rb").read()
start = 10 + int.from_bytes(data[8:10], "little")
shape = eval(data[10:start])["shape"]
print(len(rows) > 0, shape[0] == len(rows), len(data) - start == 4 * shape[0] * shape[1])
PYTHON
}
stop SIGINT first
stop SIGTERM second
