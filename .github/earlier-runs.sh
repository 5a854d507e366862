#!/usr/bin/env bash
# Put the runs of the previous nights, if there are any, into a folder: earlier-runs.sh FOLDER
# Needs gh, GH_TOKEN and GITHUB_REPOSITORY.
set -euo pipefail
folder=$1
mkdir -p "$folder"
# The artefact `runs` of a night contains those of the nights before, as far as they are kept.
night=$(gh run list --repo "$GITHUB_REPOSITORY" --workflow nightly.yml --status completed --limit 1 \
    --json databaseId --jq '.[0].databaseId // empty')
if [ -z "$night" ] || ! gh run download "$night" --repo "$GITHUB_REPOSITORY" --name runs --dir "$folder"; then
    echo "There are no runs of an earlier night."
fi
