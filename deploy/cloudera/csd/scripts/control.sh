#!/bin/sh
# The agent of Cloudera Manager runs it for a role (proxy, sidecar) or a command (reload, bypass), in the process directory $CONF_DIR.
# The parcel sets $QUICKSILVER_HOME, the descriptor $QUICKSILVER_CONFIG and $QUICKSILVER_DIR.
set -eu
program=${QUICKSILVER_HOME:?the parcel QUICKSILVER is not active}/bin/quicksilver

# What the NodeManager runs with is in a directory of its own for each start; the newest counts (docs/cloudera.md).
node_conf() {
  echo "${QUICKSILVER_ROOT:-}/var/run/cloudera-scm-agent/process/*-yarn-NODEMANAGER"
}

case ${1:-} in
proxy)
  export HADOOP_CONF_DIR="$CONF_DIR/yarn-conf"
  cd "$QUICKSILVER_DIR"
  exec "$program" supervise -- proxy run --log-json
  ;;
sidecar)
  HADOOP_CONF_DIR=$(node_conf)
  export HADOOP_CONF_DIR
  cd "$QUICKSILVER_DIR"
  "$program" sidecar restore || true # the agent may have ended the guardian together with the last sidecar
  exec "$program" supervise -- sidecar run --log-json
  ;;
reload)
  export HADOOP_CONF_DIR="$CONF_DIR/yarn-conf"
  "$program" policy check "$QUICKSILVER_CONFIG"
  exec "$program" policy reload
  ;;
bypass)
  export HADOOP_CONF_DIR="$CONF_DIR/yarn-conf"
  exec "$program" proxy bypass on
  ;;
*)
  echo "control.sh proxy | sidecar | reload | bypass" >&2
  exit 2
  ;;
esac
