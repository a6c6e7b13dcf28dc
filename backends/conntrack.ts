import {
  type Family,
  type FamilyDelta,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  type SyncProblem,
} from "../core/model.ts";
import { joinHostPort } from "../platform/address.ts";
import type { Clock } from "../platform/clock.ts";
import { errorText, type Logger } from "../platform/log.ts";
import { failureText, type Runner } from "./runner.ts";

/**
 * Removes conntrack entries of UDP flows that go where they should not any more: a flow to a service outlives a change
 * of its rules, since only a flow's first packet meets them. It goes wrong when its endpoint is gone, or when it began
 * before the service had endpoints (kubernetes issues 19029 and 105657; kube-proxy's conntrack reconciler).
 */
export interface ConntrackCleaner {
  /** A service port is about to change from `previous` to `next`; undefined where there is none. */
  note(previous: ServicePort | undefined, next: ServicePort | undefined): void;
  /** A delta is about to be applied on what is known. */
  noteDelta(known: KnownServicePorts, delta: FamilyDelta): void;
  /**
   * Removes the entries that what was noted has made stale; to be called when the rules are in effect. Does nothing,
   * and starts no tool, where nothing was noted. Throws where conntrack fails; what was noted is kept then.
   * @returns how many entries were removed
   */
  clean(): Promise<number>;
  /**
   * Does the same without holding anything up: a failure is logged, and told as a problem; what takes longer than a second
   * goes on beside the syncs that follow, the first of which after its end tells what came of it.
   */
  tryClean(logger: Logger, clock: Clock): Promise<CleaningResult>;
}

/** What came of a cleaning: how many entries were removed, and why others were not. */
export interface CleaningResult {
  readonly deleted: number;
  readonly problem: SyncProblem | undefined;
}

/** How long a sync waits for a cleaning. */
const PATIENCE_MS = 1_000;

/** The service ports that deltas have led to. */
export interface KnownServicePorts {
  servicePort(key: ServicePortKey): ServicePort | undefined;
  servicePorts(): Iterable<ServicePort>;
}

/** A cleaner that has noted nothing. */
export function createConntrackCleaner(family: Family, runner: Runner): ConntrackCleaner {
  const changed = new Map<ServicePortKey, Flows>();
  let isNoted = false;
  let running: Promise<void> | undefined;
  let result: CleaningResult | undefined;

  /** Cleans until nothing was noted since the last time. */
  const cleanAll = async (logger: Logger): Promise<void> => {
    let deleted = 0, problem: SyncProblem | undefined;
    try {
      do {
        isNoted = false;
        deleted += await cleaner.clean();
      } while (isNoted);
    } catch (error) {
      const message = `stale UDP flows could not be removed and are tried again with the next sync: ${
        errorText(error)
      }`;
      logger.warn(message);
      problem = { servicePort: undefined, message };
    }
    result = { deleted: deleted + (result?.deleted ?? 0), problem };
    running = undefined;
  };

  const cleaner: ConntrackCleaner = {
    note(previous, next) {
      const port = next ?? previous;
      if (port?.protocol !== "udp") return;
      const key = servicePortKey(port.name, port.protocol);
      if (!mayLeaveStaleFlows(previous, next)) return;
      const flows = changed.get(key) ?? { frontends: new Set(), nodePorts: new Set(), endpoints: new Set() };
      for (const known of [previous, next]) if (known) addFrontends(flows, known);
      changed.set(key, { ...flows, endpoints: endpointsOf(next) });
      isNoted = true;
    },
    noteDelta(known, delta) {
      const whole = delta.base === undefined;
      const kept = new Set<ServicePortKey>();
      for (const port of delta.set) {
        if (port.protocol !== "udp") continue;
        const key = servicePortKey(port.name, port.protocol);
        if (whole) kept.add(key);
        cleaner.note(known.servicePort(key), port);
      }
      for (const key of delta.deleted) cleaner.note(known.servicePort(key), undefined);
      if (!whole) return;
      for (const port of known.servicePorts()) {
        if (port.protocol === "udp" && !kept.has(servicePortKey(port.name, port.protocol))) {
          cleaner.note(port, undefined);
        }
      }
    },
    async clean() {
      if (changed.size === 0) return 0;
      const taken = [...changed.entries()];
      const stale = await findStale(family, runner, taken.map(([, flows]) => flows));
      if (stale.length > 0) await remove(family, runner, stale);
      for (const [key, flows] of taken) if (changed.get(key) === flows) changed.delete(key);
      return stale.length;
    },
    async tryClean(logger, clock) {
      running ??= cleanAll(logger);
      const patience = Promise.withResolvers<void>();
      const cancel = clock.schedule(PATIENCE_MS, patience.resolve);
      await Promise.race([running, patience.promise]);
      cancel();
      const told = result ?? { deleted: 0, problem: undefined };
      result = undefined;
      return told;
    },
  };
  return cleaner;
}

interface Flows {
  /** Addresses with ports that flows of the service go to. */
  readonly frontends: Set<string>;
  readonly nodePorts: Set<number>;
  /** Where those flows may go on to. */
  readonly endpoints: ReadonlySet<string>;
}

/** One UDP flow, from its client's side. */
interface Flow {
  readonly source: string;
  readonly sourcePort: string;
  readonly destination: string;
  readonly destinationPort: string;
}

function endpointsOf(port: ServicePort | undefined): Set<string> {
  return new Set(port && [...port.clusterEndpoints, ...port.localEndpoints, ...port.lingeringEndpoints]);
}

function frontendsOf(port: ServicePort): string[] {
  return [port.clusterIP, ...port.externalIPs, ...port.loadBalancerIPs].map((address) =>
    joinHostPort(address, port.port)
  );
}

function addFrontends(flows: Flows, port: ServicePort): void {
  for (const frontend of frontendsOf(port)) flows.frontends.add(frontend);
  if (port.nodePort !== 0) flows.nodePorts.add(port.nodePort);
}

/** Whether an endpoint went, the first one came, or a frontend came or went. */
function mayLeaveStaleFlows(previous: ServicePort | undefined, next: ServicePort | undefined): boolean {
  const before = endpointsOf(previous), after = endpointsOf(next);
  if (before.size === 0) return after.size > 0;
  for (const endpoint of before) if (!after.has(endpoint)) return true;
  if (!previous || !next) return true;
  return previous.nodePort !== next.nodePort || frontendsOf(previous).join() !== frontendsOf(next).join();
}

const FAMILY_ARGUMENT: Readonly<Record<Family, string>> = { IPv4: "ipv4", IPv6: "ipv6" };

async function findStale(family: Family, runner: Runner, all: readonly Flows[]): Promise<Flow[]> {
  const byFrontend = new Map<string, Flows>(), byNodePort = new Map<string, Flows>();
  for (const flows of all) {
    for (const frontend of flows.frontends) byFrontend.set(frontend, flows);
    for (const port of flows.nodePorts) byNodePort.set(String(port), flows);
  }
  const stale: Flow[] = [];
  const result = await runner.run({
    tool: "conntrack",
    args: ["-L", "-p", "udp", "-f", FAMILY_ARGUMENT[family]],
    onLine(line) {
      const entry = parseEntry(line);
      if (!entry) return;
      const { flow, answeredBy } = entry;
      const flows = byFrontend.get(joinHostPort(flow.destination, Number(flow.destinationPort))) ??
        byNodePort.get(flow.destinationPort);
      if (flows && !flows.endpoints.has(answeredBy)) stale.push(flow);
    },
  });
  if (result.exitCode !== 0) throw new Error(failureText("conntrack", result));
  return stale;
}

/** An entry as `conntrack -L` prints it: the flow's own direction first, then the answers'. */
function parseEntry(line: string): { readonly flow: Flow; readonly answeredBy: string } | undefined {
  const sources: string[] = [],
    destinations: string[] = [],
    sourcePorts: string[] = [],
    destinationPorts: string[] = [];
  for (const word of line.split(" ")) {
    if (word.startsWith("src=")) sources.push(word.slice(4));
    else if (word.startsWith("dst=")) destinations.push(word.slice(4));
    else if (word.startsWith("sport=")) sourcePorts.push(word.slice(6));
    else if (word.startsWith("dport=")) destinationPorts.push(word.slice(6));
  }
  const [source, answerSource] = sources, [sourcePort, answerPort] = sourcePorts;
  const [destination] = destinations, [destinationPort] = destinationPorts;
  if (!source || !answerSource || !sourcePort || !answerPort || !destination || !destinationPort) return undefined;
  const flow = { source, sourcePort, destination, destinationPort };
  return { flow, answeredBy: joinHostPort(answerSource, Number(answerPort)) };
}

/** What conntrack says when an entry has ended by itself in the meantime. */
const NOTHING_DELETED = "0 flow entries have been deleted";

async function remove(family: Family, runner: Runner, flows: readonly Flow[]): Promise<void> {
  const lines = flows.map((flow) =>
    `-D -f ${FAMILY_ARGUMENT[family]} -p udp -s ${flow.source} -d ${flow.destination} ` +
    `--sport ${flow.sourcePort} --dport ${flow.destinationPort}\n`
  );
  const result = await runner.run({ tool: "conntrack", args: ["--load-file", "-"], stdin: lines, onLine: () => {} });
  if (result.exitCode !== 0 && !result.stderr.includes(NOTHING_DELETED)) {
    throw new Error(failureText("conntrack", result));
  }
}
