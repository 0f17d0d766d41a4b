# shellcheck shell=bash
# 80-report.bash - print the result, and save it as text.

limits 1 30

tool=$INIT_ROOT/opt/ringup/current/bin/ringup
declare -ga all

# step_inputs - what all other steps have come to.
step_inputs() {
  local step
  for step in "${all[@]}"; do
    if [[ $step != 80-report ]] && marker "$step" said; then printf '%s\n' "$REPLY"; fi
  done
}

# step_done - the text is there.
step_done() { [[ -s $INIT_STATE/report.txt ]]; }

# next - print what a person would do now.
next() {
  local python
  known 50-frameworks path; python=$REPLY
  known_package
  if [[ -n $REPLY ]]; then
    echo "ringup run -np 4 -- $python your_training.py"
    return
  fi
  known 50-frameworks horovod
  if [[ -n $REPLY ]]; then
    echo "ringup rebuild --engine ringup --python $python, then ringup run -np 4 -- $python your_training.py"
  else
    echo "ringup run -np 4 -- your_program; if another Python has a framework: RINGUP_PYTHON=/path/to/python3 ringup-init"
  fi
}

# step_apply - write it.
step_apply() {
  local step text
  for step in "${all[@]}"; do [[ $step == 80-report ]] || learn "$step"; done
  text=$(next)
  log act "write $INIT_STATE/report.txt"
  [[ ! -x $tool || ${DRY_RUN:-0} == 1 ]] || node_inventory "$tool" # with the engines there are now
  [[ ${DRY_RUN:-0} == 1 ]] || report_text '' ok "$text" | write_file "$INIT_STATE/report.txt" 644
  fact next "$text"
}
