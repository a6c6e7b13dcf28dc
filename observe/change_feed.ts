import type { Awaited, Ledgers } from "../core/channel/mod.ts";
import {
  refusedPorts,
  type ServicePort,
  type ServicePortKey,
  type ServicePortName,
  type SyncReport,
} from "../core/model/mod.ts";
import type { PlanChanges } from "../core/planning/mod.ts";
import { serviceKeyOf } from "../core/tracking/mod.ts";
import { isOfSource, type ProblemChange, problemKind } from "../core/problems/mod.ts";
import { type Clock, type Family, otherFamily, plural, sameData } from "../platform/mod.ts";
import { createEventLog, type EventLog, type Feed, type FeedEvent, type RecordedEvent } from "./process_record.ts";
import type { SourceLink } from "./process/mod.ts";

/** Options of `ChangeFeed.planned`. */
export interface PlannedOptions {
  /** The number of all service ports if this is the family's first plan, which becomes a single event. */
  readonly first: number | undefined;
  readonly isDualStack: boolean;
}

/** Keeps the last events of this node: changes of services and their effect, repairs, the link, and problems. */
export interface ChangeFeed {
  planned(family: Family, changes: PlanChanges, options: PlannedOptions): void;
  reported(report: SyncReport): void;
  linkChanged(link: SourceLink): void;
  problemChanged(change: ProblemChange): void;
  /** Returns the events that are new or have changed since the update of this number; all by default. */
  read(since?: number): Feed;
}

/** A change of services that is not in the kernel yet. */
interface Pending {
  readonly event: RecordedEvent;
  /** The families in whose kernel state the event is not in effect yet. */
  readonly families: Set<Family>;
  readonly ports: PortChanges;
}

/** Problems of one kind that begin within this time are one event. */
const SAME_PROBLEM_MS = 1000;

/** Creates the feed of a run. @param ledgers say when changes are in effect */
export function createChangeFeed(clock: Clock, ledgers: Ledgers, log: EventLog = createEventLog(clock)): ChangeFeed {
  const { record, change } = log;
  const overtake = ({ event }: Pending) => {
    if (event.effect === "waiting") change(event, { effect: "overtaken" });
  };
  const waitingIn = (family: Family): Awaited<string, Pending> =>
    ledgers[family].awaiting({
      settled: (changes, { report }) => settle(log, changes.map(([, pending]) => pending), report),
      join(earlier, later) {
        overtake(earlier);
        return later;
      },
    });
  /** The changes that are not in the kernel, by the service ports of the line. */
  const waiting: Readonly<Record<Family, Awaited<string, Pending>>> = {
    IPv4: waitingIn("IPv4"),
    IPv6: waitingIn("IPv6"),
  };

  const addLine = (family: Family, { subject, text, tone, endpoints, ports }: ServiceLine, isDualStack: boolean) => {
    const key = ports.size === 0 ? subject : [...ports.keys()].sort().join(" ");
    const earlier = waiting[family].unsent(key);
    if (earlier !== undefined) {
      waiting[family].deleteUnsent(key);
      overtake(earlier);
      const before = (port: ServicePortKey) => earlier.ports.get(port)?.before;
      if (ports.size > 0 && ports.entries().every(([port, { after }]) => sameData(before(port), after))) return;
      ports = new Map(ports.entries().map(([port, { after }]) => [port, { before: before(port), after }]));
    }
    const other = waiting[otherFamily(family)].unsent(key);
    // The same change in the other family, if it was not sent yet: both are one to a reader.
    const shared = other?.event.text === text && !other.families.has(family) ? other : undefined;
    const ofFamily = { family: isDualStack ? family : undefined, effect: "waiting" } as const;
    const event = shared?.event ?? record({ kind: "services", subject, text, tone, endpoints, ...ofFamily });
    if (shared) event.family = undefined;
    waiting[family].add(key, { event, families: (shared?.families ?? new Set()).add(family), ports });
  };

  return {
    planned(family, changes, { first, isDualStack }) {
      for (const line of serviceLines(changes, first)) addLine(family, line, isDualStack);
    },
    reported({ family, counts: { drift_repaired: repaired = 0 } }) {
      if (repaired === 0) return;
      const text = `${plural(repaired, "change")} by other programs repaired`;
      record({ kind: "drift", subject: family, text, tone: "warning" });
    },
    linkChanged({ state: to, server, lastError }) {
      const isLost = to === "disconnected";
      const text = isLost ? `connection lost: ${lastError}` : "connected";
      record({ kind: "link", subject: server, text, tone: isLost ? "bad" : "good" });
    },
    problemChanged({ type, problem: { code, subject, detail } }) {
      // The link's own events say so, once for all resources.
      if (isOfSource(code)) return;
      const kind = type === "raised" ? "problem" : "solved";
      const last = log.newest();
      if (last?.kind === kind && last.code === code && clock.now() - last.atMs < SAME_PROBLEM_MS) {
        const [, first = last.subject, others = "0"] = /^(.*) and (\d+) more$/s.exec(last.subject) ?? [];
        return change(last, { subject: `${first} and ${Number(others) + 1} more` });
      }
      const { title, severity } = problemKind(code);
      const tone = type === "solved" ? "good" : severity === "error" ? "bad" : "warning";
      const message = type === "solved" ? { text: `solved: ${title}` } : { text: title, detail };
      record({ kind, subject, tone, code, ...message });
    },
    read: log.read,
  };
}

/** Updates the events of changes that a sync brought into effect, or failed to. */
function settle({ change }: EventLog, changes: readonly Pending[], { family, endedAtMs, problems }: SyncReport): void {
  const refused = new Set(refusedPorts(problems).map(({ servicePort }) => servicePort));
  for (const { event, families, ports } of changes) {
    if (event.effect !== "waiting") continue;
    if (ports.values().some((port) => refused.has(nameOf(port)))) {
      change(event, { effect: "refused", tone: "bad" });
      continue;
    }
    families.delete(family);
    if (families.size > 0) continue;
    change(event, { effect: "in effect", tookMs: Math.max(0, endedAtMs - event.atMs) });
  }
}

/** One line about changed services: one service, some of its ports, or many services at once. */
interface ServiceLine extends Pick<FeedEvent, "text" | "tone" | "endpoints"> {
  /** `shop/cart`, `shop/cart:http`; `services` for many. */
  readonly subject: string;
  /** Empty for many services. */
  readonly ports: PortChanges;
}

type PortChanges = ReadonlyMap<ServicePortKey, PortChange>;

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
    const service = serviceKeyOf(nameOf(change));
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
  for (const [key, after] of set) yield [key, { before: replaced.get(key), after }];
  for (const key of deleted) {
    const before = replaced.get(key);
    if (before !== undefined) yield [key, { before, after: undefined }];
  }
}

/** One line for a service whose ports all changed in the same way, otherwise one for each port. */
function linesOf(service: string, ports: PortChanges): readonly ServiceLine[] {
  const lines = [...ports].map(([key, change]) => lineOf(key, change));
  const isOne = lines.every(({ text }) => text === lines[0]!.text);
  return isOne ? [{ ...lines[0]!, subject: service, ports }] : lines;
}

function lineOf(key: ServicePortKey, change: PortChange): ServiceLine {
  const { before, after } = change;
  const endpoints = { before: before && countUsed(before), after: after && countUsed(after) };
  return {
    subject: nameOf(change),
    text: textOf(change, endpoints),
    tone: endpoints.after === 0 ? "warning" : "idle",
    endpoints,
    ports: new Map([[key, change]]),
  };
}

function lineOfMany(subject: string, text: string): ServiceLine {
  return { subject, text, tone: "idle", ports: new Map() };
}

function nameOf({ before, after }: PortChange): ServicePortName {
  return (after ?? before)!.name;
}

function textOf({ before, after }: PortChange, counts: { readonly before?: number; readonly after?: number }): string {
  if (after === undefined) return "removed";
  if (before === undefined) return `added, ${plural(counts.after!, "endpoint")}`;
  if (counts.before !== counts.after) return `${counts.before} → ${plural(counts.after!, "endpoint")}`;
  const replaced = usedEndpoints(after).difference(usedEndpoints(before)).size;
  return replaced === 0 ? "settings changed" : `${replaced} of ${plural(counts.after!, "endpoint")} replaced`;
}

function countUsed(port: ServicePort): number {
  // Sets of thousands of names take a millisecond with each change.
  return port.localEndpoints.length === 0 ? port.clusterEndpoints.length : usedEndpoints(port).size;
}

function usedEndpoints({ clusterEndpoints, localEndpoints }: ServicePort): ReadonlySet<string> {
  return new Set([...clusterEndpoints, ...localEndpoints]);
}
