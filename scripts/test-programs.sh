#!/usr/bin/env bash
# Prints a folder with programs that tests start, built from the Go modules in test/go:
#
#   scripts/test-programs.sh newest   etcd, kube-apiserver, kube-controller-manager and kubectl of the newest supported Kubernetes
#   scripts/test-programs.sh oldest   the same programs of the oldest one, with the newest etcd
#   scripts/test-programs.sh node     kube-scheduler, kubelet and kube-proxy of the newest one
#   scripts/test-programs.sh tools    Helm, promtool and programs of ours
#
# newest and oldest are control planes in the layout of KUBEBUILDER_ASSETS. They are not built if that variable names a folder, or if
# setup-envtest is on the PATH.
# The folder is in the user's cache; its name has a hash of all that decides its content. A build without Go's cache takes minutes. Progress
# and errors go to stderr. If a build is impossible, the script says what to install and exits with 1.
set -euo pipefail

fail() {
  echo "test-programs: $*" >&2
  exit 1
}

readonly name=${1:-}
go_modules=$(cd "$(dirname "$0")/../test/go" && pwd)
readonly newest=$go_modules/kubernetes-newest
case $name in
  newest | oldest) sources=$go_modules/kubernetes-$name ;;
  node) sources=$newest ;;
  tools) sources=$go_modules/tools ;;
  *) fail 'give one argument: newest, oldest, node or tools' ;;
esac

is_control_plane() { [[ $name == newest || $name == oldest ]]; }

if is_control_plane && [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
  for program in etcd kube-apiserver kube-controller-manager; do
    [[ -x $KUBEBUILDER_ASSETS/$program ]] || fail "KUBEBUILDER_ASSETS is $KUBEBUILDER_ASSETS, but there is no executable $program in it. \
Put etcd, kube-apiserver and kube-controller-manager of one Kubernetes release there."
  done
  echo "$KUBEBUILDER_ASSETS"
  exit
fi
if is_control_plane && command -v setup-envtest >/dev/null; then
  minor=$(sed -n 's#^\tk8s.io/kubernetes v1\.\([0-9]*\)\..*#\1#p' "$sources/go.mod")
  exec setup-envtest use -p path "1.$minor.x"
fi

# What decides the content: this script, the pinned versions and our own programs.
key=$(find "$0" "$sources" "$newest/go.mod" -type f -print0 | sort -zu | xargs -0 sha256sum | awk '{ print $1 }' | sha256sum | cut -c1-16)
readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/gatehouse/test-programs
readonly folder=$cache/$name-$key

# The user's settings of Go must not change what is built.
export CGO_ENABLED=0 GOFLAGS='' GOWORK=off

require_go() {
  local version
  command -v go >/dev/null || fail "Go is not installed. Install Go 1.26 (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a folder \
with etcd, kube-apiserver and kube-controller-manager."
  # An older Go fetches the version that go.mod names, if it may.
  version=$(go -C "$sources" version 2>&1) || fail "Go 1.26 is needed, and the installed Go cannot fetch it: $version"
}

# Prints a line every half minute. Go names each package that it compiles.
progress() {
  local packages=0 next=$((SECONDS + 30)) line
  while read -r line; do
    packages=$((packages + 1))
    if ((SECONDS >= next)); then
      echo "test-programs: $name: $packages packages compiled in ${SECONDS} s" >&2
      next=$((SECONDS + 30))
    fi
  done
}

build() { # folder of the module, flags of the linker, packages
  local from=$1 flags=$2
  shift 2
  go -C "$from" build -v -trimpath -buildvcs=false -ldflags "-s -w $flags" -o "$work/bin/" "$@" 2> >(tee -a "$work/log" | progress)
}

build_kubernetes() { # names of programs
  local release version=k8s.io/component-base/version
  release=$(go -C "$sources" list -m -f '{{.Version}}' k8s.io/kubernetes)
  build "$sources" "-X $version.gitVersion=$release -X $version.gitMajor=1 -X $version.gitMinor=$(cut -d. -f2 <<<"$release") \
-X $version.gitTreeState=clean" "${@/#/k8s.io/kubernetes/cmd/}"
}

build_all() {
  case $name in
    newest | oldest)
      build_kubernetes kube-apiserver kube-controller-manager kubectl
      build "$newest" '' go.etcd.io/etcd/server/v3
      mv "$work/bin/server" "$work/bin/etcd"
      ;;
    node) build_kubernetes kube-scheduler kubelet kube-proxy ;;
    tools) build "$sources" '' -tags remove_all_sd tool ./... ;; # promtool without the SDKs of clouds
  esac
}

mkdir -p "$cache"
exec 9>"$cache/.lock-$name"
flock 9 # a second caller waits here, and finds what the first one has built
if [[ ! -d $folder ]]; then
  require_go
  echo "test-programs: building $name; without Go's cache this takes minutes" >&2
  work=$(mktemp -d -p "$cache")
  trap 'rm -rf "$work"' EXIT
  mkdir "$work/bin"
  if ! build_all; then
    tail -n 40 "$work/log" >&2
    fail "the build failed; its last lines are above. It needs a Go module proxy (GOPROXY is $(go env GOPROXY)) and 10 GB of free disk."
  fi
  mv "$work/bin" "$folder"
  # What no checkout has used for a month.
  find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -r {} +
  echo "test-programs: built $name in ${SECONDS} s" >&2
fi
touch "$folder"
echo "$folder"
