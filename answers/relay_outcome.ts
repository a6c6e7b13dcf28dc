import type { ModeRelay } from "../backends/contract/mod.ts";
import type { Protocol } from "../core/model/mod.ts";
import { isLoopback } from "../platform/mod.ts";
import type { Destination } from "./frontend.ts";
import { balanced, type Outcome, type Source, stopped } from "./outcome.ts";

/** Whether the relay carries connections to a destination in a mode with this relay. It carries no SCTP. */
export function isRelayed({ address, hit }: Destination, protocol: Protocol, relay: ModeRelay): boolean {
  if (hit === undefined || protocol === "sctp" || relay === "none") return false;
  return relay === "services" || hit.frontend.kind === "nodePort" && isLoopback(address);
}

/**
 * The outcome of a connection to a node port at localhost that the relay serves without rules: all traffic there is the node's
 * own, which may use every endpoint.
 */
export function outcomeAtLocalhost({ hit }: Destination, from: Source): Outcome {
  const port = hit!.port;
  if (port.clusterEndpoints.length === 0) return stopped(from, "rejected", "no-endpoints");
  return throughRelay(balanced(port, "cluster", from, undefined));
}

/** The outcome of a connection that the rules send to the relay instead of an endpoint. */
export function throughRelay(outcome: Outcome): Outcome {
  if (outcome.fate !== "balanced") return outcome;
  return { ...outcome, masquerade: { applies: true, reason: "relayed" }, hairpin: [] };
}

/** What a reader should know about a relayed connection. */
export function relayRemark(protocol: Protocol): string {
  const carried =
    "Sluice itself carries this traffic (relay): the endpoint sees this node's address instead of the client's";
  if (protocol === "udp") return carried;
  return `${carried}; if an endpoint refuses, or does not answer at once, the next one is tried`;
}
