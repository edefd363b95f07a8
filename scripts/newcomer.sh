#!/usr/bin/env bash
# What a new user of this repository does: clone it, run its tests, run the README's two commands, follow its steps, leave.
# With --here in this clone, whose packages are installed already: CI has a clean one.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
sandbox=

leave() {
  if [[ -n $sandbox ]]; then kill -KILL -- "-$sandbox" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap leave EXIT

fail() {
  echo "newcomer: $*" >&2
  cat "$work/start.log" >&2 2>/dev/null || true
  exit 1
}

# As a new user's shell: without the tools that npm puts before those of the machine.
PATH=$(tr : '\n' <<<"$PATH" | grep -v node_modules | paste -sd :)
export PATH
export TMPDIR="$work/tmp"
mkdir "$TMPDIR"
unset "${!npm_@}" NODE_OPTIONS KUBECONFIG

SECONDS=0
if [[ ${1:-} == --here ]]; then
  cd "$repository"
  npm test
  echo "newcomer: npm test took ${SECONDS} s"
else
  git clone --quiet "$repository" "$work/gatehouse"
  cd "$work/gatehouse"
  npm ci --no-audit --no-fund
  npm test
  echo "newcomer: npm ci && npm test took ${SECONDS} s"
fi

# A process group of its own, as a terminal gives it: Ctrl-C reaches npm and what npm started.
set -m
npm start >"$work/start.log" 2>&1 &
sandbox=$!
set +m
for _ in {1..300}; do
  grep -q 'export KUBECONFIG=' "$work/start.log" && break
  kill -0 "$sandbox" 2>/dev/null || fail "npm start ended"
  sleep 0.2
done
kubeconfig=$(sed -n 's/^ *export KUBECONFIG=//p' "$work/start.log")
[[ -n $kubeconfig ]] || fail "npm start printed no kubeconfig within a minute"
cat "$work/start.log"

npm run --silent tour -- "$kubeconfig" || fail "a step of the README does not work"

kill -INT -- "-$sandbox"
for _ in {1..50}; do
  kill -0 -- "-$sandbox" 2>/dev/null || break
  sleep 0.2
done
kill -0 -- "-$sandbox" 2>/dev/null && fail "the sandbox does not end"
sandbox=
left=$(find "$TMPDIR" -name 'gatehouse*')
[[ -z $left ]] || fail "the sandbox left behind: $left"
echo "newcomer: the README works"
