import { frontendsOf, isPolicyLocal } from "../../core/model/mod.ts";
import { type NumberedPort, numberingIn, numberingOf } from "./affinity_names.ts";
import type { Listing } from "./listing.ts";
import { type Dialect, endpointElement } from "./table.ts";

/** The endpoints of both lists of a service port, by slot; undefined where the endpoint of a slot is unknown. */
export interface SlotOrder extends Pick<NumberedPort, "numbering"> {
  readonly clusterEndpoints: readonly (string | undefined)[];
  readonly localEndpoints: readonly (string | undefined)[];
}

/**
 * A service port with its endpoints in an order in which each keeps the slot that it has in `held`: others take the slots that
 * are free. So one endpoint among 5,000 is one element of each frontend, and not all behind it in the order of their
 * addresses. The tables of a balanced service port depend on the order. With session affinity, endpoints also keep their numbers.
 */
export function keepSlots(port: NumberedPort, held: SlotOrder | undefined): NumberedPort {
  const ordered = keepOrder(port, held);
  return port.affinitySeconds > 0 ? { ...ordered, numbering: numberingOf(port, held?.numbering) } : ordered;
}

function keepOrder(port: NumberedPort, held: SlotOrder | undefined): NumberedPort {
  if (held === undefined || port.balance !== undefined) return port;
  const clusterEndpoints = ordered(port.clusterEndpoints, held.clusterEndpoints);
  const localEndpoints = ordered(port.localEndpoints, held.localEndpoints);
  const isSame = clusterEndpoints === port.clusterEndpoints && localEndpoints === port.localEndpoints;
  return isSame ? port : { ...port, clusterEndpoints, localEndpoints };
}

function ordered(endpoints: readonly string[], held: readonly (string | undefined)[]): readonly string[] {
  if (endpoints.every((endpoint, i) => i >= held.length || held[i] === endpoint)) return endpoints;
  const left = new Set(endpoints);
  const slots = endpoints.map((_, i) => held[i] !== undefined && left.delete(held[i]) ? held[i] : undefined);
  const others = left.values();
  return slots.map((endpoint) => endpoint ?? others.next().value!);
}

/** The slots that the endpoints of a service port have in a listing; `isFirst`: whether the process has read none before. */
export function slotsIn(listing: Listing, port: NumberedPort, { anyAddress }: Dialect, isFirst: boolean): SlotOrder {
  if (port.affinitySeconds > 0) {
    return { clusterEndpoints: [], localEndpoints: [], numbering: numberingIn(listing, port, isFirst) };
  }
  const { protocol } = port, frontends = frontendsOf(port);
  const inSet = (
    set: "endpoints" | "shortcut-endpoints",
    frontend: typeof frontends[number] | undefined,
    endpoints: readonly string[],
  ) => {
    const elements = listing.get(`${protocol}-${set}`);
    if (frontend === undefined || elements === undefined) return [];
    const byElement = new Map(endpoints.map((endpoint) => [endpointElement(endpoint), endpoint]));
    const address = frontend.kind === "nodePort" ? anyAddress : frontend.address;
    return endpoints.map((_, slot) => byElement.get(elements.get(`${address} . ${frontend.port} . ${slot}`) ?? ""));
  };
  const ofCluster = frontends.find(({ verdict }) => verdict === "cluster");
  const shortcut = frontends.find(({ verdict, ownVerdict }) => isPolicyLocal(verdict) && ownVerdict === "cluster");
  return {
    clusterEndpoints: ofCluster
      ? inSet("endpoints", ofCluster, port.clusterEndpoints)
      : inSet("shortcut-endpoints", shortcut, port.clusterEndpoints),
    localEndpoints: inSet("endpoints", frontends.find(({ verdict }) => verdict === "local"), port.localEndpoints),
  };
}
