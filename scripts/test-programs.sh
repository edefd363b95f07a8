#!/usr/bin/env bash
# Prints a folder with programs that tests start, built from the Go modules in test/go:
#
#   scripts/test-programs.sh newest   etcd, kube-apiserver, kube-controller-manager and kubectl of the newest supported Kubernetes
#   scripts/test-programs.sh oldest   the same programs of the oldest one, with the newest etcd
#   scripts/test-programs.sh node     kube-scheduler, kubelet and kube-proxy of the newest one; containerd, runc, the plugins of CNI, and NetworkPolicies
#   scripts/test-programs.sh velero   Velero, with an object store that is a folder
#   scripts/test-programs.sh tools    Helm, promtool and programs of ours
#   scripts/test-programs.sh cel-newest, cel-oldest   the CEL of that Kubernetes, as a program that answers questions
#
# newest and oldest are control planes in the layout of KUBEBUILDER_ASSETS. They are not built if that variable names a folder, or if
# setup-envtest is on the PATH and its folder has all programs; the archives of envtest lack kube-controller-manager.
# The folder is in the user's cache; its name has a hash of all that decides its content. A build without Go's cache takes minutes. Progress
# and errors go to stderr. If a build is impossible, the script says what to install and exits with 1.
set -euo pipefail

fail() {
  echo "test-programs: $*" >&2
  exit 1
}

readonly name=${1:-}
root=$(cd "$(dirname "$0")/.." && pwd)
readonly root go_modules=$root/test/go
readonly newest=$go_modules/kubernetes-newest
case $name in
  newest | oldest) sources=$go_modules/kubernetes-$name ;;
  cel-newest | cel-oldest) sources=$go_modules/kubernetes-${name#cel-} ;;
  node | tools | velero) sources=$go_modules/$name ;;
  *) fail 'give one argument: newest, oldest, node, tools, velero, cel-newest or cel-oldest' ;;
esac

is_control_plane() { [[ $name == newest || $name == oldest ]]; }

# The first program that a folder lacks.
missing_in() { # folder, programs
  local folder=$1 program
  shift
  for program in "$@"; do
    if [[ ! -x $folder/$program ]]; then
      echo "$program"
      return
    fi
  done
}

readonly control_plane=(etcd kube-apiserver kube-controller-manager)
if is_control_plane && [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
  lacks=$(missing_in "$KUBEBUILDER_ASSETS" "${control_plane[@]}")
  [[ -z $lacks ]] || fail "KUBEBUILDER_ASSETS is $KUBEBUILDER_ASSETS, but there is no executable $lacks in it. \
Put etcd, kube-apiserver and kube-controller-manager of one Kubernetes release there."
  echo "$KUBEBUILDER_ASSETS"
  exit
fi
if is_control_plane && command -v setup-envtest >/dev/null; then
  minor=$(sed -n 's#^\tk8s.io/kubernetes v1\.\([0-9]*\)\..*#\1#p' "$sources/go.mod")
  assets=$(setup-envtest use -p path "1.$minor.x")
  lacks=$(missing_in "$assets" "${control_plane[@]}")
  if [[ -z $lacks ]]; then
    echo "$assets"
    exit
  fi
  echo "test-programs: setup-envtest has no $lacks; building $name" >&2
fi

# What decides the content: this script, the pinned versions and our own programs.
deciding=(scripts/test-programs.sh "${sources#"$root/"}" "${newest#"$root/"}/go.mod")
[[ $name != cel-* ]] || deciding+=(test/go/cel-oracle)
key=$(cd "$root" && find "${deciding[@]}" -type f -print0 | LC_ALL=C sort -zu |
  xargs -0 sha256sum | sha256sum | cut -c1-16)
readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/gatehouse/test-programs
readonly folder=$cache/$name-$key

# The user's settings of Go must not change what is built.
export CGO_ENABLED=0 GOFLAGS=-trimpath GOWORK=off
# A compiler process lives for seconds. Without collecting garbage until it has 1 GiB, it needs a quarter less time.
export GOGC=off GOMEMLIMIT=1GiB

require_go() {
  local needed version
  needed=$(sed -n 's/^go //p' "$sources/go.mod")
  command -v go >/dev/null || fail "Go is not installed. Install Go $needed (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a folder \
with etcd, kube-apiserver and kube-controller-manager."
  # An older Go fetches the version that go.mod names, if it may. Before 1.21, it does not know that.
  version=$(go -C "$sources" version 2>&1) || fail "Go $needed is needed, and the installed Go cannot fetch it: $version"
  [[ ! $version =~ go1\.(1?[0-9]|20)[^0-9] ]] || fail "Go $needed is needed; this is $version"
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
  # Without the locks: a compiler that outlives this script, and what reads its output, must not keep them.
  { go -C "$from" build -v -buildvcs=false -ldflags "-s -w $flags" -o "$work/bin/" "$@" 2>&1 | tee -a "$work/log" | progress; } 8>&- 9>&-
}

release_of() { # folder of the module, name of another module
  go -C "$1" list -m -f '{{.Version}}' "$2"
}

build_kubernetes() { # folder of the module, names of programs
  local from=$1 release version=k8s.io/component-base/version
  shift
  release=$(release_of "$from" k8s.io/kubernetes)
  build "$from" "-X $version.gitVersion=$release -X $version.gitMajor=1 -X $version.gitMinor=$(cut -d. -f2 <<<"$release") \
-X $version.gitTreeState=clean" "${@/#/k8s.io/kubernetes/cmd/}"
}

# runc needs C for the filters of system calls. containerd leaves out the file systems of others.
build_node() {
  local containerd=github.com/containerd/containerd/v2 plugins=github.com/containernetworking/plugins/plugins
  build_kubernetes "$newest" kube-scheduler kubelet kube-proxy &&
    build "$sources" "-X $containerd/version.Version=$(release_of "$sources" $containerd)" -tags no_btrfs,no_devmapper,no_zfs \
      $containerd/cmd/{containerd,containerd-shim-runc-v2,ctr} &&
    build "$sources" '' $plugins/{main/ptp,main/loopback,ipam/host-local,meta/portmap} \
      ./network-policies &&
    CGO_ENABLED=1 build "$sources" '' -tags seccomp github.com/opencontainers/runc
}

# The caller asks whether it failed, so `set -e` does not hold in here.
build_all() {
  local velero=github.com/vmware-tanzu/velero
  case $name in
    newest | oldest)
      build_kubernetes "$sources" kube-apiserver kube-controller-manager kubectl &&
        build "$newest" '' go.etcd.io/etcd/server/v3 &&
        mv "$work/bin/server" "$work/bin/etcd"
      ;;
    node) build_node ;;
    velero)
      # Without a port for the metrics of its library, which no flag changes: two of them run on one machine. Without optimization, which
      # takes a third of the time to compile; its runs in tests are short.
      build "$sources" "-X $velero/pkg/buildinfo.Version=$(release_of "$sources" $velero) \
-X sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress=0" '-gcflags=all=-N -l' $velero/cmd/velero ./folder-store
      ;;
    cel-*) build "$sources" '' ../cel-oracle/main.go "../cel-oracle/${name#cel-}.go" && mv "$work/bin/main" "$work/bin/cel-oracle" ;;
    tools) build "$sources" '' -tags remove_all_sd tool ./... ;; # promtool without the SDKs of clouds
  esac
}

mkdir -p "$cache"
exec 9>"$cache/.lock-$name"
if ! flock -n 9; then # a second caller waits here, and finds what the first one has built
  echo "test-programs: another process builds $name; waiting for it" >&2
  flock 9
fi
if [[ ! -d $folder ]]; then
  require_go
  exec 8>"$cache/.lock-build"
  flock 8 # one build at a time: they share compiled packages, which two would compile twice
  echo "test-programs: building $name; without Go's cache this takes minutes" >&2
  work=$(mktemp -d -p "$cache")
  trap 'rm -rf "$work"' EXIT
  mkdir "$work/bin"
  if ! build_all; then
    touch "$work/log"
    tail -n 40 "$work/log" >&2
    fail "the build failed; its last lines are above. It needs a Go module proxy (GOPROXY is $(go env GOPROXY)) and 10 GB of free disk."
  fi
  mv "$work/bin" "$folder"
  # What no checkout has used for a month, and what a killed build left behind.
  find "$cache" -mindepth 1 -maxdepth 1 -type d '(' -mtime +30 -o -name 'tmp.*' -mtime +1 ')' -exec rm -r {} +
  echo "test-programs: built $name in ${SECONDS} s" >&2
fi
touch "$folder"
echo "$folder"
