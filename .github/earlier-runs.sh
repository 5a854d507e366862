#!/usr/bin/env bash
# Put the runs of the previous nights, if there are any, into a folder: earlier-runs.sh FOLDER
# Needs gh, GH_TOKEN and GITHUB_REPOSITORY.
set -euo pipefail
folder=$1
mkdir -p "$folder"
# The artefact `runs` of a night contains those of the nights before, as far as they are kept. A night that was
# cancelled has none, so the one before it is tried.
nights=$(gh run list --repo "$GITHUB_REPOSITORY" --workflow nightly.yml --status completed --limit 5 \
    --json databaseId --jq '.[].databaseId') || nights=
for night in $nights; do
    if gh run download "$night" --repo "$GITHUB_REPOSITORY" --name runs --dir "$folder"; then
        exit 0
    fi
done
echo "There are no runs of an earlier night."
