# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced: hosts n1, n2, ... on this machine. Each is a network namespace on a bridge with its own address, host name and
# /dev/shm, so that programs on two of them find each other by name and speak TCP. Needs root and iproute2.
#
#   network_up DIR HOSTS      DIR keeps the names, which are unique to it: several networks may be up at once
#   network_exec HOST COMMAND...
#   DIR/rsh HOST COMMAND...   the same as ssh would, with an environment of its own: Open MPI's plm_rsh_agent
#   network_down DIR          ends every process of the hosts
#   network_load DIR          the names of a network that another process started

network_source=$(realpath "${BASH_SOURCE[0]}")

network_interface() { echo "${network_tag}v$1"; }
network_namespace() { echo "${network_tag}n$1"; }
network_address() { echo "$network_subnet.$1"; }

# Prints why a network is impossible here, or nothing.
network_lacks() {
  local tool
  [[ $(id -u) -eq 0 ]] || { echo "needs root"; return; }
  for tool in ip tc unshare pgrep; do
    command -v "$tool" >/dev/null || { echo "there is no $tool"; return; }
  done
  if ! ip netns add "trireme$$" 2>/dev/null || ! ip netns del "trireme$$"; then
    echo "no network namespaces are allowed here"
    return
  fi
  if ! ip link add "trb$$" type bridge 2>/dev/null || ! ip link del "trb$$"; then echo "no bridges are allowed here"; fi
}

network_load() {
  # shellcheck source=/dev/null
  [[ ! -f $1/network ]] || source "$1/network"
}

network_up() {
  local place=$1 host other hosts
  network_hosts=$2
  # A tag and subnet that no other network uses: the bridge's name is the lock.
  local number
  for ((number = 1; number < 250; ++number)); do
    ip link add "tr${number}b" type bridge 2>/dev/null && break
  done
  ((number < 250)) || { echo "network.sh: no free bridge name" >&2; return 1; }
  network_tag=tr$number network_subnet=10.77.$number
  network_gateway=$network_subnet.254 network_number=$number
  declare -p network_hosts network_number network_tag network_subnet network_gateway | sed 's/^declare --/declare -g/' >"$place/network"
  ip addr add "$network_gateway/24" dev "${network_tag}b"
  ip link set "${network_tag}b" up
  cat >"$place/rsh" <<AGENT
#!/usr/bin/env bash
source "$network_source"
network_load "$place"
while [[ \$1 == -* ]]; do shift; done
host=\${1#n}
shift
network_exec "\$host" env -i PATH="\$PATH" HOME="\$HOME" bash -c "\$*"
AGENT
  chmod +x "$place/rsh"
  # Without local names every look-up waits for the DNS.
  hosts="127.0.0.1 localhost"$'\n'"$network_gateway $(hostname -s)"
  for ((other = 1; other <= network_hosts; ++other)); do hosts+=$'\n'"$(network_address "$other") n$other"; done
  for ((host = 1; host <= network_hosts; ++host)); do
    local namespace
    namespace=$(network_namespace "$host")
    ip netns add "$namespace"
    ip link add "$(network_interface "$host")" type veth peer name eth0 netns "$namespace"
    ip link set "$(network_interface "$host")" master "${network_tag}b" up
    ip -n "$namespace" link set lo up
    ip -n "$namespace" addr add "$(network_address "$host")/24" dev eth0
    ip -n "$namespace" link set eth0 up
    ip -n "$namespace" route add default via "$network_gateway"
    mkdir -p "/etc/netns/$namespace"
    echo "$hosts" >"/etc/netns/$namespace/hosts"
    echo "options timeout:1 attempts:1" >"/etc/netns/$namespace/resolv.conf"
  done
}

network_exec() {
  local host=$1
  shift
  # shellcheck disable=SC2016  # expanded inside the namespace
  ip netns exec "$(network_namespace "$host")" unshare --uts --mount --propagation private bash -c '
    hostname "$0" && mount -t tmpfs -o size=50% tmpfs /dev/shm && exec "$@"' "n$host" "$@"
}

# Whether a host gets an answer from another, even a refusal.
network_reachable() {
  local answer
  answer=$(ip netns exec "$(network_namespace "$1")" timeout 1 bash -c ": >/dev/tcp/n$2/9" 2>&1)
  [[ $answer == *refused* ]]
}

# The processes of a host.
network_processes() { ip netns pids "$(network_namespace "$1")" 2>/dev/null; }

network_down() {
  local place=$1 host namespace processes
  [[ -n ${network_tag:-} ]] || return 0
  for ((host = 1; host <= network_hosts; ++host)); do
    namespace=$(network_namespace "$host")
    mapfile -t processes < <(network_processes "$host")
    [[ ${#processes[@]} -eq 0 ]] || kill -s KILL "${processes[@]}" 2>/dev/null || true
    # By name: the kernel removes those of a namespace late.
    ip link del "$(network_interface "$host")" 2>/dev/null || true
    ip netns del "$namespace" 2>/dev/null || true
    rm -rf "/etc/netns/${namespace:?}"
  done
  ip link del "${network_tag}b" 2>/dev/null || true
  rm -f "$place/network"
}
