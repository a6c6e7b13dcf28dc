/**
 * The names of the tools that the backends run, in every mode and both families: a mode removes what the others left
 * behind, a changed configuration may ask for another mode, and a worker starts its sibling's successor, which may do no
 * more than itself. On a given host some are not installed.
 */
export const BACKEND_TOOLS: readonly string[] = [
  ...["iptables", "iptables-restore", "iptables-save"],
  ...["ip6tables", "ip6tables-restore", "ip6tables-save"],
  ...["nft", "ip", "ipset", "ipvsadm", "conntrack", "sysctl", "modprobe"],
];
