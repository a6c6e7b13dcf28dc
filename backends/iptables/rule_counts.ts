import { joinHostPort, splitHostPort } from "../../platform/mod.ts";
import type { FailureReason, Protocol } from "../../core/model/mod.ts";
import type { Table } from "../xtables/mod.ts";
import { REFUSAL_COMMENTS } from "./frontends.ts";

/** What a rule with a counter counts. */
export type RuleCount =
  /** Connections to an endpoint (`address:port`): a nat rule sees the first packet only. */
  | { readonly endpoint: string }
  /** Refused packets of new connections to a frontend; the address of a node port is the empty string. */
  | { readonly reason: FailureReason; readonly address: string; readonly protocol: Protocol; readonly port: string };

const DNAT = " -j DNAT --to-destination ";
/** `iptables -v -S` prints counters before the target. */
const COUNTER = " -c ";
const REFUSAL = /^-A \S+ (?:-d (\S+)\/(?:32|128) )?-p (tcp|udp|sctp) .* --dport (\d+) -c /;

/** The number of packets that matched a rule, as `iptables -v -S` prints it; 0 for other lines. */
export function packetsOf(line: string): number {
  const at = line.lastIndexOf(COUNTER);
  return at < 0 ? 0 : parseInt(line.slice(at + COUNTER.length)) || 0;
}

/** What a rule counts; undefined if it is neither a choice of an endpoint nor a refusal. */
export function countOf(table: Table, line: string): RuleCount | undefined {
  if (table === "nat") {
    const at = line.lastIndexOf(DNAT);
    if (at < 0) return undefined;
    const { address, port } = splitHostPort(line.slice(at + DNAT.length));
    return { endpoint: joinHostPort(address, port) };
  }
  const reason = REFUSALS.find(([, words]) => line.includes(words))?.[0];
  const [, address = "", protocol, port] = (reason && REFUSAL.exec(line)) ?? [];
  if (reason === undefined || port === undefined) return undefined;
  return { reason, address, protocol: protocol as Protocol, port };
}

const REFUSALS = Object.entries(REFUSAL_COMMENTS) as [keyof typeof REFUSAL_COMMENTS, string][];
