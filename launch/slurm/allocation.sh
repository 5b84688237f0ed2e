# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# Sourced by train.sbatch: what Slurm granted to this job, per node, and the ranks that fit.
#
#   read_allocation     sets node_names, node_cpus, node_gpus, node_tasks: one value per node, in the job's order
#   place_ranks WORD... sets node_ranks, ranks, per_node (of the fullest node), cores (per rank) and even (all
#                       nodes have the same number), or `problem`, a sentence for the user, and returns 1
#
# Slurm's variables give GPUs of the first node only, so all come from the controller.

# "2(x3),1": 2 2 2 1, one per line.
expand_counts() {
  local part
  for part in ${1//,/ }; do
    local count=${part%%(*} times=1
    [[ $part != *\(x* ]] || times=${part##*\(x} times=${times%)}
    for ((; times > 0; --times)); do echo "$count"; done
  done
}

# Standard input: `scontrol show job --details`. Prints "NAME GPUS" for each node with GPUs.
granted_gpus() {
  local nodes gres name
  while read -r nodes gres; do
    local sum=0 number
    while read -r number; do sum=$((sum + number)); done < <(grep -oE '(^|,)gpu(:[^,:(]+)?:[0-9]+' <<<"$gres" | grep -oE '[0-9]+$')
    while read -r name; do echo "$name $sum"; done < <(scontrol show hostnames "$nodes")
  done < <(sed -nE 's/^ *Nodes=([^ ]+) .*GRES=([^ ]+).*/\1 \2/p')
}

read_allocation() {
  local details name count index
  mapfile -t node_names < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  mapfile -t node_cpus < <(expand_counts "$SLURM_JOB_CPUS_PER_NODE")
  mapfile -t node_tasks < <(expand_counts "${SLURM_TASKS_PER_NODE:-1(x$SLURM_JOB_NUM_NODES)}")
  node_gpus=()
  for index in "${!node_names[@]}"; do node_gpus[index]=0; done
  # A busy or restarting controller may answer the next time.
  for _ in 1 2 3; do
    details=$(scontrol show job --details "$SLURM_JOB_ID" 2>/dev/null) && [[ $details == *Nodes=* ]] && break
    sleep 2
  done
  while read -r name count; do
    for index in "${!node_names[@]}"; do
      if [[ ${node_names[index]} == "$name" ]]; then node_gpus[index]=$((node_gpus[index] + count)); fi
    done
  done < <(granted_gpus <<<"$details")
}

sum_of() {
  local number sum=0
  for number in "$@"; do sum=$((sum + number)); done
  echo "$sum"
}

# "n1: 2 tasks, 1 GPUs, 2 cores; n2: ..."
granted_text() {
  local index text=""
  for index in "${!node_names[@]}"; do
    text+="${text:+; }${node_names[index]}: ${node_tasks[index]} tasks, ${node_gpus[index]} GPUs, ${node_cpus[index]} cores"
  done
  echo "$text"
}

# Whether a command's words, or else the config among them, choose device.type: cpu. Many sites grant GPUs unasked.
computes_on_cpu() {
  local word type="" config=""
  for word in "$@"; do
    if [[ $word == *device.type=* ]]; then type=${word##*device.type=}; fi
    if [[ -z $config && $word == *.y*ml && -f $word ]]; then config=$word; fi
  done
  if [[ -z $type && -n $config ]]; then type=$(awk '/^[^ #]/ { device = /^device:/ } device && /type: *cpu/ { print "cpu" }' "$config"); fi
  [[ $type == cpu ]]
}

# The count that decides a node's ranks.
rank_source() {
  local gpus
  gpus=$(sum_of "${node_gpus[@]}")
  if ((gpus == 0)); then
    if [[ -n ${SLURM_NTASKS:-} ]]; then echo task; else echo cpu; fi
  elif [[ -z ${SLURM_NTASKS:-} || "${node_tasks[*]}" == "${node_gpus[*]}" ]]; then
    echo gpu
  elif computes_on_cpu "$@"; then
    echo "${TRIREME_RANK_PER:-task}"
  else
    echo "${TRIREME_RANK_PER:-}"
  fi
}

place_ranks() {
  local source index each
  source=$(rank_source "$@")
  case $source in
    gpu) node_ranks=("${node_gpus[@]}") ;;
    task) node_ranks=("${node_tasks[@]}") ;;
    cpu) node_ranks=("${node_cpus[@]}") ;;
    *)
      problem="a rank is one task with one GPU, and Slurm granted ($(granted_text)); ask for as many tasks as GPUs of every node"
      problem+=" (--ntasks-per-node=N --gpus-per-node=N, or --ntasks=N --gpus-per-task=1), or set TRIREME_RANK_PER=task or gpu"
      return 1
      ;;
  esac
  ranks=$(sum_of "${node_ranks[@]}") per_node=0 cores=0 even=true
  for index in "${!node_names[@]}"; do
    local here=${node_ranks[index]}
    if ((here == 0)); then
      problem="${node_names[index]} would have no rank: Slurm granted ($(granted_text)); ask for fewer nodes, or GPUs on each"
      return 1
    fi
    each=$((node_cpus[index] / here))
    if ((each < 1)) && [[ -z ${SLURM_OVERCOMMIT:-} ]]; then
      problem="${node_names[index]} has ${node_cpus[index]} cores for $here ranks; add --cpus-per-gpu=N, or --cpus-per-task=N"
      problem+=" with tasks, or --overcommit where ranks shall share cores"
      return 1
    fi
    ((index > 0 && cores <= each)) || cores=$each
    ((per_node >= here)) || per_node=$here
    [[ $here == "${node_ranks[0]}" ]] || even=false
  done
}

# "n1,n1,n2": the node of each rank.
rank_nodes() {
  local index count list=()
  for index in "${!node_names[@]}"; do
    for ((count = 0; count < node_ranks[index]; ++count)); do list+=("${node_names[index]}"); done
  done
  (IFS=, && echo "${list[*]}")
}
