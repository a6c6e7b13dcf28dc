import type { Awaited, Ledgers } from "../core/channel/mod.ts";
import {
  refusedPorts,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  type ServicePortName,
  type SyncReport,
} from "../core/model/mod.ts";
import type { PlanChanges } from "../core/planning/mod.ts";
import { isOfSource, type ProblemChange, type ProblemCode, problemKind } from "../core/problems/mod.ts";
import { type Clock, FAMILIES, type Family, plural, sameData } from "../platform/mod.ts";
import type { SourceLink } from "./source_link.ts";

/** Something that happened on this node. Plain data. */
export interface FeedEvent {
  /** Counted from 1. */
  readonly id: number;
  /** Grows with every new event and every change of an event, so that a reader can request what it has not seen. */
  readonly update: number;
  /** Wall time in milliseconds since 1970. */
  readonly atMs: number;
  readonly kind: "services" | "drift" | "link" | "problem" | "solved";
  /** `shop/cart`, `IPv4`, `https://10.0.0.1:6443`. */
  readonly subject: string;
  /** The only IP family that it concerns, if the node serves both. */
  readonly family: Family | undefined;
  /** `2 → 0 endpoints`. */
  readonly text: string;
  readonly tone: "good" | "warning" | "bad" | "idle";
  /** The number of endpoints in use of a service, which is undefined where the service did not exist. */
  readonly endpoints?: { readonly before: number | undefined; readonly after: number | undefined };
  /**
   * Whether a change of services is in the kernel: `overtaken` if a later change came before it was written. Undefined for
   * other kinds.
   */
  readonly effect: "waiting" | "in effect" | "refused" | "overtaken" | undefined;
  /** The time from the change until it was in effect, in milliseconds; undefined unless it is in effect. */
  readonly tookMs: number | undefined;
  /** The code of the problem that began or was solved. */
  readonly code?: ProblemCode;
}

/** The events that are still known, the oldest first. */
export interface Feed {
  /** The start of this proxy, in milliseconds since 1970; numbers of another start mean other events. */
  readonly startedAtMs: number;
  /** The highest `update` so far; 0 before the first. */
  readonly last: number;
  readonly events: readonly FeedEvent[];
}

/** Options of `ChangeFeed.planned`. */
export interface PlannedOptions {
  /** The number of all service ports if this is the family's first plan, which becomes a single event. */
  readonly first: number | undefined;
  /** Whether the other family has service ports. */
  readonly isDualStack: boolean;
}

/** Keeps the last events of this node: changes of services and their effect, repairs, the link, and problems. */
export interface ChangeFeed {
  planned(family: Family, changes: PlanChanges, options: PlannedOptions): void;
  /** Notes the repairs of a sync. */
  reported(report: SyncReport): void;
  linkChanged(link: SourceLink): void;
  problemChanged(change: ProblemChange): void;
  /** Returns the events that are new or have changed since the update of this number; all by default. */
  read(since?: number): Feed;
}

type MutableEvent = { -readonly [Field in keyof FeedEvent]: FeedEvent[Field] };

/** A change of services that is not in the kernel yet. */
interface Pending {
  readonly event: MutableEvent;
  readonly line: ServiceLine;
}

const MOST_EVENTS = 256;
/** Problems of one kind that begin within this time are one event. */
const SAME_PROBLEM_MS = 1000;

/** The state of a feed. */
interface FeedState {
  readonly clock: Clock;
  readonly events: MutableEvent[];
  /** The changes that are not in the kernel, by key of the line. */
  readonly waiting: Readonly<Record<Family, Awaited<string, Pending>>>;
  /** The families in whose kernel state an event is not in effect yet. */
  readonly awaited: WeakMap<MutableEvent, Set<Family>>;
  lastId: number;
  lastUpdate: number;
}

/** Creates an empty feed. @param ledgers say when changes are in effect */
export function createChangeFeed(clock: Clock, ledgers: Ledgers): ChangeFeed {
  const startedAtMs = clock.now();
  const waitingIn = (family: Family): Awaited<string, Pending> =>
    ledgers[family].awaiting({
      settled: (changes, { report }) => settle(state, changes.map(([, pending]) => pending), report),
      join(earlier, later) {
        overtake(state, earlier.event);
        return later;
      },
    });
  const state: FeedState = {
    clock,
    events: [],
    waiting: { IPv4: waitingIn("IPv4"), IPv6: waitingIn("IPv6") },
    awaited: new WeakMap(),
    lastId: 0,
    lastUpdate: 0,
  };
  return {
    planned(family, changes, { first, isDualStack }) {
      for (const line of serviceLines(changes, first)) addLine(state, family, line, isDualStack);
    },
    reported({ family, figures: { drift_repaired: repaired = 0 } }) {
      if (repaired === 0) return;
      const text = `${plural(repaired, "change")} by other programs repaired`;
      record(state, { kind: "drift", subject: family, text, tone: "warning" });
    },
    linkChanged({ state: to, server, lastError }) {
      const isLost = to === "disconnected";
      const text = isLost ? `connection lost: ${lastError}` : "connected";
      record(state, { kind: "link", subject: server, text, tone: isLost ? "bad" : "good" });
    },
    problemChanged: (change) => addProblem(state, change),
    read: (since = 0) => ({
      startedAtMs,
      last: state.lastUpdate,
      events: state.events.filter(({ update }) => update > since).map((event) => ({ ...event })),
    }),
  };
}

function record(state: FeedState, fields: Pick<FeedEvent, "kind" | "subject" | "text" | "tone"> & Partial<FeedEvent>) {
  const id = ++state.lastId, update = ++state.lastUpdate;
  const event: MutableEvent = {
    ...{ id, update, atMs: state.clock.now(), family: undefined, effect: undefined, tookMs: undefined },
    ...fields,
  };
  state.events.push(event);
  if (state.events.length > MOST_EVENTS) state.events.shift();
  return event;
}

function change(state: FeedState, event: MutableEvent, fields: Partial<FeedEvent>): void {
  Object.assign(event, fields, { update: ++state.lastUpdate });
}

function addLine(state: FeedState, family: Family, line: ServiceLine, isDualStack: boolean): void {
  const waiting = state.waiting[family];
  const earlier = waiting.unsent(line.key);
  if (earlier !== undefined) {
    waiting.deleteUnsent(line.key);
    overtake(state, earlier.event);
    if (line.undoes(earlier.line)) return;
  }
  const event = sameOfOtherFamily(state, family, line) ?? record(state, {
    kind: "services",
    subject: line.subject,
    family: isDualStack ? family : undefined,
    text: line.text,
    tone: line.tone,
    endpoints: line.endpoints,
    effect: "waiting",
  });
  const awaited = state.awaited.get(event) ?? new Set();
  state.awaited.set(event, awaited.add(family));
  if (awaited.size > 1) event.family = undefined;
  waiting.add(line.key, { event, line: line.since(earlier?.line) });
}

/** The event of the same change in the other family, if that was not sent yet: both are one to a reader. */
function sameOfOtherFamily(state: FeedState, family: Family, { key, text }: ServiceLine): MutableEvent | undefined {
  const other = FAMILIES.find((one) => one !== family)!;
  const event = state.waiting[other].unsent(key)?.event;
  return event?.text === text && !state.awaited.get(event)?.has(family) ? event : undefined;
}

function overtake(state: FeedState, event: MutableEvent): void {
  if (event.effect === "waiting") change(state, event, { effect: "overtaken" });
}

/** Updates the events of changes that a sync brought into effect, or failed to. */
function settle(state: FeedState, changes: readonly Pending[], { family, endedAtMs, problems }: SyncReport): void {
  const refused = new Set(refusedPorts(problems).map(({ servicePort }) => servicePort));
  for (const { event, line } of changes) {
    if (event.effect !== "waiting") continue;
    if (line.names.some((name) => refused.has(name))) {
      change(state, event, { effect: "refused", tone: "bad" });
      continue;
    }
    const awaited = state.awaited.get(event);
    awaited?.delete(family);
    if (awaited?.size === 0) {
      change(state, event, { effect: "in effect", tookMs: Math.max(0, endedAtMs - event.atMs) });
    }
  }
}

function addProblem(state: FeedState, { type, problem: { code, subject, detail } }: ProblemChange): void {
  // The link's own events say so, once for all resources.
  if (isOfSource(code)) return;
  const kind = type === "raised" ? "problem" : "solved";
  const last = state.events.at(-1);
  if (last?.kind === kind && last.code === code && state.clock.now() - last.atMs < SAME_PROBLEM_MS) {
    const [, others = "0"] = / and (\d+) more$/.exec(last.subject) ?? [];
    const subject = `${last.subject.replace(/ and \d+ more$/, "")} and ${Number(others) + 1} more`;
    return change(state, last, { subject });
  }
  const { title, severity } = problemKind(code);
  const tone = type === "solved" ? "good" : severity === "error" ? "bad" : "warning";
  const text = type === "solved" ? `solved: ${title}` : `${title}: ${detail}`;
  record(state, { kind, subject, text, tone, code });
}

/** One line about changed services: one service, some of its ports, or many services at once. */
interface ServiceLine {
  /** The same for two lines about the same service ports. */
  readonly key: string;
  /** `shop/cart`, `shop/cart:http`; `services` for many. */
  readonly subject: string;
  readonly text: string;
  readonly tone: "good" | "warning" | "bad" | "idle";
  readonly endpoints?: { readonly before: number | undefined; readonly after: number | undefined };
  readonly names: readonly ServicePortName[];
  /** Whether this line reverts an earlier one with the same key. */
  undoes(earlier: ServiceLine): boolean;
  /** This line, starting from the state before an earlier one with the same key. */
  since(earlier: ServiceLine | undefined): ServiceLine;
  /** The changed service ports by key, before and after; empty for many services. */
  readonly ports: ReadonlyMap<ServicePortKey, PortChange>;
}

/** A service port before and after a change; undefined where it does not exist. */
interface PortChange {
  readonly before: ServicePort | undefined;
  readonly after: ServicePort | undefined;
}

/** The number of services that a plan has lines for; one more line counts the others. */
const MOST_LINES = 24;

/** The lines of a plan. `first` is the number of all service ports if it is the first plan. Costs little if it is large. */
function serviceLines(changes: PlanChanges, first: number | undefined): readonly ServiceLine[] {
  if (first !== undefined) {
    return [lineOfMany("all services", `${plural(first, "service port")} read from the cluster`)];
  }
  const services = new Map<string, Map<ServicePortKey, PortChange>>();
  let left = 0;
  for (const [key, change] of changedPorts(changes)) {
    const { name } = (change.after ?? change.before)!;
    const service = serviceOf(name);
    const ports = services.get(service);
    if (ports !== undefined) ports.set(key, change);
    else if (services.size < MOST_LINES) services.set(service, new Map([[key, change]]));
    else left++;
  }
  return [
    ...[...services].flatMap(([service, ports]) => linesOf(service, ports)),
    ...(left === 0 ? [] : [lineOfMany("other services", `${plural(left, "more service port")} changed`)]),
  ];
}

function* changedPorts({ set, deleted, replaced }: PlanChanges): Iterable<readonly [ServicePortKey, PortChange]> {
  for (const after of set) {
    const key = servicePortKey(after.name, after.protocol);
    yield [key, { before: replaced.get(key), after }];
  }
  for (const key of deleted) {
    const before = replaced.get(key);
    if (before !== undefined) yield [key, { before, after: undefined }];
  }
}

/** One line for a service whose ports all changed in the same way, otherwise one for each port. */
function linesOf(service: string, ports: ReadonlyMap<ServicePortKey, PortChange>): readonly ServiceLine[] {
  const lines = [...ports].map(([key, change]) => lineOf(change, new Map([[key, change]])));
  const [line] = lines;
  if (line === undefined || lines.some(({ text }) => text !== line.text)) return lines;
  return [{ ...lineOf(ports.values().next().value!, ports), subject: service }];
}

function lineOf(change: PortChange, ports: ReadonlyMap<ServicePortKey, PortChange>): ServiceLine {
  const { before, after } = change;
  const { name } = (after ?? before)!;
  const counts = { before: before && usedEndpoints(before).size, after: after && usedEndpoints(after).size };
  const names = [...ports.values()].map((one) => (one.after ?? one.before)!.name);
  const line: ServiceLine = {
    key: [...ports.keys()].sort().join(" "),
    subject: name,
    text: textOf(change, counts),
    tone: after !== undefined && counts.after === 0 ? "warning" : "idle",
    endpoints: counts,
    names,
    ports,
    undoes: (earlier) => [...ports].every(([key, { after }]) => sameData(earlier.ports.get(key)?.before, after)),
    since(earlier) {
      if (earlier === undefined) return line;
      const merged = new Map(
        [...ports].map(([key, { after }]) => [key, { before: earlier.ports.get(key)?.before, after }]),
      );
      return { ...line, ports: merged };
    },
  };
  return line;
}

function lineOfMany(subject: string, text: string): ServiceLine {
  const line: ServiceLine = {
    key: subject,
    subject,
    text,
    tone: "idle",
    names: [],
    ports: new Map(),
    undoes: () => false,
    since: () => line,
  };
  return line;
}

function textOf({ before, after }: PortChange, counts: { readonly before?: number; readonly after?: number }): string {
  if (after === undefined) return "removed";
  if (before === undefined) return `added, ${plural(counts.after!, "endpoint")}`;
  if (counts.before !== counts.after) return `${counts.before} → ${plural(counts.after!, "endpoint")}`;
  const known = usedEndpoints(before);
  const replaced = [...usedEndpoints(after)].filter((target) => !known.has(target)).length;
  return replaced === 0 ? "settings changed" : `${replaced} of ${plural(counts.after!, "endpoint")} replaced`;
}

function usedEndpoints({ clusterEndpoints, localEndpoints }: ServicePort): ReadonlySet<string> {
  return new Set([...clusterEndpoints, ...localEndpoints]);
}

/** `namespace/name` of `namespace/name:port`. */
function serviceOf(name: ServicePortName): string {
  const colon = name.indexOf(":");
  return colon < 0 ? name : name.slice(0, colon);
}
