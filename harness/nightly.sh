#!/usr/bin/env bash
# The nightly job: `nightly.sh run [OPTIONS]` runs a shard, `nightly.sh merge` merges the shards of a night.
# Settings come from the environment: SCENARIOS, FROM, VERSIONS, REPEAT, SHARD, BUDGET, LAB (see the Makefile), the
# folders NIGHT (what is written), SHARDS (what is merged) and EARLIER (runs.jsonl of the nights before), and
# KEEP_MB, the size to which the folders of failed runs are reduced.
# Exits with the exit code of the worst verdict.
set -euo pipefail
cd "$(dirname "$0")/.."
acked=.venv/bin/acked
night=${NIGHT:-nightly}
shards=${SHARDS:-shards}
before=${EARLIER:-earlier}/runs.jsonl
keep_mb=${KEEP_MB:-1000}
mkdir -p "$night"

documents=(--junit "$night/junit.xml" --summary "$night/summary.md")
[ -f "$before" ] && documents+=(--earlier "$before")

# Reduce what a CI system keeps of the night: the oldest run folders lose all but their page and judgement.
# Its `data` folders do not count, because no recipe keeps them.
reduce() {
    local folder
    find "$night/runs" -mindepth 3 -maxdepth 3 -name run.json -printf '%T@ %h\n' 2>/dev/null | sort -n | cut -d' ' -f2- |
        while IFS= read -r folder; do
            [ "$(du -sm --exclude=data "$night" | cut -f1)" -gt "$keep_mb" ] || break
            echo "$night has more than $keep_mb MB: $folder keeps its page and its judgement only" >&2
            find "$folder" -mindepth 1 -maxdepth 1 ! -name run.json ! -name judgement.json ! -name report.html \
                -exec rm -rf {} +
        done
}

# Complete lines only: a job that was killed may have left half a line at the end of a file.
lines() {
    local file line
    for file in "$@"; do
        while IFS= read -r line; do printf '%s\n' "$line"; done <"$file"
    done
}

case ${1:-} in
    run)
        shift
        options=(--repeat "$REPEAT" --lab "$LAB" --runs "$night/runs" --budget "$BUDGET" --shard "$SHARD" --keep-failed
            "${documents[@]}" "$@")
        IFS=',' read -ra own <<<"${FROM:-}"
        for place in "${own[@]}"; do options+=(--from "$place"); done
        status=0
        if [ -n "$VERSIONS" ]; then
            IFS=', ' read -ra names <<<"$SCENARIOS"
            "$acked" matrix --versions "$VERSIONS" "${options[@]}" -- "${names[@]}" || status=$?
        else
            "$acked" run --filter "$SCENARIOS" "${options[@]}" || status=$?
        fi
        reduce
        exit "$status"
        ;;
    merge)
        mapfile -t series < <(find "$shards" \( -name runs.jsonl -o -name planned.jsonl \) -printf '%h\n' 2>/dev/null | sort -u)
        if [ ${#series[@]} -eq 0 ]; then
            echo "No shard left a runs.jsonl below $shards." | tee "$night/summary.md" >&2
            exit 255
        fi
        # Kept for the next nights: the runs of the earlier ones, then those of this one.
        mapfile -t files < <(find "$before" "${series[@]/%//runs.jsonl}" -maxdepth 0 2>/dev/null)
        lines "${files[@]}" | tail -n 5000 >"$night/runs.jsonl"
        exec "$acked" summary "${series[@]}" "${documents[@]}" --index "$night/index.html"
        ;;
    *)
        echo "usage: nightly.sh run [OPTIONS] | merge" >&2
        exit 254
        ;;
esac
