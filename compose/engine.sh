#!/bin/sh
# A private Docker engine for machines that have docker.io installed but no running engine (CI, sandboxes).
#
#   eval "$(compose/engine.sh start)"     # prints `export DOCKER_HOST=...`; a second start finds the first
#   compose/base-image.sh                 # only where no image registry can be reached
#   python -m harness.lab.docker.image    # builds the hosts' image, or says that it is there
#   compose/engine.sh stop                # ends the engine, removes its chains and docker0; keeps images
#   compose/engine.sh purge               # the same, and forgets the images
#
# Needs root. Everything lies in $ACKED_ENGINE_DIR (default: acked-engine below the temporary folder).
# Addresses: 198.18.128.0/24 for docker0; the labs take 198.18.129.0/24 to 198.18.190.0/24.
set -eu
DIR=${ACKED_ENGINE_DIR:-${TMPDIR:-/tmp}/acked-engine}
SOCKET=unix://$DIR/docker.sock
BRIDGE=198.18.128

running() { [ -s "$DIR/dockerd.pid" ] && kill -0 "$(cat "$DIR/dockerd.pid")" 2>/dev/null; }

wait_for() { # seconds, command...
    tries=$(($1 * 10)); shift
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.1
    done
}

answers() { DOCKER_HOST=$SOCKET docker version >/dev/null 2>&1; }
answers_or_gone() { answers || gone "$1"; }
gone() { ! kill -0 "$1" 2>/dev/null; }

start() {
    if running; then
        echo "export DOCKER_HOST=$SOCKET"
        return
    fi
    command -v dockerd >/dev/null || {
        echo "dockerd is not installed; on Debian and Ubuntu: apt-get install -y docker.io" >&2
        exit 3
    }
    mkdir -p "$DIR"
    rm -f "$DIR/dockerd.pid"
    iptables-save >"$DIR/before.rules"
    cat /proc/sys/net/ipv4/ip_forward >"$DIR/before.forward"
    ip link show docker0 >/dev/null 2>&1 && touch "$DIR/before.docker0" || rm -f "$DIR/before.docker0"
    cat >"$DIR/daemon.json" <<J
{"data-root": "$DIR/data", "exec-root": "$DIR/exec", "pidfile": "$DIR/dockerd.pid",
 "hosts": ["$SOCKET"], "bip": "$BRIDGE.1/24",
 "default-address-pools": [{"base": "198.18.192.0/18", "size": 24}]}
J
    setsid nohup dockerd --config-file "$DIR/daemon.json" >"$DIR/dockerd.log" 2>&1 </dev/null &
    engine=$!
    wait_for 60 answers_or_gone "$engine" || true
    if ! answers; then
        echo "dockerd did not start; the end of $DIR/dockerd.log:" >&2
        tail -n 5 "$DIR/dockerd.log" >&2
        kill "$engine" 2>/dev/null || true
        exit 3
    fi
    echo "export DOCKER_HOST=$SOCKET"
}

# Remove only what a Docker engine adds and what was not there before this one started.
sweep_rules() {
    for table in filter nat; do
        iptables-save -t "$table" 2>/dev/null | grep -E '^-A .*(DOCKER|docker0|'"$BRIDGE"'\.)' |
            while read -r rule; do
                grep -qxF -e "$rule" "$DIR/before.rules" && continue
                # shellcheck disable=SC2086 # a rule is a list of words
                iptables -w 5 -t "$table" -D ${rule#-A } 2>/dev/null || true
            done
        for step in -F -X; do # chains refer to each other, so all are emptied first
            iptables-save -t "$table" 2>/dev/null | sed -n 's/^:\(DOCKER[^ ]*\) .*/\1/p' |
                while read -r chain; do
                    grep -q "^:$chain " "$DIR/before.rules" && continue
                    iptables -w 5 -t "$table" "$step" "$chain" 2>/dev/null || true
                done
        done
    done
    grep -q '^:FORWARD DROP' "$DIR/before.rules" || iptables -w 5 -P FORWARD ACCEPT
    [ -f "$DIR/before.docker0" ] || ip link del docker0 2>/dev/null || true
    cat "$DIR/before.forward" >/proc/sys/net/ipv4/ip_forward
}

stop() {
    if running; then
        pid=$(cat "$DIR/dockerd.pid")
        DOCKER_HOST=$SOCKET; export DOCKER_HOST
        ids=$(docker ps -aq 2>/dev/null || true)
        # shellcheck disable=SC2086 # a list of ids
        [ -z "$ids" ] || docker rm -f -v $ids >/dev/null 2>&1 || true
        docker network prune -f >/dev/null 2>&1 || true
        kill "$pid"
        wait_for 30 gone "$pid" || { echo "dockerd (pid $pid) did not end within 30 s" >&2; exit 1; }
    fi
    [ ! -f "$DIR/before.rules" ] || sweep_rules
    rm -f "$DIR"/before.* "$DIR/docker.sock" "$DIR/dockerd.pid"
}

case "${1:-}" in
start) start ;;
stop) stop ;;
purge) stop; rm -rf "$DIR" ;;
*) echo "usage: $0 start|stop|purge" >&2; exit 2 ;;
esac
