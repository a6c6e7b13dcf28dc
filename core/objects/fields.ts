/** Readers of the fields that several kinds of objects share. */
import { canonicalAddress, canonicalPrefix, compact } from "../../platform/mod.ts";
import type { Protocol } from "../model/mod.ts";
import type { EndpointPort } from "./cluster_object.ts";
import { isLabel, NAME_RULE } from "./metadata.ts";
import { isAbsent, quote, type RawObject } from "./raw.ts";

/** Collects the problems of one object, so that a thousand bad endpoints do not become a thousand log lines. */
export interface Problems {
  /** Adds one sentence, without its full stop. */
  add(sentence: string): void;
  /** The first sentences in full, and the number of the others. */
  sentences(): readonly string[];
}

const MOST_SENTENCES = 10;
const NONE: readonly string[] = [];

/** An empty collection. */
export function createProblems(): Problems {
  let kept: string[] | undefined;
  let more = 0;
  return {
    add(sentence) {
      if (kept === undefined) kept = [sentence];
      else if (kept.length < MOST_SENTENCES) kept.push(sentence);
      else more++;
    },
    sentences() {
      if (kept === undefined) return NONE;
      return more === 0 ? kept : [...kept, `${more} more parts cannot be used and are ignored`];
    },
  };
}

const EMPTY: readonly unknown[] = [];

/** The list in a field; empty if it is absent or, with a problem, not a list. */
export function listOf(value: unknown, field: string, problems: Problems): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (!isAbsent(value)) problems.add(`${field} is ${quote(value)}, not a list; ignored`);
  return EMPTY;
}

/** Whether a value is a whole number within bounds. */
export function isWholeNumber(value: unknown, least: number, most: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= least && value <= most;
}

/** The addresses in a list, canonical and without duplicates. Invalid ones become problems; empty ones are skipped. */
export function readAddresses(value: unknown, field: string, problems: Problems): readonly string[] {
  return readEach(value, field, "an IP address", canonicalAddress, problems);
}

/** The prefixes in a list, trimmed, canonical and without duplicates (kube-proxy's MapCIDRsByIPFamily). */
export function readPrefixes(value: unknown, field: string, problems: Problems): readonly string[] {
  return readEach(value, field, "a CIDR", (text) => canonicalPrefix(text.trim()), problems);
}

function readEach(
  value: unknown,
  field: string,
  expected: string,
  canonical: (text: string) => string | undefined,
  problems: Problems,
): readonly string[] {
  const found = new Set<string>();
  for (const item of listOf(value, field, problems)) {
    if (isAbsent(item) || (typeof item === "string" && item.trim() === "")) continue;
    const text = typeof item === "string" ? canonical(item) : undefined;
    if (text === undefined) problems.add(`${field}: ${quote(item)} is not ${expected}; ignored`);
    else found.add(text);
  }
  return compact([...found]);
}

/** The time in an RFC 3339 text, in milliseconds since 1970; undefined for anything else. */
export function readTimeMs(value: unknown): number | undefined {
  if (typeof value !== "string" || !/^\d{4}-\d\d-\d\dT/.test(value)) return undefined;
  const timeMs = Date.parse(value);
  return Number.isNaN(timeMs) || timeMs < 0 ? undefined : timeMs;
}

const PROTOCOLS: Readonly<Record<string, Protocol>> = { TCP: "tcp", UDP: "udp", SCTP: "sctp" };

/** The protocol in a port, TCP by default; undefined for an unknown one. */
function readProtocol(value: unknown): Protocol | undefined {
  if (isAbsent(value) || value === "") return "tcp";
  return typeof value === "string" && Object.hasOwn(PROTOCOLS, value) ? PROTOCOLS[value] : undefined;
}

/** Reads the name, protocol and number of the port at `index`; undefined, with a problem, if they cannot be used. */
export function readPort(raw: RawObject, index: number, problems: Problems): EndpointPort | undefined {
  const unusable = (text: string): undefined => void problems.add(`${text}; ignored`);
  const name = isAbsent(raw.name) ? "" : raw.name;
  if (name !== "" && !isLabel(name)) {
    return unusable(`port ${index + 1}: name ${quote(name)} may only contain ${NAME_RULE}`);
  }
  const subject = portSubject(index, name), protocol = readProtocol(raw.protocol), { port } = raw;
  if (protocol === undefined) return unusable(`${subject}: protocol ${quote(raw.protocol)} is not TCP, UDP or SCTP`);
  if (isAbsent(port)) return unusable(`${subject}: no port number`);
  if (!isWholeNumber(port, 1, 65535)) {
    return unusable(`${subject}: port number ${quote(port)} is not between 1 and 65535`);
  }
  return { name, protocol, port };
}

/** Names a port in a problem: `port 2 ("http")`. */
export function portSubject(index: number, name: string): string {
  return name === "" ? `port ${index + 1}` : `port ${index + 1} (${quote(name)})`;
}
