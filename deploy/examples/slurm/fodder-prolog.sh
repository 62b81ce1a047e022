#!/bin/bash
# A Slurm prolog that brings datasets in before a job starts (slurm.conf: Prolog=/etc/slurm/fodder-prolog.sh).
#
# Slurm runs it as root on each node of a job, without PATH and without the job's environment, and drains the node if it
# fails or takes longer than PrologEpilogTimeout. So it sets what it needs, bounds its time, writes a log, and always ends
# with 0: a job whose data is not all there runs all the same, slower.
#
# Settings are in the file beside it, fodder-prolog.conf, as shell assignments. Only WARM must be set.

trap 'exit 0' EXIT
trap 'exit 0' HUP INT TERM
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

end=$((SECONDS + LIMIT))
for target in $WARM; do
    left=$((end - SECONDS))
    if [ "$left" -le 0 ]; then
        say "no time is left for $target"
        continue
    fi
    # SIGTERM ends a warm-up cleanly; the next one goes on. The cache directory must not be the job's.
    # shellcheck disable=SC2086
    said=$(timeout --signal=TERM --kill-after=5 "$left" "$FODDER" warm $FLAGS --cache-dir "$CACHE_DIR" "$target" 2>&1)
    code=$?
    case $code in
        0) say "$target is there: $said" ;;
        2 | 124) say "$target is not all there: $said" ;;
        *) say "$target could not be brought in (status $code): $said" ;;
    esac
done
