#!/bin/sh
# Sourced by the agent of Cloudera Manager before a process that consumes this parcel.
export QUICKSILVER_HOME="$PARCELS_ROOT/$PARCEL_DIRNAME"
