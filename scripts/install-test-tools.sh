#!/usr/bin/env bash
# Installs the tools that some tests need in addition to Node. For verdicts on trust: openssl, python3, curl and Java (with its
# compiler, because the client is run from source), and faketime for verdicts on another day; for the status page: Chromium; for the node with pods: tools of the network, a shell
# for its pods, and a C compiler with libseccomp for runc. It installs missing tools where possible; tests report what they skip.
set -euo pipefail

declare -A packages=([openssl]=openssl [python3]=python3 [curl]=curl [javac]=default-jdk-headless [chromium]=chromium
  [ip]=iproute2 [nft]=nftables [conntrack]=conntrack [iptables]=iptables [ipset]=ipset [busybox]=busybox-static [pgrep]=procps
  [gcc]=gcc [pkg-config]=pkg-config [faketime]=faketime)
missing=()
for command in "${!packages[@]}"; do
  command -v "$command" >/dev/null || missing+=("${packages[$command]}")
done
[[ -e /usr/include/seccomp.h ]] || missing+=(libseccomp-dev)

if ((${#missing[@]} == 0)); then
  echo "all of them are there: ${!packages[*]}"
elif [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
  # Debian starts a service when its package is installed, unless this file forbids it.
  policy=/usr/sbin/policy-rc.d
  if [[ ! -e $policy ]]; then
    trap 'rm -f "$policy"' EXIT
    install -m 755 /dev/stdin "$policy" <<<$'#!/bin/sh\nexit 101'
  fi
  apt-get update
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
else
  echo "not installed, so tests that need them are skipped: ${missing[*]}"
fi
