/** Where a service port is served, and why that can fail. */
import { frontendsOf, type ServicePort } from "../core/model/mod.ts";
import { errorText, type Family, familyOf, joinHostPort } from "../platform/mod.ts";
import type { RelayPlacement } from "./contract.ts";
import { isOutOfFiles } from "./file_watch.ts";
import type { EndpointList } from "./target.ts";

/** A place where a service port listens; port 0 stands for a free one. */
export interface Place {
  readonly list: EndpointList;
  readonly address: string;
  readonly port: number;
}

/** The places of a service port: one for each list of endpoints that a frontend uses, or its node port. */
export function placesOf(servicePort: ServicePort, family: Family, placement: RelayPlacement): Place[] {
  const { protocol, nodePort } = servicePort;
  if (protocol === "sctp") return [];
  if (placement.by === "localhost-node-ports") {
    if (nodePort === 0) return [];
    return placement.addresses.filter((address) => familyOf(address) === family)
      .map((address) => ({ list: "cluster", address, port: nodePort }));
  }
  const frontends = frontendsOf(servicePort);
  const uses = (list: EndpointList) => frontends.some((one) => one.verdict === list || one.ownVerdict === list);
  const address = protocol === "udp" ? placement.udpAddress : family === "IPv4" ? "0.0.0.0" : "::";
  return (["cluster", "local"] as const).filter(uses).map((list) => ({ list, address, port: 0 }));
}

/** A name of a place that is unique within its service port. */
export function placeName({ list, address, port }: Place): string {
  return `${list} ${joinHostPort(address, port)}`;
}

/** Says why a place cannot be opened, and what to do. */
export function whyClosed({ address, port }: Place, error: unknown): string {
  const where = `cannot listen on ${joinHostPort(address, port)}`;
  const text = errorText(error);
  if (isOutOfFiles(error)) return `${where}: too many open files (raise LimitNOFILE)`;
  if (!/EADDRINUSE|address (already )?in use/i.test(text)) return `${where}: ${text}`;
  return port === 0
    ? `${where}: no free port (widen net.ipv4.ip_local_port_range)`
    : `${where}: another program uses the port`;
}
