"""A time-to-live for changes inside a host, as shell text: a detached watchdog that undoes them.

The watchdog counts monotonic time (`sleep`) and acts even if the harness was killed. Scripts get `$1` a tag
unique to the fault, `$2` a number, `$3` the script that undoes the change.
"""

from __future__ import annotations

import shlex

ARM = (
    '${ACKED_DETACH:-setsid} sh -c \'sleep "$2"; sh -c "$3"\' watch "$1" "$2" "$3" '
    "</dev/null >/dev/null 2>&1 & echo $!"
)
"""Start a watchdog; `$2` is the time-to-live in seconds. Prints the watchdog's pid.

`ACKED_DETACH` is what starts a process that outlives a login, where `setsid` does not suffice. A `sleep` that
fails, or is killed, ends the time-to-live: the change is undone too early rather than never.
"""

DISARM = 'if [ -n "$2" ] && grep -qs -- "$1" "/proc/$2/cmdline"; then kill -9 "-$2"; fi'
"""End a watchdog; `$2` is its pid. A pid that now belongs to another process is left alone."""


def undo_script(command: str, stdin: str) -> str:
    """A script that runs ``command``, which is a single one, with a text as its input.

    It has no here-document, which some shells write to a file: the host's `/tmp` may be full.
    """
    return f"printf %s {shlex.quote(stdin)} | {command}\n"


WATCHDOGS = """own=$(readlink /proc/self/ns/net)
watchdogs() {
    grep -ls watch /proc/[0-9]*/cmdline 2>/dev/null | while read -r file; do
        folder=${file%/cmdline}
        case "$(tr '\\0' ' ' <"$file" 2>/dev/null)" in
        *'sh -c sleep "$2"; sh -c "$3" watch '[Aa][Cc][Kk][Ee][Dd]-*)
            [ "$(readlink $folder/ns/net)" = "$own" ] && echo "${folder#/proc/}" ;;
        esac
    done
}
early() {
    for pid in $(watchdogs); do
        for file in $(grep -ls "^PPid:[^0-9]*$pid\\$" /proc/[0-9]*/status 2>/dev/null); do
            file=${file%/status}; kill "${file#/proc/}"
        done
    done
}
"""
"""Functions: `watchdogs` lists those of acked in this network, and `early` has them act at once.

A watchdog acts as soon as its `sleep` ends. Those of other network namespaces belong to other hosts, such as
containers.
"""
