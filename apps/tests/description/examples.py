"""Descriptions that tests read."""

from typing import Final

SPARK: Final = """\
version: 1
name: spark
title: Spark, standalone
class: interactive
queue: root.lab
priority: 3
expected_s: 600
labels: {team: data}
parameters:
  workers: {type: integer, default: 3, choices: [1, 3, 9], description: Elastic workers.}
  input: {description: Where the data is.}
  share: {type: number, default: 0.5}
  verbose: {type: boolean, default: false}
environment:
  LANG: C.UTF-8
files:
  - source: hdfs:///apps/spark.tgz
    name: spark
    kind: archive
services:
  - name: master
    core: 1
    command: spark/sbin/master.sh -p $PORT_RPC ${HOME} $${parameters.input}
    resources: {memory_mb: 1024}
    ports:
      - {name: rpc}
      - {name: web, number: 8080, link: http/jobs}
    ready: {port: rpc, timeout_s: 30}
    restart: {policy: always}
  - name: worker
    core: 1
    elastic: ${parameters.workers}
    command: spark/sbin/worker.sh $MASTER_HOST
    resources:
      memory_mb: 2048
      vcores: 2
    environment:
      WORKERS: ${parameters.workers}
      SHARE: "at ${parameters.share}"
    after: [master]
    constraints: {racks: [/rack1], strict: false}
  - name: job
    core: 1
    command: python3 job.py --input ${parameters.input} --verbose=${parameters.verbose}
    resources: {memory_mb: 512}
    ready: {log: "started in [0-9]+ s"}
    after: [master, worker]
    main: true
"""
"""A description with a bit of everything; `input` has to be given."""

SMALL: Final = """\
version: 1
name: small
services:
  - name: one
    core: 1
    command: sleep 1
    resources: {memory_mb: 64}
"""
