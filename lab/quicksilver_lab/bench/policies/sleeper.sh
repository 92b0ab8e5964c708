# A task: tells the pipe $1 that container $2 began, sleeps $3 seconds, tells that it ended (lab/quicksilver_lab/bench/las/umbilical.py).
echo "begin $2 $(date +%s.%N) $$" >"$1"
sleep "$3"
echo "end $2 $(date +%s.%N) 0" >"$1"
