#!/bin/bash
# A Slurm prolog that brings datasets in before a job starts (slurm.conf: Prolog=/etc/slurm/fodder-prolog.sh).
#
# Slurm runs it as root on each node of a job, without PATH and without the job's environment, and drains the node if it
# fails or takes longer than PrologEpilogTimeout. So it sets what it needs, bounds its time, writes a log, and always ends
# with 0: a job whose data is not all there runs all the same, slower.
#
# Settings are in the file beside it, fodder-prolog.conf, as shell assignments. Only WARM must be set.

trap 'exit 0' EXIT HUP INT TERM
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# What to bring in: arguments of `fodder warm`, separated by spaces.
WARM=""
# Further flags, such as "--max-size 500GB --bandwidth 500MB/s".
FLAGS=""
FODDER=/usr/local/bin/fodder
CACHE_DIR=/var/cache/fodder
LOG=/var/log/fodder-prolog.log
# Seconds for all of it. Keep it below PrologEpilogTimeout.
LIMIT=240

conf="${BASH_SOURCE[0]%/*}/fodder-prolog.conf"
# shellcheck disable=SC1090
[ -r "$conf" ] && . "$conf"

{ exec >>"$LOG"; } 2>/dev/null || exec >/dev/null
exec 2>&1 </dev/null

say() {
    printf '%(%FT%T%z)T job %s: %s\n' -1 "${SLURM_JOB_ID:-?}" "$*"
}

if [ ! -x "$FODDER" ]; then
    say "there is no program $FODDER: nothing is brought in"
    exit 0
fi

# What a warm-up says: in a file, because a shell that waits for the output of a command hears no signal.
out=$(mktemp) || out=/dev/null
trap '[ ! -f "$out" ] || rm -f "$out"; exit 0' EXIT

# Whoever ends the prolog ends the warm-up that runs. `timeout` is in a process group of its own, and hears only this.
stop() {
    trap '' HUP INT TERM
    running=$(jobs -pr)
    if [ -n "$running" ]; then
        # A signal that comes while the program is being started is lost, so it is sent again if nothing ends.
        while kill -TERM "$running" 2>/dev/null; do
            timeout --signal=KILL 3 tail --pid="$running" --sleep-interval=0.1 -f /dev/null && break
        done
        wait "$running"
        say "stopped: $target is not all there: $(<"$out")"
    else
        say "stopped"
    fi
    exit 0
}
trap stop HUP INT TERM

end=$((SECONDS + LIMIT))
for target in $WARM; do
    left=$((end - SECONDS))
    if [ "$left" -le 0 ]; then
        say "no time is left for $target"
        continue
    fi
    # SIGTERM ends a warm-up cleanly; the next one goes on. The cache directory must not be the job's.
    # shellcheck disable=SC2086
    timeout --signal=TERM --kill-after=5 "$left" "$FODDER" warm $FLAGS --cache-dir "$CACHE_DIR" "$target" >"$out" 2>&1 &
    wait "$!"
    code=$?
    case $code in
        0) say "$target is there: $(<"$out")" ;;
        3 | 124) say "$target is not all there: $(<"$out")" ;;
        *) say "$target could not be brought in (status $code): $(<"$out")" ;;
    esac
done
