#!/usr/bin/env bash
# Prints a folder that holds etcd, kube-apiserver and kube-controller-manager, in the layout of KUBEBUILDER_ASSETS:
#   1. $KUBEBUILDER_ASSETS, if set;
#   2. what setup-envtest has or downloads, if that tool is on PATH;
#   3. on Debian 12 as root: Kubernetes 1.20.2 built from Debian's own source package with Debian's Go 1.19.
#      About 4 minutes on 2 cores the first time, kept in the user's cache folder after that.
# Progress and errors go to stderr. Exits 1 with a sentence that says what to install when none of them is possible.
set -euo pipefail

readonly package_version='1.20.5+really1.20.2-1.1+deb12u1'
readonly git_version=v1.20.2
readonly git_commit=faecb196815e248d3ecfb03c680a4507229c2a56
readonly binaries=(etcd kube-apiserver kube-controller-manager)
readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/gatehouse/envtest/${git_version#v}

fail() {
  echo "envtest: $*" >&2
  exit 1
}

complete() { # folder
  local binary
  for binary in "${binaries[@]}"; do [[ -x $1/$binary ]] || return 1; done
}

require_complete() { # folder, where it comes from
  local binary
  for binary in "${binaries[@]}"; do
    [[ -x $1/$binary ]] || fail "$2 points to $1, but there is no executable $binary in it. Put etcd, kube-apiserver and kube-controller-manager of one Kubernetes release there."
  done
}

is_debian_12() {
  [[ -r /etc/os-release ]] && (. /etc/os-release && [[ ${ID:-} == debian && ${VERSION_CODENAME:-} == bookworm ]])
}

install_build_tools() {
  apt-get update
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends golang-1.19-go golang-github-modern-go-reflect2-dev etcd-server dpkg-dev rsync make
}

# Debian's sources, fetched with a sources list of our own: the machine's list seldom names source packages.
fetch_source() { # work folder
  local work=$1
  mkdir -p "$work"/lists/partial "$work"/archives/partial
  echo 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main' \
    >"$work/sources.list"
  local apt=(apt-get
    -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work" -o APT::Sandbox::User=root)
  "${apt[@]}" update
  (cd "$work" && "${apt[@]}" source --download-only "kubernetes=$package_version" && dpkg-source -x ./*.dsc source)
}

# Kubernetes 1.20 brings reflect2 1.0.1, which calls a runtime function whose signature changed with Go 1.18: a
# kube-apiserver built like that corrupts its memory and dies on custom resources, sooner or later. Debian has 1.0.2.
# (Built with Go 1.16 or newer, it also reads an empty string in a custom resource as null, kubernetes #99804. This is not
# patched: other builds have the same bug, and Gatehouse's CRDs must work with it.)
patch_for_go_1_18() { # work folder
  local vendored=$1/source/vendor/github.com/modern-go/reflect2
  rm -r "$vendored"
  cp -r /usr/share/gocode/src/github.com/modern-go/reflect2 "$vendored"
}

compile() { # work folder
  local go=/usr/lib/go-1.19 version=${git_version#v}
  (
    cd "$1/source"
    export GOROOT=$go PATH=$go/bin:$PATH GOPROXY=off GOFLAGS='' GOCACHE=$1/go-cache CGO_ENABLED=0
    make WHAT='cmd/kube-apiserver cmd/kube-controller-manager' \
      KUBE_GIT_VERSION="$git_version" KUBE_GIT_MAJOR="${version%%.*}" KUBE_GIT_MINOR="$(cut -d. -f2 <<<"$version")" \
      KUBE_GIT_TREE_STATE=clean KUBE_GIT_COMMIT="$git_commit"
  )
}

build_on_debian() {
  local work
  mkdir -p "$cache"
  exec 9>"$cache/.lock"
  flock 9 # a second caller waits here and finds the folder complete
  complete "$cache" && return

  echo "envtest: building Kubernetes ${git_version#v} from Debian's source package; this takes some minutes, once" >&2
  work=$(mktemp -d)
  # Expanded now: the trap runs when `work` is out of scope.
  # shellcheck disable=SC2064
  trap "chmod -R u+w '$work'; rm -rf '$work'" EXIT
  if ! (set -e; install_build_tools; fetch_source "$work"; patch_for_go_1_18 "$work"; compile "$work") >"$work/log" 2>&1; then
    tail -n 40 "$work/log" >&2
    fail "the build failed; its last lines are above. It needs Debian's package mirror and about 5 GB of free disk."
  fi
  install -m 755 "$work"/source/_output/local/bin/linux/*/kube-{apiserver,controller-manager} "$cache/"
  ln -sf "$(command -v etcd)" "$cache/etcd"
}

if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
  require_complete "$KUBEBUILDER_ASSETS" '$KUBEBUILDER_ASSETS'
  echo "$KUBEBUILDER_ASSETS"
elif command -v setup-envtest >/dev/null; then
  setup-envtest use -p path
elif complete "$cache"; then
  echo "$cache"
elif is_debian_12 && [[ $(id -u) == 0 ]]; then
  build_on_debian
  require_complete "$cache" 'the build'
  echo "$cache"
else
  fail "no Kubernetes control plane found. Set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and \
kube-controller-manager, or install setup-envtest (go install sigs.k8s.io/controller-runtime/tools/setup-envtest@latest), \
or run this on Debian 12 as root, where they are built from Debian's packages."
fi
