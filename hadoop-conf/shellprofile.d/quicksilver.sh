# Makes `yarn quicksilver ...` of the command `quicksilver`: copy to $HADOOP_CONF_DIR/shellprofile.d (Hadoop 3).

if ! declare -f yarn_subcommand_quicksilver >/dev/null 2>&1; then

  if [[ "${HADOOP_SHELL_EXECNAME}" = yarn ]]; then
    hadoop_add_subcommand "quicksilver" client "queueable containers: nodes, queues, decisions, policies"
  fi

  ## @description  runs quicksilver with Hadoop's configuration; QUICKSILVER_HOME names another installation
  ## @audience     public
  ## @stability    stable
  ## @replaceable  yes
  function yarn_subcommand_quicksilver
  {
    local program="${QUICKSILVER_HOME:+${QUICKSILVER_HOME}/bin/}quicksilver"
    if ! command -v "${program}" >/dev/null; then
      hadoop_error "quicksilver: error: ${program}: not found; install yarn-quicksilver, or set QUICKSILVER_HOME"
      exit 1
    fi
    export HADOOP_CONF_DIR
    exec "${program}" "$@"
  }

fi
