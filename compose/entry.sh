#!/bin/sh
# hold  wait until stopped: the harness starts and ends the main process with `docker exec`, so that a killed
#       broker leaves a host that still has its address and its rules
# run   be the main process that /data/command describes (what the harness execs, and `docker compose up`)
case "$1" in
hold)
    trap 'exit 0' TERM INT
    while :; do sleep 86400 & wait $!; done
    ;;
run)
    cd /data || exit 1
    if [ ! -f command ]; then
        echo "There is no /data/command; write it with: python -m harness.cluster.by_hand RUN_FOLDER" >&2
        exit 1
    fi
    echo $$ >main.pid
    exec sh ./command >>out.log 2>&1 </dev/null
    ;;
*)
    exec "$@"
    ;;
esac
