/** How an endpoint is picked for a new connection: by the number of a slot that a rule draws. */
import { balancedList, balanceTable, type EndpointIndex, type ServicePort } from "../../core/model/mod.ts";
import { shortHash } from "../reconcile/mod.ts";

/**
 * How a chain draws the number of a slot:
 * - `random`: a random number;
 * - `flow`, `client`: a hash of the client's address and port, or of its address;
 * - `turn`: a counter. It belongs to the rule, so each service port has a chain of its own.
 */
export type Draw = "random" | "flow" | "client" | "turn";

/** A list of endpoints as a packet sees it: it draws the number of a slot, which has an endpoint. */
export interface SlotList {
  readonly draw: Draw;
  /** The endpoint of each slot. */
  readonly slots: readonly string[];
  /** The number of each slot in the map; its index if undefined. */
  readonly numbers?: readonly number[];
}

/** The two lists of endpoints of a service port. */
export type ListName = "cluster" | "local";

/** The slots of a list of endpoints. */
export function slotList(port: ServicePort, name: ListName): SlotList {
  const endpoints = name === "cluster" ? port.clusterEndpoints : port.localEndpoints;
  const table = tableOf(port, name);
  return { draw: drawOf(port), slots: table === undefined ? endpoints : table.map((index) => endpoints[index]!) };
}

/** The table of a list of endpoints; undefined if each endpoint has one slot. */
export function tableOf(port: ServicePort, name: ListName): readonly EndpointIndex[] | undefined {
  const { balance } = port, list = balancedList(port, name);
  if (balance === undefined || list.endpoints.length === 0) return undefined;
  return balanceTable(balance, list);
}

/** How the chains of a service port draw slots. */
export function drawOf({ balance }: ServicePort): Draw {
  if (balance?.algorithm === "consistent-hash") return balance.hash ?? "flow";
  return balance?.algorithm === "round-robin" ? "turn" : "random";
}

/** The owner of a service port's own counters, for the names of its chains. */
export function counterOwner({ name, protocol }: ServicePort): string {
  return shortHash(name + protocol);
}

/**
 * The seed of the hash, the same on all nodes and in all versions: otherwise they would send a flow to different endpoints.
 * Only the address and the port of the client are hashed. The slots are those of one frontend, so the whole 5-tuple decides;
 * and nft 1.0.6 has too few registers for two IPv6 addresses beside the key of the map.
 */
const SEED = "0x51c1ce";

/** The expression that draws the number of a slot, as nft prints it. */
export function drawText(draw: Draw, slots: number, ip: "ip" | "ip6", transport: string): string {
  switch (draw) {
    case "random":
      return `numgen random mod ${slots}`;
    case "turn":
      return `numgen inc mod ${slots}`;
    case "client":
      return `jhash ${ip} saddr mod ${slots} seed ${SEED}`;
    case "flow":
      return `jhash ${ip} saddr . ${transport} sport mod ${slots} seed ${SEED}`;
  }
}
