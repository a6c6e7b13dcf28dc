import { type UdpFrontend, udpFrontend } from "../host/mod.ts";

/**
 * A rule that leads UDP packets to a service or refuses them there, as iptables-save prints it. It has no source, and
 * one destination port; kube-proxy's rules have the same form.
 */
const FRONTEND_RULE = /^(?:-d (\S+)\/(?:32|128) )?-p udp .*--dport (\d+) -j /;

/** The UDP frontend that a rule of our chains is about; undefined where it is about none. */
export function udpFrontendOf(rule: string): UdpFrontend | undefined {
  const match = FRONTEND_RULE.exec(rule);
  return match ? udpFrontend(match[1], Number(match[2])) : undefined;
}
