#!/usr/bin/env bash
# The complete form of what .ci/run does in part: every fault at every write, new seeds, larger numbers, the suites of the sandbox that
# `npm test` leaves out, both arrangements. Runs every step even when an earlier one has failed, and ends with 1 when one has.
#
#   scripts/nightly.sh [suites | faults]   both take more than five hours together; one of them fits into a job of CI
set -uo pipefail
cd "$(dirname "$0")/.."

part=${1:-}
failed=()

step() {
  local from=$SECONDS
  echo
  echo "== $*"
  "$@" || failed+=("$*")
  echo "== $((SECONDS - from)) s"
}

# Built here and not in a test, which has a limit of two minutes.
step scripts/test-programs.sh tools
step scripts/test-programs.sh velero

suites() {
  export GATEHOUSE_SCHEDULES=${GATEHOUSE_SCHEDULES:-60}
  step npx vitest run --project unit src/runtime/certificates/rotation-schedule.test.ts
  step env GATEHOUSE_REFERENCE_SCHEDULES=1000000 npx vitest run --project unit src/runtime/claims/reference-interleavings.test.ts
  step env GATEHOUSE_NIGHTLY=1 npx vitest run --project integration test/integration/{native-order,admission-policies,mutating-policies}.test.ts
  step env GATEHOUSE_NIGHTLY=1 npx vitest run --project processes test/integration/{cel-oracle,npm-package}.test.ts
  step node scripts/differential.ts --requests 50000
  step env GATEHOUSE_PAIRS=10000 npx vitest run --project e2e test/e2e/serializable.test.ts
  step env GATEHOUSE_LONG=only npx vitest run --project sandbox
  step npx vitest run --project nightly
  step env GATEHOUSE_NIGHTLY=1 npx vitest run --project velero test/velero/generated.test.ts
  step env GATEHOUSE_KUBERNETES=oldest npm run test:e2e
  # As on OpenShift.
  step env GATEHOUSE_ADMISSION_PLUGINS=OwnerReferencesPermissionEnforcement npx vitest run --project e2e \
    test/e2e/{serving-certs,serving-certs-options,certs-crash,certs-two-leaders,ca-rotation,ca-key,imported-ca,own-state}.test.ts \
    test/e2e/{distributed-bundles,injection,injection-targets,etcd-rollback,removal,namespaces}.test.ts
  # The steps above and CI run these suites as one process in the sandbox, and as two with kube-apiserver.
  mapfile -t both < <(grep -l "arrangement: 'both'" test/e2e/*.test.ts)
  step env GATEHOUSE_ARRANGEMENT=single npx vitest run --project e2e "${both[@]}"
  step env GATEHOUSE_ARRANGEMENT=split GATEHOUSE_LONG=1 npx vitest run --project sandbox "${both[@]}"
}

faults() {
  step npm run fuzz
  step node scripts/bypass-mutants.ts
  step npm run chaos
  step npm run test:cluster
  step npm run soak
  step npm run executable
}

case $part in
  '')
    suites
    faults
    ;;
  suites | faults) $part ;;
  *) echo 'nightly: give suites, faults, or nothing for both' >&2 && exit 2 ;;
esac

if ((${#failed[@]} > 0)); then
  printf '== FAILED: %s\n' "${failed[@]}"
  exit 1
fi
