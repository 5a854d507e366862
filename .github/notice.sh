#!/usr/bin/env bash
# One issue for the state of the nightly job: notice.sh SUMMARY
# It is opened by the first night that fails, gets a comment from each further one, and is closed by one that passes.
# Needs gh, GH_TOKEN, GITHUB_REPOSITORY, OUTCOME (success or not) and PAGE.
set -euo pipefail
summary=$1
title="The nightly job fails"
export GH_REPO=$GITHUB_REPOSITORY
text=$(mktemp)
trap 'rm -f "$text"' EXIT
echo "$PAGE" >"$text"
echo >>"$text"
if [ -f "$summary" ]; then
    head -c 60000 "$summary" >>"$text"
else
    echo "The night left no summary: a job failed before it could merge the shards." >>"$text"
fi
number=$(gh issue list --state open --search "in:title \"$title\"" --json number,title \
    --jq "[.[] | select(.title == \"$title\")][0].number // empty")
case "$OUTCOME/${number:+open}" in
    success/open) gh issue close "$number" --comment "The night passed: $PAGE" ;;
    success/) ;;
    */open) gh issue comment "$number" --body-file "$text" ;;
    *) gh issue create --title "$title" --body-file "$text" ;;
esac
