/** The messages of a site's nodes on the LAN: JSON in datagrams. */
import { isRawObject } from "../../core/objects/mod.ts";
import type { Leader, LeaseRecord } from "./lease.ts";
import type { Proof } from "./proof.ts";

/** "Who leads?", to all nodes. Not signed: it changes nothing but how long others wait, for a limited time. */
export interface Question {
  readonly site: string;
  readonly node: string;
  /** The answer repeats it, so that none can be replayed. */
  readonly nonce: string;
  /** The node's place among those that look for a leader at the same time: the lowest may ask the API server first. */
  readonly rank: number;
  /** Whether it has seen no version of the Lease. */
  readonly isNew: boolean;
}

/** What a node says about itself, or of the Lease. */
export type Statement =
  /** It holds the Lease of this version. */
  | { readonly kind: "leader"; readonly record: LeaseRecord }
  /** It was the last leader, and has not reached the API server; whether it asks that, or is about to. */
  | { readonly kind: "last-leader"; readonly leader: Leader; readonly isCandidate: boolean }
  /** It asks the API server, or is about to. */
  | { readonly kind: "candidate" }
  /** It saw this version of the Lease `ageMs` ago, but that leader does not answer. */
  | { readonly kind: "seen"; readonly record: LeaseRecord; readonly ageMs: number };

/** A statement with its signature. */
export interface Signed {
  readonly site: string;
  /** Who has signed. */
  readonly node: string;
  /** The nonces of the questions that it answers; none for an announcement. */
  readonly nonces: readonly string[];
  readonly statement: Statement;
  /** The text that was signed. */
  readonly body: string;
  readonly proof: Proof;
}

/** The longest datagram that is read. */
const MOST_BYTES = 8_000;
/** The most questions that one datagram answers. */
export const MOST_NONCES = 32;
/** The longest nonce. */
const NONCE_LENGTH = 36;

const encoder = new TextEncoder();

/** Encodes a question. */
export function encodeQuestion({ site, node, nonce, rank, isNew }: Question): Uint8Array {
  return encoder.encode(JSON.stringify({ ask: { site, node, nonce, rank, isNew } }));
}

/** The text of a statement, to be signed. */
export function statementText(origin: Pick<Signed, "site" | "node" | "nonces">, statement: Statement): string {
  const { site, node, nonces } = origin;
  return JSON.stringify({ site, node, nonces, statement });
}

/** Encodes a text and its signature. */
export function encodeSigned(body: string, { certificate, signature }: Proof): Uint8Array {
  return encoder.encode(JSON.stringify({ body, certificate, signature }));
}

/** Decodes a datagram; undefined for anything but a question or a signed statement, whose signature is not checked here. */
export function decodeDatagram(
  data: Uint8Array,
): { readonly question: Question } | { readonly signed: Signed } | undefined {
  if (data.length > MOST_BYTES) return undefined;
  const raw = parsed(new TextDecoder().decode(data));
  if (raw === undefined) return undefined;
  if (isRawObject(raw.ask)) {
    const { site, node, nonce, rank, isNew } = raw.ask;
    const isQuestion = areTexts(site, node) && isNonce(nonce) && isCount(rank) && typeof isNew === "boolean";
    if (!isQuestion) return undefined;
    return { question: { site, node, nonce, rank, isNew } as Question };
  }
  const { body, certificate, signature } = raw;
  if (!areTexts(body, certificate, signature)) return undefined;
  const { site, node, nonces, statement } = parsed(body as string) ?? {};
  const read = statementOf(statement);
  if (!areTexts(site, node) || !areNonces(nonces) || read === undefined) return undefined;
  return { signed: { site, node, nonces, statement: read, body, proof: { certificate, signature } } as Signed };
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const raw: unknown = JSON.parse(text);
    return isRawObject(raw) ? raw : undefined;
  } catch {
    return undefined;
  }
}

function statementOf(raw: unknown): Statement | undefined {
  if (!isRawObject(raw)) return undefined;
  const { kind, ageMs } = raw;
  if (kind === "candidate") return { kind };
  if (kind === "last-leader") {
    const leader = leaderOf(raw.leader);
    return leader && { kind, leader, isCandidate: raw.isCandidate === true };
  }
  const record = recordOf(raw.record);
  if (record === undefined) return undefined;
  if (kind === "leader") return { kind, record };
  return kind === "seen" && isCount(ageMs) ? { kind, record, ageMs } : undefined;
}

function leaderOf(raw: unknown): Leader | undefined {
  if (!isRawObject(raw)) return undefined;
  const { node, address, certificate } = raw;
  return areTexts(node, address, certificate) ? { node, address, certificate } as Leader : undefined;
}

function recordOf(raw: unknown): LeaseRecord | undefined {
  const leader = leaderOf(raw);
  if (leader === undefined || !isRawObject(raw)) return undefined;
  const { version, term, durationMs, transitions, renewedMs } = raw;
  const isRecord = areTexts(version, term) && [durationMs, transitions, renewedMs].every(isCount);
  return isRecord ? { ...leader, version, term, durationMs, transitions, renewedMs } as LeaseRecord : undefined;
}

function areTexts(...values: readonly unknown[]): boolean {
  return values.every((value) => typeof value === "string");
}

function areNonces(values: unknown): boolean {
  return Array.isArray(values) && values.length <= MOST_NONCES && values.every(isNonce);
}

function isNonce(value: unknown): boolean {
  return typeof value === "string" && value !== "" && value.length <= NONCE_LENGTH;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}
