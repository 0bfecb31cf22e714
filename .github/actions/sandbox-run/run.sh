#!/usr/bin/env bash
# The action's work. Its inputs come as variables, so that nothing in them is a part of this script.
# sandbox must be installed: from a package, or by a step before.
set -euo pipefail
command -v sandbox >/dev/null || { echo "::error::sandbox is not installed" >&2; exit 127; }
cd -- "${SANDBOX_FOLDER:-.}"

script=${SANDBOX_RUN:?no script}
undo=${SANDBOX_UNDO:-true}
flags=()
while IFS= read -r flag; do
    [ -z "$flag" ] || flags+=("$flag")
done <<<"${SANDBOX_FLAGS:-}"

newest() { sandbox history --json | sed -n 's/^ *"step_id": *\([0-9]*\),*$/\1/p' | head -n 1; }
before=$(newest)
status=0
env -u SANDBOX_RUN -u SANDBOX_FOLDER -u SANDBOX_FLAGS -u SANDBOX_UNDO \
    sandbox run "${flags[@]}" -- bash -euo pipefail -c "$script" || status=$?
[ -z "${GITHUB_OUTPUT:-}" ] || echo "exit-status=$status" >>"$GITHUB_OUTPUT"
# A script that changed nothing has made no step: then the newest one is not ours to undo.
if [ "$status" != 0 ] && [ "$undo" = true ] && [ "$(newest)" != "$before" ]; then
    sandbox undo
fi
exit "$status"
