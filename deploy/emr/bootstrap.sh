#!/bin/sh
# Bootstrap action of Amazon EMR: quicksilver on each instance, also on those that a resize adds. docs/emr.md
#   --package URL   the .rpm, or the archive .tar.gz: s3://, https:// or a path on the instance
#   --keys URL      .tar.gz for /etc/quicksilver: tokens, ca/ca.crt, ca/ca.key; quicksilver.yaml if it is to be yours
#   --wait S        how long to wait for EMR's own provisioning (3600)
# Bootstrap actions run before EMR installs Hadoop. So this one leaves a unit behind that waits until EMR says that the instance is
# provisioned, and does the rest then. It fails open: it ends with 0, and what fails leaves stock YARN; the reasons are in
# `journalctl -u quicksilver-bootstrap`.
set -u
state=${QUICKSILVER_ROOT:-}/var/lib/quicksilver-bootstrap
record=${QUICKSILVER_ROOT:-}/emr/instance-controller/lib/info/job-flow-state.txt
package="" keys="" wait_s=3600 waits=no

say() { echo "quicksilver: $*" >&2; }

fetch() { # URL FILE
  case $1 in
  s3://*) aws s3 cp --only-show-errors "$1" "$2" ;;
  https://*) curl --fail --silent --show-error --location --retry 5 --output "$2" "$1" ;;
  *) cp "$1" "$2" ;;
  esac
}

# EMR's record of this instance, read as its documentation does: localInstance { nodeProvisionCheckinRecord { status: SUCCESSFUL } }
provisioned() {
  sed -n '/localInstance [{]/,/[}]/{/nodeProvisionCheckinRecord [{]/,/[}]/{/status:/p}}' "$record" 2>/dev/null |
    grep -qw SUCCESSFUL
}

install_package() { # FILE
  case $1 in
  *.rpm) (dnf install -y "$1" || yum install -y "$1") ;;
  *.tar.gz)
    opt=${QUICKSILVER_ROOT:-}/opt
    mkdir -p "$opt" && tar -xf "$1" -C "$opt" || return 1
    ln -sfn "$(tar -tf "$1" | head -n 1 | cut -d / -f 1)" "$opt/quicksilver" || return 1
    "$opt/quicksilver/libexec/setup-archive"
    ;;
  *) say "--package must end in .rpm or .tar.gz: $1" && return 1 ;;
  esac
}

rest() {
  waited_s=0
  until provisioned; do
    if [ "$waited_s" -ge "$wait_s" ]; then
      say "EMR did not say within $wait_s s that this instance is provisioned; it stays on stock YARN"
      return 1
    fi
    sleep 5
    waited_s=$((waited_s + 5))
  done
  if ! fetch "$package" "$state/${package##*/}" || ! install_package "$state/${package##*/}"; then
    say "$package cannot be installed; the instance stays on stock YARN"
    return 1
  fi
  if [ -n "$keys" ]; then
    mkdir -p "${QUICKSILVER_ROOT:-}/etc/quicksilver"
    if ! fetch "$keys" "$state/keys.tar.gz" ||
      ! tar -xf "$state/keys.tar.gz" -C "${QUICKSILVER_ROOT:-}/etc/quicksilver" --no-same-owner; then
      say "$keys cannot be unpacked; the instance stays on stock YARN"
      return 1
    fi
    rm -f "$state/keys.tar.gz"
  fi
  "${QUICKSILVER_ROOT:-}/opt/quicksilver/libexec/hadoop-host" setup
}

while [ $# -gt 0 ]; do
  case $1 in
  --package) package=${2:-} && shift ;;
  --keys) keys=${2:-} && shift ;;
  --wait) wait_s=${2:-} && shift ;;
  --waits) waits=yes ;; # the unit that this script leaves behind
  *) say "unknown argument $1; the instance stays on stock YARN" && exit 0 ;;
  esac
  shift
done
if [ -z "$package" ]; then
  say "--package is missing; the instance stays on stock YARN"
  exit 0
fi
if [ "$waits" = yes ]; then
  rest
  exit
fi
if [ "$(id -u)" -ne 0 ]; then
  exec sudo "$0" --package "$package" --keys "$keys" --wait "$wait_s"
fi
own=$state/bootstrap.sh
systemctl reset-failed quicksilver-bootstrap 2>/dev/null # of an earlier try
if ! {
  mkdir -p "$state" && chmod 0700 "$state" && cp "$0" "$own" && chmod 0700 "$own" &&
    systemd-run --unit=quicksilver-bootstrap "$own" --waits --package "$package" --keys "$keys" --wait "$wait_s"
}; then
  say "nothing waits for EMR's provisioning; the instance stays on stock YARN"
fi
exit 0
