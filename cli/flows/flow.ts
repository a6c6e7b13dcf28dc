/** Connections to services, from the events of connection tracking, and the services that they go to. */
import { type Runner, runOrThrow } from "../../backends/tools/mod.ts";
import { indexFrontends } from "../../backends/traffic/mod.ts";
import { type FamilyDelta, frontendsOf, type Protocol, type ServicePortName } from "../../core/model/mod.ts";
import {
  canonicalAddress,
  type Clock,
  countText,
  durationText,
  FAMILIES,
  type Family,
  familyOf,
  joinHostPort,
  timeOfDay,
} from "../../platform/mod.ts";

/**
 * An event of a connection to a service:
 * - `begin`: its first packet was sent to the endpoint;
 * - `closed`: TCP has ended; the kernel remembers the connection for up to two minutes;
 * - `end`: the kernel has forgotten it, and its bytes are known.
 */
export interface Flow {
  readonly event: "begin" | "closed" | "end";
  /** In milliseconds since 1970. */
  readonly atMs: number;
  readonly service: ServicePortName;
  readonly protocol: Protocol;
  /** `address:port` of the client, of the frontend, and of the endpoint. */
  readonly client: string;
  readonly frontend: string;
  readonly endpoint: string;
  /** The state of a TCP or SCTP connection: the last one, if it has ended. */
  readonly state: string;
  /** Bytes to the endpoint and back; absent if the kernel does not count them (`nf_conntrack_acct`), or not yet. */
  readonly bytesSent?: number;
  readonly bytesReceived?: number;
  /** The time since the start; absent if the start was not seen. */
  readonly durationMs?: number;
}

/** A connection in one line. */
export function flowLine(flow: Flow): string {
  const { event, atMs, service, protocol, client, frontend, endpoint, state, bytesSent, bytesReceived } = flow;
  const facts = [
    ...(state === "" ? [] : [state]),
    ...(bytesSent === undefined
      ? []
      : [`${countText(bytesSent)} bytes sent, ${countText(bytesReceived ?? 0)} received`]),
    ...(flow.durationMs === undefined || event === "begin" ? [] : [durationText(flow.durationMs)]),
  ];
  const path = `${client} → ${frontend}/${protocol} (${service}) → ${endpoint}`;
  return [timeOfDay(atMs), event.padEnd(6), path, ...facts].join("  ");
}

type FindService = (address: string, protocol: Protocol, port: number) => ServicePortName | undefined;

/** The states of a TCP connection that has ended. */
const CLOSED: ReadonlySet<string> = new Set(["TIME_WAIT", "CLOSE"]);

/** The maximum number of connections whose start time is stored. */
const MOST_OPEN = 200_000;

/** Passes on connections to services as they begin and end, until the runner's signal is aborted. */
export async function readFlows(runner: Runner, findService: FindService, onFlow: (flow: Flow) => void): Promise<void> {
  const open = new Map<string, { readonly beganMs: number; state: string }>();
  const onLine = (line: string) => {
    const parsed = parseConntrackEvent(line);
    if (parsed === undefined) return;
    const { event, atMs, id, protocol, state, original, reply } = parsed;
    // A connection whose destination is not translated goes to no service.
    const isTranslated = original.destination !== reply.source || original.destinationPort !== reply.sourcePort;
    const service = isTranslated ? findService(original.destination, protocol, original.destinationPort) : undefined;
    if (service === undefined) return;
    const known = open.get(id);
    if (event === "begin" && open.size < MOST_OPEN) open.set(id, { beganMs: atMs, state });
    if (known !== undefined && event === "closed") known.state = state;
    if (event === "end") open.delete(id);
    if (event === "closed" && !CLOSED.has(state)) return;
    onFlow({
      event,
      atMs,
      service,
      protocol,
      client: joinHostPort(original.source, original.sourcePort),
      frontend: joinHostPort(original.destination, original.destinationPort),
      endpoint: joinHostPort(reply.source, reply.sourcePort),
      state: state || (known?.state ?? ""),
      ...(original.bytes === undefined ? {} : { bytesSent: original.bytes }),
      ...(reply.bytes === undefined ? {} : { bytesReceived: reply.bytes }),
      ...(known === undefined ? {} : { durationMs: Math.round(atMs - known.beganMs) }),
    });
  };
  await runOrThrow(runner, { tool: "conntrack", args: CONNTRACK_ARGS, onLine, timeoutMs: FOREVER_MS });
}

/** The maximum run time of a tool: a timer takes 31 bits of milliseconds. */
export const FOREVER_MS = 2 ** 31 - 1;

/** The arguments of conntrack that print such events: of both families, with time and identity. */
const CONNTRACK_ARGS: readonly string[] = [
  ...["-E", "-e", "NEW,UPDATES,DESTROY", "-o", "timestamp,extended,id"],
  // Room for some 20,000 events while this program is busy.
  ...["-b", "8388608"],
];

/** The event of a connection for each of the kernel's. An update is one only if it closes the connection. */
const EVENTS = { NEW: "begin", UPDATE: "closed", DESTROY: "end" } as const;

const LINE =
  /^\[(\d+\.\d+)\]\s+\[(NEW|UPDATE|DESTROY)\] ipv[46]\s+\d+ (tcp|udp|sctp)\s+\d+ (?:\d+ )?(?:([A-Z_\d]+) )?(src=.*)$/;

/** Parses a line of `conntrack -E`; undefined for other lines and protocols. */
function parseConntrackEvent(line: string) {
  const match = LINE.exec(line);
  if (!match) return undefined;
  const [, seconds, kind, protocol, state = "", fields] = match;
  const words = fields!.split(/\s+/);
  const values = (name: string) =>
    words.filter((word) => word.startsWith(`${name}=`)).map((word) => word.slice(name.length + 1));
  const [sources, destinations, sourcePorts, destinationPorts] = ["src", "dst", "sport", "dport"].map(values);
  const counted = values("bytes"), [id] = values("id");
  if (id === undefined || sources!.length < 2 || sourcePorts!.length < 2) return undefined;
  const tuple = (i: 0 | 1) => ({
    source: canonicalAddress(sources![i]!) ?? sources![i]!,
    destination: canonicalAddress(destinations![i]!) ?? destinations![i]!,
    sourcePort: Number(sourcePorts![i]),
    destinationPort: Number(destinationPorts![i]),
    // Absent if the kernel does not count them, or the connection has not ended.
    bytes: counted[i] === undefined ? undefined : Number(counted[i]),
  });
  return {
    event: EVENTS[kind as keyof typeof EVENTS],
    atMs: Number(seconds) * 1000,
    /** Identifies the connection while it is tracked. */
    id,
    protocol: protocol as Protocol,
    state,
    /** As the client sends. */
    original: tuple(0),
    /** As the endpoint answers. */
    reply: tuple(1),
  };
}

/** Finds the service port of a frontend in the state of the running proxy. */
export interface ServiceFinder {
  readonly find: FindService;
  /** The frontends of a family for rules of nft: `address . protocol . port`, and `protocol . port` of node ports. */
  frontends(family: Family): { readonly addresses: readonly string[]; readonly nodePorts: readonly string[] };
}

const REFRESH_MS = 2_000;

/** Reads the state, and reads it again in the background when a frontend is unknown. */
export async function createServiceFinder(
  answers: { state(family: Family): Promise<FamilyDelta> },
  clock: Clock,
): Promise<ServiceFinder> {
  const read = () => Promise.all(FAMILIES.map((family) => answers.state(family)));
  const known = (states: readonly FamilyDelta[]) => (
    { states, indexes: states.map(({ set }) => indexFrontends(set)), atMs: clock.monotonic() }
  );
  let current = known(await read()), isReading = false;
  return {
    find(address, protocol, port) {
      const family = familyOf(address);
      const key = current.indexes[FAMILIES.indexOf(family)]!.find(address, protocol, port);
      if (key !== undefined) return key.slice(0, key.lastIndexOf("|"));
      if (!isReading && clock.monotonic() - current.atMs > REFRESH_MS) {
        isReading = true;
        read().then((states) => current = known(states)).catch(() => {}).finally(() => isReading = false);
      }
      return undefined;
    },
    frontends(family) {
      const addresses = new Set<string>(), nodePorts = new Set<string>();
      for (const servicePort of current.states[FAMILIES.indexOf(family)]!.set) {
        for (const { kind, address, protocol, port } of frontendsOf(servicePort)) {
          if (kind === "nodePort") nodePorts.add(`${protocol} . ${port}`);
          else addresses.add(`${address} . ${protocol} . ${port}`);
        }
      }
      return { addresses: [...addresses], nodePorts: [...nodePorts] };
    },
  };
}
