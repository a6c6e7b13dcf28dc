import type { StateWords } from "../../answers/control/mod.ts";

/** The status of a node, as far as its version sends it. */
export interface NodeStatus {
  readonly version: string;
  readonly mode: string | undefined;
  readonly inOrder: boolean;
  readonly state: StateWords;
  readonly link: StateWords | undefined;
  /** The time since the beginning of the state, in milliseconds. */
  readonly lastingMs: number | undefined;
  /** The number of broken service ports, and the names of the first ones; undefined if unknown. */
  readonly broken: { readonly total: number; readonly names: readonly string[] } | undefined;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Reads the output of `sluice status -o json`. Undefined if it is none. A version without a summary in words is judged by
 * its health.
 */
export function readNodeStatus(text: string): NodeStatus | undefined {
  const report = parsed(text);
  const status = fieldsOf(report?.status);
  const version = textOf(status?.version);
  if (report === undefined || status === undefined || version === undefined) return undefined;
  const summary = fieldsOf(report.summary);
  const state = wordsOf(summary?.state);
  const isKnown = summary !== undefined && state !== undefined;
  const sinceMs = numberOf(summary?.sinceMs), atMs = numberOf(status.atMs);
  return {
    version,
    mode: textOf(status.mode),
    inOrder: isKnown ? summary.inOrder === true : status.healthy === true,
    state: isKnown ? state : stateOfOlder(version, status),
    link: wordsOf(summary?.link),
    lastingMs: sinceMs === undefined || atMs === undefined ? undefined : Math.max(0, atMs - sinceMs),
    broken: brokenOf(report.broken),
  };
}

function stateOfOlder(version: string, { healthy }: Fields): StateWords {
  const words = healthy === true ? "healthy" : healthy === false ? "not healthy" : "unknown";
  return {
    tone: healthy === true ? "warning" : "bad",
    words,
    reason: `Sluice ${version} sends no more; run sluice status on the node`,
  };
}

function brokenOf(value: unknown): NodeStatus["broken"] {
  const page = fieldsOf(value);
  const total = numberOf(page?.total);
  if (total === undefined) return undefined;
  const services: readonly unknown[] = Array.isArray(page?.services) ? page.services : [];
  return { total, names: services.flatMap((service) => textOf(fieldsOf(service)?.name) ?? []) };
}

const TONES: readonly StateWords["tone"][] = ["good", "warning", "bad", "idle"];

function wordsOf(value: unknown): StateWords | undefined {
  const fields = fieldsOf(value);
  const tone = TONES.find((tone) => tone === fields?.tone);
  const words = textOf(fields?.words);
  return tone === undefined || words === undefined ? undefined : { tone, words, reason: textOf(fields?.reason) };
}

function parsed(text: string): Fields | undefined {
  try {
    return fieldsOf(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value as Fields : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}
