import type { Protocol } from "../model/mod.ts";
import { isAbsent } from "./raw.ts";

const PROTOCOLS: Readonly<Record<string, Protocol>> = { TCP: "tcp", UDP: "udp", SCTP: "sctp" };

/** The protocol of a port; TCP where it is not told, undefined where it is none that is known. */
export function readProtocol(value: unknown): Protocol | undefined {
  if (isAbsent(value) || value === "") return "tcp";
  return typeof value === "string" && Object.hasOwn(PROTOCOLS, value) ? PROTOCOLS[value] : undefined;
}
