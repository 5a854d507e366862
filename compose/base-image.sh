#!/bin/sh
# Make the base image with debootstrap, for machines that reach a Debian mirror but no image registry.
# Needs root, debootstrap and an engine, and takes about half a minute. The image build finds it by its name.
#
#   compose/base-image.sh             # makes acked/base:bookworm unless it is there
set -eu
SUITE=bookworm
IMAGE=acked/base:$SUITE
DOCKER=${DOCKER:-docker}

if "$DOCKER" image inspect "$IMAGE" >/dev/null 2>&1; then
    echo "$IMAGE is there already"
    exit 0
fi
ROOT=$(mktemp -d "${TMPDIR:-/tmp}/acked-base.XXXXXX")
trap 'rm -rf "$ROOT"' EXIT INT TERM
chmod 755 "$ROOT"
debootstrap --variant=minbase "$SUITE" "$ROOT" >"$ROOT.log" 2>&1 || {
    echo "debootstrap failed; the end of $ROOT.log:" >&2
    tail -n 5 "$ROOT.log" >&2
    exit 1
}
rm -f "$ROOT.log"
rm -rf "$ROOT"/var/cache/apt/* "$ROOT"/var/lib/apt/lists/* "$ROOT"/usr/share/doc/* \
    "$ROOT"/usr/share/man/* "$ROOT"/usr/share/locale/*
tar -C "$ROOT" --numeric-owner -c . | "$DOCKER" import - "$IMAGE" >/dev/null
echo "$IMAGE made"
