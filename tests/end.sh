#!/usr/bin/env bash
# Ends what a run of the tests has started, and removes what it has made. tests/run.sh calls it at its
# end, and starts it beside itself at its beginning, so that a run that is killed leaves nothing that
# would write into the next run.
#
#   tests/end.sh DIRECTORY TMP [PID]   with PID, waits until that process is gone
#   tests/end.sh -list DIRECTORY       says only what still runs, and in which directory
#
# What the run has started is known by DIRECTORY, the run's TMPDIR: a process has it in its environment,
# or was started from a file in it, or works in it.
set -u
directory=$1 tmp=$2
[ "$1" != -list ] || directory=$2
[ -n "$directory" ] && [ -n "$tmp" ] || exit 2
[ -z "${3:-}" ] || tail --pid="$3" -s 0.5 -f /dev/null

of_the_run() {
    local process
    for process in /proc/[0-9]*; do
        case "${process#/proc/}" in "$$" | "$PPID" | "$BASHPID") continue ;; esac
        case "$(readlink "$process/exe" "$process/cwd" 2>/dev/null)" in
        *"$directory"*) echo "${process#/proc/}" && continue ;;
        esac
        ! grep -qsaF "TMPDIR=$directory" "$process/environ" || echo "${process#/proc/}"
    done
}
if [ "$1" = -list ]; then
    for process in $(of_the_run); do
        command=$(tr '\0' ' ' <"/proc/$process/cmdline") 2>/dev/null
        [ -z "$command" ] || printf '%.100s (in %s)\n' "$command" "$(readlink "/proc/$process/cwd")"
    done
    exit
fi
# Until two looks find nothing: a shell whose command was killed starts its next one. Not for ever: nobody
# can kill what waits in the kernel.
quiet=0
for _ in {1..50}; do
    rest=$(of_the_run)
    if [ -n "$rest" ]; then
        quiet=0
        # shellcheck disable=SC2086
        kill -KILL $rest 2>/dev/null
    elif [ $((quiet += 1)) = 2 ]; then
        break
    fi
    sleep 0.1
done
! mountpoint -q "$directory" || umount -l "$directory"
rm -rf "$tmp"
rmdir "$directory" 2>/dev/null
