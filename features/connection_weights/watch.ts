import { type ConnectionReading, isCounted, type ServicePort, type ServicePortKey } from "../../core/model/mod.ts";
import type { ServiceKey } from "../../core/tracking/mod.ts";
import { sleep, untilAborted } from "../../platform/mod.ts";
import type { Node, NodeFamily } from "../contract.ts";
import { readConnections } from "./calls.ts";
import { type EndpointLoad, factorsOf, nextLoad, steppedFactors } from "./decision.ts";

/** The shortest pause between two readings. */
export const SHORTEST_PAUSE_MS = 2_000;
/** Readings and changes, as far as their time is known, take at most this share of it. */
const SHARE = 0.0025;
/** Longer readings waited for a processor: the shortest of these counts. */
const JUDGED_READINGS = 8;
/** The processor time of a change, in milliseconds: of planning and nft together, and for each service. */
const CHANGE_MS = 3;
const SERVICE_CHANGE_MS = 1;
/** The maximum number of services whose weights change at once: the most urgent ones. */
const MOST_CHANGED = 25;
const RETRY_MS = 10_000;
/** The time without a reading after which the loads are out of date. */
const STALE_MS = 60_000;

interface Change {
  readonly service: ServiceKey;
  readonly key: ServicePortKey;
  readonly factors: ReadonlyMap<string, number>;
  /** The greatest factor by which one of them changes. */
  readonly urgency: number;
}

/**
 * Weighs the endpoints of services by their connections, until no service asks for that or the node's signal is aborted.
 * @param asking the services that ask; those that no longer do are removed
 */
export function watchConnections(
  { reportProblems, clock, signal }: Pick<Node, "reportProblems" | "clock" | "signal">,
  { family, weigh, portsOf, planAgain, call }: Pick<NodeFamily, "family" | "weigh" | "portsOf" | "planAgain" | "call">,
  asking: Set<ServiceKey>,
): void {
  let counted: Counted = { loads: new Map(), atMs: clock.monotonic() };
  const factors = new Map<ServicePortKey, ReadonlyMap<string, number>>();
  const readingsMs: number[] = [];
  let answeredAtMs = clock.monotonic();
  let isFailing = false;

  const report = (detail: string | undefined) => {
    if (detail === undefined && !isFailing) return;
    isFailing = detail !== undefined;
    const problem = { code: "connections-not-counted", subject: family, detail: detail ?? "" } as const;
    reportProblems(`connections ${family}`, isFailing ? [problem] : []);
  };
  const planned = () => portsAsking(asking, portsOf);
  const fail = (detail: string) => {
    report(detail);
    counted = { ...counted, loads: new Map() };
    const weighed = new Set([...planned()].filter(({ key }) => factors.has(key)).map(({ service }) => service));
    factors.clear();
    if (weighed.size > 0) planAgain(weighed);
  };
  /** Notes the counts of a reading; returns the number of services whose weights it has changed. */
  const note = (endpoints: NonNullable<ConnectionReading["endpoints"]>): number => {
    counted = nextCounted(counted, endpoints, clock.monotonic());
    const ports = [...planned()], keys = new Set(ports.map(({ key }) => key));
    for (const key of factors.keys()) if (!keys.has(key)) factors.delete(key);
    const changes = mostUrgent(ports.flatMap(({ service, key, wanted }) => {
      const change = changeOf(wanted, counted.loads, factors.get(key));
      return change ? [{ service, key, ...change }] : [];
    }));
    for (const { key, factors: next } of changes) factors.set(key, next);
    const services = new Set(changes.map(({ service }) => service));
    if (services.size > 0) planAgain(services);
    return services.size;
  };
  /** Reads the connections; returns the time until the next reading, undefined if there is none. */
  const round = async (): Promise<number | undefined> => {
    // The first service that asks ends the search.
    const isLast = planned().next().done === true;
    // Without services that ask, it has the worker end the counting.
    const answer = await call(readConnections, undefined);
    if (signal.aborted) return undefined;
    if (isLast) {
      report(undefined);
      return undefined;
    }
    const nowMs = clock.monotonic();
    if (answer === undefined || "failure" in answer) {
      if (answer !== undefined) fail(answer.failure);
      else if (nowMs - answeredAtMs >= STALE_MS) fail("the worker does not answer");
      return RETRY_MS;
    }
    answeredAtMs = nowMs;
    report(undefined);
    const { endpoints, durationMs } = answer;
    // Without a change, the counters were not read.
    if (endpoints === undefined) return pauseMs(durationMs + clock.monotonic() - nowMs, 0);
    readingsMs.push(durationMs);
    if (readingsMs.length > JUDGED_READINGS) readingsMs.shift();
    const changed = note(endpoints);
    return pauseMs(Math.min(...readingsMs) + clock.monotonic() - nowMs, changed);
  };
  const run = async () => {
    for (let waitMs: number | undefined = SHORTEST_PAUSE_MS; waitMs !== undefined; waitMs = await round()) {
      await sleep(clock, waitMs, signal);
    }
  };

  weigh({ factors: (key) => factors.get(key), open: (target) => counted.loads.get(target)?.counts.open });
  untilAborted(run(), signal);
}

/** The planned service ports of the services that ask; removes those that no longer do. */
function* portsAsking(asking: Set<ServiceKey>, portsOf: NodeFamily["portsOf"]) {
  for (const service of asking) {
    const ports = portsOf(service).filter(({ wanted: { balance } }) => balance !== undefined && isCounted(balance));
    if (ports.length === 0) asking.delete(service);
    for (const { key, wanted } of ports) yield { service, key, wanted };
  }
}

/** The pause after a reading that took this long and changed the weights of so many services. */
function pauseMs(tookMs: number, changed: number): number {
  const changeMs = changed === 0 ? 0 : CHANGE_MS + SERVICE_CHANGE_MS * changed;
  return Math.max(SHORTEST_PAUSE_MS, (tookMs + changeMs) / SHARE);
}

/** The changes of at most `MOST_CHANGED` services, most urgent first. */
function mostUrgent(changes: readonly Change[]): readonly Change[] {
  const services = new Set<ServiceKey>();
  return changes.toSorted((a, b) => b.urgency - a.urgency).filter(({ service }) => {
    if (services.size < MOST_CHANGED) services.add(service);
    return services.has(service);
  });
}

interface Counted {
  readonly loads: ReadonlyMap<string, EndpointLoad>;
  readonly atMs: number;
}

function nextCounted(
  { loads, atMs }: Counted,
  endpoints: NonNullable<ConnectionReading["endpoints"]>,
  nowMs: number,
): Counted {
  const next = [...endpoints].map(([target, counts]) =>
    [target, nextLoad(loads.get(target), counts, (nowMs - atMs) / 1000)] as const
  );
  return { loads: new Map(next), atMs: nowMs };
}

/** The new factors of a service port; undefined if they are not worth a change. */
function changeOf(
  { balance, clusterEndpoints, localEndpoints }: ServicePort,
  loads: ReadonlyMap<string, EndpointLoad>,
  before: ReadonlyMap<string, number> | undefined,
): Pick<Change, "factors" | "urgency"> | undefined {
  // The endpoints of policy Local are among the others, if there are others.
  const isCluster = clusterEndpoints.length > 0;
  const targets = isCluster ? clusterEndpoints : localEndpoints;
  const weights = isCluster ? balance?.clusterWeights : balance?.localWeights;
  const endpoints = targets.flatMap((target, i) => {
    const load = loads.get(target), weight = weights?.[i] ?? 1;
    return load === undefined || weight === 0 ? [] : [{ target, weight, load }];
  });
  if (endpoints.length < 2) return undefined;
  const present = endpoints.map(({ target }) => before?.get(target) ?? 1);
  const next = steppedFactors(factorsOf(endpoints), present);
  if (next === present) return undefined;
  const urgency = Math.max(...next.map((factor, i) => Math.abs(Math.log2(factor / present[i]!))));
  return { factors: new Map(endpoints.map(({ target }, i) => [target, next[i]!])), urgency };
}
