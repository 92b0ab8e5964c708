#!/bin/sh
# Initialization action of Google Dataproc: quicksilver on each instance, also on those that a resize adds. docs/dataproc.md
# Metadata of the cluster (gcloud dataproc clusters create --metadata):
#   quicksilver-package   URL of the .deb, the .rpm or the archive .tar.gz: gs://, https:// or a path on the instance
#   quicksilver-keys      URL of a .tar.gz for /etc/quicksilver: tokens, ca/ca.crt, ca/ca.key; quicksilver.yaml if it is to be yours
#   quicksilver-strict    true: the cluster is not created when quicksilver cannot be set up
# It fails open: it ends with 0, and what fails leaves stock YARN.
set -u
metadata=${QUICKSILVER_ROOT:-}/usr/share/google/get_metadata_value

say() { echo "quicksilver: $*" >&2; }
attribute() { "$metadata" "attributes/$1" 2>/dev/null || true; }

fetch() { # URL FILE
  case $1 in
  gs://*) gcloud storage cp "$1" "$2" || gsutil -q cp "$1" "$2" ;;
  https://*) curl --fail --silent --show-error --location --retry 5 --output "$2" "$1" ;;
  *) cp "$1" "$2" ;;
  esac
}

install_package() { # FILE
  case $1 in
  *.deb) apt-get install -y "$1" || { apt-get update && apt-get install -y "$1"; } ;;
  *.rpm) dnf install -y "$1" ;;
  *.tar.gz)
    opt=${QUICKSILVER_ROOT:-}/opt
    mkdir -p "$opt" && tar -xf "$1" -C "$opt" || return 1
    ln -sfn "$(tar -tf "$1" | head -n 1 | cut -d / -f 1)" "$opt/quicksilver" || return 1
    "$opt/quicksilver/libexec/setup-archive"
    ;;
  *) say "quicksilver-package must end in .deb, .rpm or .tar.gz: $1" && return 1 ;;
  esac
}

roles() {
  case $(attribute dataproc-role) in
  Master)
    echo resourcemanager
    if [ "$(attribute dataproc-worker-count)" = 0 ]; then # a cluster of a single node
      echo nodemanager
    fi
    ;;
  *) echo nodemanager ;;
  esac
}

all() {
  package=$(attribute quicksilver-package) keys=$(attribute quicksilver-keys)
  if [ -z "$package" ]; then
    say "the metadata quicksilver-package is missing; the instance stays on stock YARN"
    return 1
  fi
  work=$(mktemp -d) || return 1
  trap 'rm -rf "$work"' EXIT
  if ! fetch "$package" "$work/${package##*/}" || ! install_package "$work/${package##*/}"; then
    say "$package cannot be installed; the instance stays on stock YARN"
    return 1
  fi
  if [ -n "$keys" ]; then
    mkdir -p "${QUICKSILVER_ROOT:-}/etc/quicksilver"
    if ! fetch "$keys" "$work/keys.tar.gz" ||
      ! tar -xf "$work/keys.tar.gz" -C "${QUICKSILVER_ROOT:-}/etc/quicksilver" --no-same-owner; then
      say "$keys cannot be unpacked; the instance stays on stock YARN"
      return 1
    fi
  fi
  # shellcheck disable=SC2046
  "${QUICKSILVER_ROOT:-}/opt/quicksilver/libexec/hadoop-host" setup $(roles)
}

if ! all && [ "$(attribute quicksilver-strict)" = true ]; then
  exit 1
fi
exit 0
