#!/usr/bin/env bash
# Prepares a checkout: installs system packages and, into .venv, the pinned dependencies, and caches Kafka.
# Needs nothing of the project's Python. Exits with 3, and one sentence, if the machine is unfit.
set -euo pipefail
cd "$(dirname "$0")/.."

unfit() { echo "$*" >&2; exit 3; }
exec 8>&2
say() { printf 'setup: %3d s  %s\n' "$SECONDS" "$*" >&8; }

# The key contains the folder, because the scripts of a virtual environment contain its absolute path.
stamp=.venv/.ready
key=$({ pwd; cat pyproject.toml constraints.txt harness/setup.sh; } | sha256sum | cut -d' ' -f1)
ready() { [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && .venv/bin/python -c '' 2>/dev/null; }
if ready; then exit 0; fi

exec 9<pyproject.toml
if ! flock --nonblock 9; then
    say "waiting for another setup in this checkout"
    flock 9
    if ready; then exit 0; fi
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed() { tail -n 15 "$log" >&2; unfit "$@"; }
during() { # what, command...: runs it; its output goes to the log. Every ten seconds it says what is still going on.
    local status=0 alive
    exec {alive}> >(still "$1")
    "${@:2}" >"$log" 2>&1 </dev/null {alive}>&- || status=$?
    exec {alive}>&-
    return "$status"
}
still() { # what: ends with its input
    local begun=$SECONDS
    until read -rt 10 || [ $? -le 128 ]; do say "still $1 ($((SECONDS - begun)) s)"; done
}

python=${PYTHON:-python3}
command -v "$python" >/dev/null || unfit "No $python on the path: install Python 3.11 or newer (sudo apt-get install -y python3 python3-venv)."
found=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
    unfit "$(command -v "$python") does not run Python: install Python 3.11 or newer, or name another one with PYTHON=python3.11 make ..."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    unfit "Python $found at $(command -v "$python") is too old: acked needs 3.11 or newer; name another one with PYTHON=python3.11 make ..."

java_major() { # prints nothing if no Java answers
    local java=java
    [ -n "${JAVA_HOME:-}" ] && java="$JAVA_HOME/bin/java"
    "$java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1 || true
}

# Required: without one of these the embedded lab does not run, so setup ends here.
# Optional: what makes disks whose power a fault can cut. Without them setup goes on: `acked doctor` names what
# is missing, power cuts are emulated, and tests of the missing kind of disk are skipped with the reason.
# Optional, too: libfaketime, for faults of clocks; Chromium, in which tests open the pages of runs; and a Java
# compiler, for clients in Java. Without them those tests are skipped.
required=() optional=()
export PATH="$PATH:/usr/sbin:/sbin"
has() { command -v "$1" >/dev/null; }
has iptables || required+=(iptables)
{ has ip && has tc; } || required+=(iproute2)
"$python" -c 'import venv, ensurepip' 2>/dev/null || required+=("python$found-venv")
major=$(java_major)
[ -n "$major" ] || [ -n "${JAVA_HOME:-}" ] || required+=(openjdk-17-jdk-headless)
compiles() { "${JAVA_HOME:+$JAVA_HOME/bin/}java" --list-modules 2>/dev/null | grep -q '^jdk\.compiler'; }
[ "${major:-0}" -lt 17 ] || compiles || optional+=("openjdk-$major-jdk-headless")
{ has mount && has losetup; } || optional+=(mount)
has mkfs.ext4 || optional+=(e2fsprogs)
has mkfs.xfs || optional+=(xfsprogs)
libfuse='import sys; from ctypes.util import find_library as find; sys.exit(not (find("fuse") or find("fuse3")))'
"$python" -c "$libfuse" 2>/dev/null || optional+=(fuse3)
has chromium || optional+=(chromium)
any_file() { local file; for file; do [ ! -e "$file" ] || return 0; done; return 1; }
any_file /usr/{lib/*,lib,lib64,local/lib}/faketime/libfaketime.so.1 || optional+=(libfaketime)
# Tests of hosts that are reached over ssh start an sshd of their own. Where systemd runs, it would start Debian's as
# well, so there these tests are skipped unless somebody has installed it.
[ -d /run/systemd/system ] || has sshd || optional+=(openssh-server)
[ -d /run/systemd/system ] || has sudo || optional+=(sudo)

as_root=()
may_install() {
    has apt-get || return
    [ "$(id -u)" = 0 ] || { sudo -n true 2>/dev/null && as_root=(sudo -n); }
}
apt() { during "$1" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${@:2}"; }
install="apt-get update && apt-get install -y --no-install-recommends"
remedy() {
    if has apt-get; then echo "Install them with: sudo sh -c '$install $*'"
    else echo "Install them with this system's package manager, then run make again."
    fi
}

lacking=("${required[@]}" "${optional[@]}")
if [ ${#lacking[@]} -eq 0 ]; then :
elif may_install; then
    say "installing ${lacking[*]}"
    updated=yes
    apt "reading package lists" update || updated=
    if [ ${#required[@]} -gt 0 ]; then
        { [ -n "$updated" ] && apt "installing ${required[*]}" install -y --no-install-recommends "${required[@]}"; } ||
            failed "Installing ${required[*]} failed; the command was: $install ${required[*]}"
    fi
    for package in "${optional[@]}"; do # one by one, so that a package that this release lacks does not prevent the others
        { [ -n "$updated" ] && apt "installing $package" install -y --no-install-recommends "$package"; } ||
            say "going on without the optional package $package: $(tail -n 1 "$log")"
    done
elif [ ${#required[@]} -gt 0 ]; then
    unfit "Not installed: ${lacking[*]}. $(remedy "${lacking[@]}")"
else
    lost="some power cuts will be emulated"
    case "${optional[*]}" in
    openssh-server | sudo | "openssh-server sudo") lost="the tests of hosts over ssh will be skipped" ;;
    chromium) lost="the tests that open pages in a browser will be skipped" ;;
    libfaketime) lost="no fault can shift the clock of a process" ;;
    *jdk-headless) [ ${#optional[@]} -gt 1 ] || lost="there will be no Java client" ;;
    esac
    say "Going on without the optional ${optional[*]}: $lost. $(remedy "${optional[@]}")"
fi

major=$(java_major)
[ -n "$major" ] || unfit "No Java that answers ${JAVA_HOME:+in JAVA_HOME=$JAVA_HOME }was found: install it with sudo apt-get install -y openjdk-17-jdk-headless."
[ "$major" -ge 17 ] || unfit "Java $major is too old: Kafka needs Java 17 or newer; install it with sudo apt-get install -y openjdk-17-jdk-headless, or set JAVA_HOME to one."

if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    say "making .venv with Python $found"
    "$python" -m venv --clear .venv || unfit "Making .venv with $python failed; install python$found-venv (sudo apt-get install -y python$found-venv)."
fi
cache=${ACKED_CACHE:-~/.cache/acked} home=~
cache=${cache/#\~/$home}
say "installing the pinned dependencies into .venv"
pip=(.venv/bin/python -m pip install --disable-pip-version-check --constraint constraints.txt)
packages=(--constraint constraints.txt --editable '.[dev]')
# PySpark comes as a source package of 450 MB; the wheel that is made of it is read once, so packing it is a waste.
DIST_EXTRA_CONFIG=$PWD/harness/stored_wheels.cfg
export DIST_EXTRA_CONFIG
# uv downloads and unpacks side by side, in a third of pip's time. It does not know pip's settings.
pip_setting() { .venv/bin/python -m pip config list 2>/dev/null | sed -nE "s/^[^=]*\.$1='(.*)'$/\1/p" | tail -n 1; }
by_uv() {
    local index extra install
    during "installing uv" "${pip[@]}" --quiet uv || return
    index=$(pip_setting index-url) extra=$(pip_setting extra-index-url)
    [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
    [ -z "$extra" ] || export UV_INDEX="${UV_INDEX:-$extra}"
    install=(.venv/bin/uv --cache-dir "$cache/uv" pip install --python .venv/bin/python "${packages[@]}")
    if [ -t 2 ]; then "${install[@]}"; else during "installing" shown "${install[@]}"; fi || return
    # Of more than 3 GB, keep PySpark's wheel alone, which is what takes long to make again.
    during "removing downloads" .venv/bin/uv --cache-dir "$cache/uv" cache prune --ci || true
}
shown() { # command...: runs it; says each line of its output, but those that list packages
    local line
    "$@" 2>&1 | while IFS= read -r line; do
        echo "$line"
        case $line in " "[+~-]" "*) ;; *) say "${line#"${line%%[! ]*}"}" ;; esac
    done
}
by_uv || {
    say "uv could not install them ($(tail -n 1 "$log")); trying pip, which takes longer"
    during "installing with pip" "${pip[@]}" --quiet --editable '.[dev]'
} || failed "Installing the dependencies failed; check that the package index is reachable from here."

say "fetching Kafka into $cache"
.venv/bin/python -m harness.artifacts --without-archives
echo "$key" >"$stamp"
say "ready"
