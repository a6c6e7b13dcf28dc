import { prefixContains } from "../platform/mod.ts";
import type { Configuration } from "./mod.ts";
import type { KernelSetting } from "../core/channel/mod.ts";

/** The most that `nf_conntrack_max` is computed to be, however many cores there are (kube-proxy's cap). */
const CONNTRACK_MAX_CAP = 1_048_576;

/** The greatest value that the kernel keeps. */
const INT_MAX = 2 ** 31 - 1;

/**
 * The settings of the kernel's connection tracking that the configuration asks for, on a machine with this many cores; those
 * it leaves alone are not among them. As kube-proxy's conntrack settings: `min` counts only where `maxPerCore` is set, and
 * the hash table has at least a bucket for four connections.
 */
export function conntrackSettings(conntrack: Configuration["conntrack"], cores: number): readonly KernelSetting[] {
  const settings: KernelSetting[] = [];
  const set = (name: string, value: number, more: Pick<KernelSetting, "atLeast"> = {}) =>
    settings.push({ name: `net.netfilter.nf_conntrack_${name}`, value, ...more });
  const setSeconds = (name: string, milliseconds: number) => {
    if (milliseconds > 0) set(name, Math.min(Math.ceil(milliseconds / 1000), INT_MAX));
  };
  if (conntrack.maxPerCore > 0) {
    const scaled = conntrack.maxPerCore * cores;
    const max = scaled > CONNTRACK_MAX_CAP ? CONNTRACK_MAX_CAP : Math.max(scaled, conntrack.min);
    set("max", max);
    if (max >= 4) set("buckets", Math.floor(max / 4), { atLeast: true });
  }
  setSeconds("tcp_timeout_established", conntrack.tcpEstablishedTimeoutMs);
  setSeconds("tcp_timeout_close_wait", conntrack.tcpCloseWaitTimeoutMs);
  setSeconds("udp_timeout", conntrack.udpTimeoutMs);
  setSeconds("udp_timeout_stream", conntrack.udpStreamTimeoutMs);
  if (conntrack.tcpBeLiberal) set("tcp_be_liberal", 1);
  return settings;
}

/**
 * The settings that serving needs and that `--init-only` makes, since what serves after it may not (kube-proxy sets them in
 * its init container, too): in iptables mode, that loopback addresses are routed where node ports are served there.
 */
export function initSettings({ mode, iptables, nodePortAddresses }: Configuration): readonly KernelSetting[] {
  const servesLoopback = nodePortAddresses.length === 0 ||
    nodePortAddresses.some((prefix) => prefix !== "primary" && prefixContains(prefix, "127.0.0.1"));
  if (mode !== "iptables" || !iptables.localhostNodePorts || !servesLoopback) return [];
  return [{ name: "net.ipv4.conf.all.route_localnet", value: 1 }];
}
