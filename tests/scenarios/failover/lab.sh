# Network namespaces for the scenarios of this folder, named $prefix-NAME; sourced by them.

in_namespace() { ip netns exec "$prefix-$1" "${@:2}"; }

# link NAMESPACE INTERFACE ADDRESS PEER PEER_ADDRESS: connects a namespace to its gateway.
link() {
  ip link add "$2" netns "$prefix-$1" type veth peer name uplink netns "$prefix-$4"
  ip -n "$prefix-$1" addr add "$3" dev "$2"
  ip -n "$prefix-$1" link set "$2" up
  ip -n "$prefix-$4" addr add "$5" dev uplink
  ip -n "$prefix-$4" link set uplink up
  ip -n "$prefix-$4" route add default via "${3%/*}"
}

add_namespaces() {
  local namespace
  for namespace; do
    ip netns add "$prefix-$namespace"
    ip -n "$prefix-$namespace" link set lo up
    in_namespace "$namespace" sysctl -qw net.ipv4.ip_forward=1
  done
}

remove_namespaces() {
  local namespace
  for namespace in $(ip netns list | awk '{print $1}' | grep "^$prefix-"); do
    ip netns pids "$namespace" | xargs -r kill
    ip netns del "$namespace"
  done
}
