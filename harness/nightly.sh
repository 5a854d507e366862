#!/usr/bin/env bash
# The nightly job: `nightly.sh run [OPTIONS]` runs a shard, `nightly.sh merge` merges the shards of a night.
# Settings come from the environment: SCENARIOS, VERSIONS, REPEAT, SHARD, BUDGET, LAB (see the Makefile), and the
# folders NIGHT (what is written), SHARDS (what is merged) and EARLIER (runs.jsonl of the nights before).
# Exits with the exit code of the worst verdict.
set -euo pipefail
cd "$(dirname "$0")/.."
acked=.venv/bin/acked
night=${NIGHT:-nightly}
shards=${SHARDS:-shards}
before=${EARLIER:-earlier}/runs.jsonl
mkdir -p "$night"

documents=(--junit "$night/junit.xml" --summary "$night/summary.md")
[ -f "$before" ] && documents+=(--earlier "$before")

case ${1:-} in
    run)
        shift
        options=(--repeat "$REPEAT" --lab "$LAB" --runs "$night/runs" --budget "$BUDGET" --shard "$SHARD" --keep-failed
            "${documents[@]}" "$@")
        if [ -n "$VERSIONS" ]; then
            IFS=, read -ra names <<<"$SCENARIOS"
            exec "$acked" matrix "${names[@]}" --versions "$VERSIONS" "${options[@]}"
        fi
        exec "$acked" run --filter "$SCENARIOS" "${options[@]}"
        ;;
    merge)
        mapfile -t files < <(find "$shards" -name runs.jsonl 2>/dev/null | sort)
        if [ ${#files[@]} -eq 0 ]; then
            echo "No shard left a runs.jsonl below $shards." | tee "$night/summary.md" >&2
            exit 255
        fi
        # Kept for the next nights: the runs of the earlier ones, then those of this one.
        { cat "$before" 2>/dev/null || true; cat "${files[@]}"; } | tail -n 5000 >"$night/runs.jsonl"
        exec "$acked" summary "${files[@]}" "${documents[@]}"
        ;;
    *)
        echo "usage: nightly.sh run [OPTIONS] | merge" >&2
        exit 254
        ;;
esac
