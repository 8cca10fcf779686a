#!/bin/sh
# What `make demo` shows: every command is printed before it runs, and must end as expected.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset MSCCL_ALGO_DIR MSCCL_XML_FILES MSCCL_SCHEDULER NCCL_ALGO NCCL_PROTO 2>/dev/null || true

bold='' plain=''
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi
heading() { printf '\n%s== %s%s\n' "$bold" "$1" "$plain"; }

# run EXPECTED_EXIT_CODE COMMAND... shows what the command prints, run_for PATTERN ... only the lines that match.
run() { run_for '' "$@"; }
run_for() {
  pattern=$1 expected=$2 code=0
  shift 2
  printf '\n$ %s\n' "$*"
  "$@" >output || code=$?
  grep -e "$pattern" output
  if [ "$code" -ne "$expected" ]; then
    printf 'demo: exit code %s was expected, %s was found\n' "$expected" "$code" >&2
    exit 1
  fi
}

cp "$here/ring.py" "$here/exchange_20_chunks.py" "$here/train.py" "$here/measure.py" "$here/job.yaml" .
mkdir xml

heading 'A whole job: which degrees of parallelism, where they go, and what that gains'
run 0 cat job.yaml
run 0 hemiola plan job.yaml -o "$here/../build/demo" --what-if '8 nodes'

heading 'A hierarchical all-reduce on 2 nodes of 4 ranks, from the library'
run 0 hemiola compile allreduce_hierarchical -o reduce.plan -- --levels=2,4

heading 'What rank 0 does: it receives and sends in one step wherever that cannot deadlock'
run 0 hemiola show reduce.plan --rank 0

heading 'The proof, on the file'
run 0 hemiola verify reduce.plan

heading 'A program of your own, and files that RCCL and MSCCL read'
run 0 cat ring.py
run_for ^wrote 0 hemiola compile ring.py -o xml/ring.xml --target rccl-xml --both-places -- --ranks=4
run_for : 0 hemiola verify xml/ring.inplace.xml --target rccl-xml
run_for ^wrote 0 hemiola compile allreduce_hierarchical -o reduce.xml --target msccl-xml --levels 2,4
run_for : 0 hemiola verify reduce.xml --target msccl-xml

heading 'Would RCCL use the file? Its own rules, one by one'
run 1 hemiola explain xml/ring.inplace.xml --runtime rccl --ranks 4 --bytes 64MiB --dtype bf16 --inplace
export MSCCL_ALGO_DIR="$work/xml"
printf '\n$ export MSCCL_ALGO_DIR=$PWD/xml\n'
run_for ring 0 hemiola explain xml/ring.inplace.xml --runtime rccl --ranks 4 --bytes 4MiB --dtype bf16 --inplace

heading 'A plan that would compute the right thing but stands still for ever'
python3 exchange_20_chunks.py >exchange.xml
run 1 hemiola verify exchange.xml

heading 'It runs: eight processes of this machine, random data, every element checked'
run 0 hemiola run reduce.plan --bytes 16MiB --as processes --trace trace.json
run_for . 0 python3 -c 'import json; print(len(json.load(open("trace.json"))["traceEvents"]), "events in trace.json, for ui.perfetto.dev")'

heading 'How long will it take between two hosts with 200 Mbit/s each, and what is in its way?'
run 0 hemiola simulate reduce.plan --system 2x4 --bytes 16MiB

heading 'And really? Two hosts of four ranks, made of network namespaces on this machine'
lab="demo-$$"
if hemiola lab up 2x4 --name "$lab" >lab 2>why; then
  trap 'hemiola lab down "$lab" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
  printf '\n$ hemiola lab up 2x4\n'
  sed -n '1,5p' lab
  run 0 hemiola lab exec --name "$lab" --timeout 120 -- python3 measure.py reduce.plan
  run 0 hemiola lab down "$lab"
else
  printf '\nLeft out: %s\n' "$(cat why)"
fi

heading 'The same collectives under PyTorch: only the name of the backend changes'
run 0 cat train.py
export OMP_NUM_THREADS=1
run_for worker 0 torchrun --nproc-per-node 2 train.py

printf '\nEverything went as expected.\n'
