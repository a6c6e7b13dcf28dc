import { canonicalAddress, type Family, familyOf, splitHostPort } from "../platform/mod.ts";
import type { Protocol } from "../core/model/mod.ts";

/** The kinds of sources that rules distinguish: this node, a pod on it, or anywhere else. */
export type Origin = "node" | "pod" | "outside";

/** All origins, in the order in which they are explained. */
export const ORIGINS: readonly Origin[] = ["pod", "node", "outside"];

/** A question about a new connection to a destination. */
export interface Question {
  readonly family: Family;
  /** Canonical. */
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
  /** An origin, or a canonical address of the same family; undefined for every origin. */
  readonly from: string | undefined;
}

/** A malformed question. The message is meant for the user. */
export class QuestionError extends Error {
  override readonly name = "QuestionError";
}

const DESTINATION = /^(.+:\d+)(?:\/(tcp|udp|sctp))?$/i;

/**
 * Parses a destination (`ADDRESS:PORT`, `[ADDRESS]:PORT` for IPv6, followed by `/udp` or `/sctp` unless it is TCP) and a source
 * (`pod`, `node`, `outside` or an address).
 * @throws {QuestionError}
 */
export function readQuestion(destination: string, from?: string): Question {
  const [, target, protocol = "tcp"] = DESTINATION.exec(destination) ?? [];
  const { address: given, port } = splitHostPort(target ?? "");
  const isBareIPv6 = given.includes(":") && !target?.startsWith("[");
  const address = isBareIPv6 ? undefined : canonicalAddress(given);
  if (address === undefined || port < 1 || port > 65_535) {
    throw new QuestionError(
      `${
        JSON.stringify(destination)
      } is not a destination: use ADDRESS:PORT, or [ADDRESS]:PORT for IPv6, followed by /udp ` +
        `or /sctp unless it is TCP`,
    );
  }
  const family = familyOf(address);
  return { family, address, port, protocol: protocol.toLowerCase() as Protocol, from: readFrom(from, family) };
}

/** Whether a destination is written as an address and a port; other forms are names. */
export function isAddressAndPort(destination: string): boolean {
  return canonicalAddress(splitHostPort(DESTINATION.exec(destination)?.[1] ?? "").address) !== undefined;
}

/**
 * Reads a source: one of ORIGINS, or an address of this family.
 * @throws {QuestionError}
 */
export function readFrom(from: string | undefined, family: Family): string | undefined {
  if (from === undefined || (ORIGINS as readonly string[]).includes(from)) return from;
  const address = canonicalAddress(from);
  if (address === undefined) {
    throw new QuestionError(`--from is ${JSON.stringify(from)}: must be an address, or one of ${ORIGINS.join(", ")}`);
  }
  if (familyOf(address) !== family) {
    throw new QuestionError(`--from is ${address}: it must be an ${family} address like the destination`);
  }
  return address;
}
