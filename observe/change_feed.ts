import { type Clock, FAMILIES, type Family, plural } from "../platform/mod.ts";
import { refusedPorts, type SyncReport } from "../core/model/mod.ts";
import type { PlanChanges } from "../core/planning/mod.ts";
import { type ProblemChange, type ProblemCode, problemKind } from "../core/problems/mod.ts";
import { type ServiceLine, serviceLines } from "./service_lines.ts";
import type { SourceLink } from "./source_link.ts";

/** Something that happened on this node. Plain data. */
export interface FeedEvent {
  /** Counted from 1. */
  readonly id: number;
  /** Grows with every new event and with every change of one, so that a reader can ask for what is new to it. */
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
  /** The time from the change to its effect, in milliseconds; undefined unless it is in effect. */
  readonly tookMs: number | undefined;
  /** The code of the problem that began or was solved. */
  readonly code?: ProblemCode;
}

/** The events that are still known, the oldest first. */
export interface Feed {
  /** The start of this proxy, in milliseconds since 1970; numbers of another start mean other events. */
  readonly startedAtMs: number;
  /** The greatest `update` so far; 0 before the first. */
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

/** Keeps the last events of this node: changes of services with their effect, repairs, the link, and problems. */
export interface ChangeFeed {
  planned(family: Family, changes: PlanChanges, options: PlannedOptions): void;
  /** Everything planned so far was sent as part of this revision. */
  sent(family: Family, revision: number): void;
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
  /** The changes not sent yet, by family and key of the line. */
  readonly unsent: Readonly<Record<Family, Map<string, Pending>>>;
  readonly inFlight: Record<Family, readonly { readonly revision: number; readonly changes: readonly Pending[] }[]>;
  /** The families in whose kernel state an event is not in effect yet. */
  readonly awaited: WeakMap<MutableEvent, Set<Family>>;
  lastId: number;
  lastUpdate: number;
}

/** Creates an empty feed. */
export function createChangeFeed(clock: Clock): ChangeFeed {
  const startedAtMs = clock.now();
  const state: FeedState = {
    clock,
    events: [],
    unsent: { IPv4: new Map(), IPv6: new Map() },
    inFlight: { IPv4: [], IPv6: [] },
    awaited: new WeakMap(),
    lastId: 0,
    lastUpdate: 0,
  };
  return {
    planned(family, changes, { first, isDualStack }) {
      for (const line of serviceLines(changes, first)) addLine(state, family, line, isDualStack);
      forgetDropped(state, family);
    },
    sent(family, revision) {
      const changes = [...state.unsent[family].values()];
      if (changes.length === 0) return;
      state.unsent[family].clear();
      state.inFlight[family] = [...state.inFlight[family], { revision, changes }];
      forgetDropped(state, family);
    },
    reported: (report) => settle(state, report),
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

/** Forgets changes whose event is no longer kept, so that little is held while a family fails for long. */
function forgetDropped(state: FeedState, family: Family): void {
  const isDropped = ({ event }: Pending) => event.id <= state.lastId - MOST_EVENTS;
  const unsent = state.unsent[family];
  for (const [key, pending] of unsent) if (isDropped(pending)) unsent.delete(key);
  state.inFlight[family] = state.inFlight[family].filter(({ changes }) => !changes.every(isDropped));
}

function addLine(state: FeedState, family: Family, line: ServiceLine, isDualStack: boolean): void {
  const unsent = state.unsent[family];
  const earlier = unsent.get(line.key);
  if (earlier !== undefined) {
    unsent.delete(line.key);
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
  unsent.set(line.key, { event, line: line.since(earlier?.line) });
}

/** The event of the same change in the other family, if that was not sent yet: both are one to a reader. */
function sameOfOtherFamily(state: FeedState, family: Family, { key, text }: ServiceLine): MutableEvent | undefined {
  const other = FAMILIES.find((one) => one !== family)!;
  const event = state.unsent[other].get(key)?.event;
  return event?.text === text && !state.awaited.get(event)?.has(family) ? event : undefined;
}

function overtake(state: FeedState, event: MutableEvent): void {
  if (event.effect === "waiting") change(state, event, { effect: "overtaken" });
}

/** Brings the changes of a revision and those before it into effect. */
function settle(state: FeedState, { family, ok, revision, endedAtMs, problems, figures }: SyncReport): void {
  const repaired = figures.drift_repaired ?? 0;
  if (repaired > 0) {
    const text = `${plural(repaired, "change")} by other programs repaired`;
    record(state, { kind: "drift", subject: family, text, tone: "warning" });
  }
  if (!ok) return;
  const refused = new Set(refusedPorts(problems).map(({ servicePort }) => servicePort));
  for (const { changes } of state.inFlight[family].filter((one) => one.revision <= revision)) {
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
  state.inFlight[family] = state.inFlight[family].filter((one) => one.revision > revision);
}

function addProblem(state: FeedState, { type, problem: { code, subject, detail } }: ProblemChange): void {
  // The link's own events say so, once for all resources.
  if (code === "source-unreachable") return;
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
