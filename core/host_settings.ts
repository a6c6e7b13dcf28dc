import type { Configuration } from "./config/mod.ts";
import type { HostSettings, KernelSetting } from "./family_link.ts";

/** What the configuration asks of the host, on a machine with this many cores. */
export function hostSettings(configuration: Configuration, cores: number): HostSettings {
  return { kernel: conntrackSettings(configuration.conntrack, cores), oomScoreAdj: configuration.oomScoreAdj };
}

/**
 * The settings of the kernel's connection tracking that the configuration asks for; those it leaves alone are not
 * among them. As kube-proxy's conntrack settings: `min` counts only where `maxPerCore` is set.
 */
export function conntrackSettings(conntrack: Configuration["conntrack"], cores: number): readonly KernelSetting[] {
  const settings: KernelSetting[] = [];
  const set = (name: string, value: number) => settings.push({ name: `net.netfilter.nf_conntrack_${name}`, value });
  const setSeconds = (name: string, milliseconds: number) => {
    if (milliseconds > 0) set(name, Math.ceil(milliseconds / 1000));
  };
  if (conntrack.maxPerCore > 0) set("max", Math.max(conntrack.maxPerCore * cores, conntrack.min));
  setSeconds("tcp_timeout_established", conntrack.tcpEstablishedTimeoutMs);
  setSeconds("tcp_timeout_close_wait", conntrack.tcpCloseWaitTimeoutMs);
  setSeconds("udp_timeout", conntrack.udpTimeoutMs);
  setSeconds("udp_timeout_stream", conntrack.udpStreamTimeoutMs);
  if (conntrack.tcpBeLiberal) set("tcp_be_liberal", 1);
  return settings;
}
