/** UDP: one flow for each client address and port at a listener, with a socket of its own towards the endpoint. */
import { sleep, splitHostPort, UNSPECIFIED_ADDRESS } from "../platform/mod.ts";
import type { RelayParts } from "./connections.ts";
import type { CountBytes } from "./counts.ts";
import { isOfOtherFamily, type Listener } from "./network.ts";
import { endpointsOf, type Target } from "./target.ts";

/** The UDP listeners and their flows. */
interface UdpFlows {
  /** Listens for datagrams for the target. Throws the system's error. */
  listen(address: string, port: number, target: Target): Listener;
}

/** A listener and its flows by client. */
interface Door {
  readonly socket: Deno.DatagramConn;
  readonly target: Target;
  readonly flows: Map<string, Flow>;
  /** Whether endpoints answer at all; with one-way protocols, they do not. */
  isAnswering: boolean;
  isClosed: boolean;
}

/** The datagrams between a client and an endpoint. */
interface Flow {
  readonly door: Door;
  readonly client: Deno.NetAddr;
  readonly socket: Deno.DatagramConn;
  readonly startedMs: number;
  endpoint: string;
  to: Deno.NetAddr;
  /** Counts its bytes; undefined if traffic is not counted. */
  countBytes: CountBytes | undefined;
  /** The time of the first datagram to this endpoint. */
  sinceMs: number;
  /** Whether this endpoint has answered. */
  isAnswered: boolean;
  /** Datagrams of the client and to it. */
  questions: number;
  answers: number;
  /** The state of the service port for which the endpoint was chosen or checked. */
  checked: Target["servicePort"];
  kind: FlowKind;
  /** The time of the last use, with a resolution of half a second. */
  usedMs: number;
  isClosed: boolean;
}

/**
 * The kinds of flows, in order of eviction: `answered` has carried one datagram in each direction, so it is probably over;
 * `stream` is long-lived (as in the kernel's connection tracking); `question` is any other.
 */
const KINDS = ["answered", "question", "stream"] as const;
type FlowKind = typeof KINDS[number];

/** Uses within this time do not change the order of flows, so that a busy flow costs nothing there. */
const RESOLUTION_MS = 500;
const SWEEP_MS = 1000;
/** The time after which a client that retransmits without an answer gets another endpoint. */
const SILENCE_MS = 1000;
/** The time after which an answered flow is a stream (as in the kernel's connection tracking). */
const STREAM_MS = 2000;
/** The delay after a listener's socket has failed. */
const PAUSE_MS = 1000;

/** Creates an empty table of flows. */
export function createUdpFlows(parts: RelayParts): UdpFlows {
  const { network, counters, clock, logger, files } = parts;
  const buffers = createDatagramBuffers();
  const table = createFlowTable(parts);
  const flowOf = createFlowChoice(parts, table, receiveAnswers);

  const forward = async (door: Door, data: Uint8Array<ArrayBuffer>, client: Deno.NetAddr) => {
    try {
      const flow = flowOf(door, client);
      if (flow === undefined) return void counters.datagramsDropped++;
      await flow.socket.send(data, flow.to);
      counters.datagramsToEndpoints++;
      flow.countBytes?.(data.length);
    } catch (error) {
      counters.datagramsDropped++;
      files.note(error);
      logger.warn("datagram dropped", { servicePort: door.target.servicePort.name, error });
    }
  };

  const receiveQuestions = async (door: Door) => {
    const buffer = buffers.take();
    while (!door.isClosed) {
      try {
        const [data, from] = await door.socket.receive(buffer), client = from as Deno.NetAddr;
        if (!isOfOtherFamily(client.hostname)) await forward(door, data, client);
      } catch (error) {
        if (door.isClosed) break;
        logger.warn("cannot receive datagrams, retrying", { servicePort: door.target.servicePort.name, error });
        await sleep(clock, PAUSE_MS);
      }
    }
    buffers.release(buffer);
  };

  async function receiveAnswers(flow: Flow): Promise<void> {
    const buffer = buffers.take();
    const { door, socket } = flow;
    try {
      while (!flow.isClosed) {
        const [data, from] = await socket.receive(buffer), { hostname, port } = from as Deno.NetAddr;
        if (port !== flow.to.port || hostname !== flow.to.hostname) continue;
        table.noteAnswer(flow);
        await door.socket.send(data, flow.client).then(
          () => {
            counters.datagramsToClients++;
            flow.countBytes?.(data.length);
          },
          () => void counters.datagramsDropped++,
        );
      }
    } catch {
      if (!flow.isClosed) table.close(flow);
    }
    buffers.release(buffer);
  }

  return {
    listen(address, port, target) {
      const socket = network.bindUdp(address, port);
      const door: Door = { socket, target, flows: new Map(), isAnswering: false, isClosed: false };
      void receiveQuestions(door);
      return { port: (socket.addr as Deno.NetAddr).port, close: () => closeDoor(door) };
    },
  };

  function closeDoor(door: Door): void {
    if (door.isClosed) return;
    door.isClosed = true;
    for (const flow of door.flows.values()) table.close(flow);
    door.socket.close();
  }
}

/** The open flows, by kind and in the order of their last use; those that were not used for the time of their kind are closed. */
function createFlowTable({ limits, counters, clock, logger }: RelayParts) {
  const byUse: Readonly<Record<FlowKind, Set<Flow>>> = { answered: new Set(), question: new Set(), stream: new Set() };
  const idleMs = { answered: limits.udpAnsweredIdleMs, question: limits.udpIdleMs, stream: limits.udpStreamIdleMs };
  let cancelSweep: (() => void) | undefined;

  const close = (flow: Flow) => {
    flow.isClosed = true;
    flow.door.flows.delete(clientOf(flow.client));
    byUse[flow.kind].delete(flow);
    flow.socket.close();
    if (--counters.udpFlows > 0) return;
    cancelSweep?.();
    cancelSweep = undefined;
  };
  const sweep = () => {
    cancelSweep = undefined;
    for (const kind of KINDS) {
      const latestMs = clock.monotonic() - idleMs[kind];
      for (const flow of byUse[kind]) {
        if (flow.usedMs > latestMs) break;
        close(flow);
      }
    }
    if (counters.udpFlows > 0) cancelSweep = clock.schedule(SWEEP_MS, sweep);
  };
  /** Notes a use of a flow, which may be of another kind from now on. */
  const use = (flow: Flow, kind = flow.kind) => {
    const nowMs = clock.monotonic();
    if (flow.isClosed || kind === flow.kind && nowMs - flow.usedMs < RESOLUTION_MS) return;
    byUse[flow.kind].delete(flow);
    flow.kind = kind;
    flow.usedMs = nowMs;
    byUse[kind].add(flow);
  };
  /** The flow to evict: of the first kind, the one used longest ago. */
  const oldest = () => KINDS.map((kind) => byUse[kind]).find(({ size }) => size > 0)!.values().next().value!;

  return {
    close,
    use,
    /** Closes a flow if no other one may be open. */
    makeRoom(): void {
      if (counters.udpFlows < limits.udpFlows) return;
      close(oldest());
      counters.udpFlowsEvicted++;
      logger.warn("UDP flow closed early: too many are open", { limit: limits.udpFlows });
    },
    add(flow: Flow): void {
      flow.door.flows.set(clientOf(flow.client), flow);
      byUse[flow.kind].add(flow);
      counters.udpFlowsCreated++;
      counters.udpFlows++;
      cancelSweep ??= clock.schedule(SWEEP_MS, sweep);
    },
    /** Notes a datagram of the endpoint. */
    noteAnswer(flow: Flow): void {
      flow.isAnswered = flow.door.isAnswering = true;
      use(flow);
      if (++flow.answers === 1 && flow.questions === 1) use(flow, "answered");
      else if (flow.answers === 2 && flow.questions === 1) use(flow, "question");
    },
  };
}

/** Finds the flow of a client, at an endpoint that may serve it; undefined if there is none. Throws the system's error. */
type FlowOf = (door: Door, client: Deno.NetAddr) => Flow | undefined;

/** Opens a flow for a new client, and gives an existing one another endpoint where its own is gone or silent. */
function createFlowChoice(
  { family, network, chooser, counters, traffic, clock }: RelayParts,
  table: ReturnType<typeof createFlowTable>,
  onOpen: (flow: Flow) => Promise<void>,
): FlowOf {
  /** Begins to send a client's datagrams to an endpoint. */
  const wayTo = (endpoint: string, target: Target, client: Deno.NetAddr) => {
    const { address: hostname, port } = splitHostPort(endpoint);
    chooser.chosen(target, client.hostname, endpoint);
    const countBytes = traffic.begin(target.key, endpoint);
    return { endpoint, to: { transport: "udp", hostname, port }, countBytes, isAnswered: false } as const;
  };
  /** An endpoint other than `current`; undefined if there is none. */
  const nextEndpoint = (target: Target, client: Deno.NetAddr, current: string | undefined): string | undefined => {
    for (const endpoint of chooser.candidates(target, client.hostname)) {
      if (endpoint !== current) return endpoint;
    }
    return undefined;
  };
  const openFlow = (door: Door, client: Deno.NetAddr): Flow | undefined => {
    const endpoint = nextEndpoint(door.target, client, undefined);
    if (endpoint === undefined) return undefined;
    table.makeRoom();
    const startedMs = clock.monotonic();
    const flow: Flow = {
      ...{ door, client, startedMs, sinceMs: startedMs, checked: door.target.servicePort, isClosed: false },
      ...{ questions: 1, answers: 0, kind: "question", usedMs: startedMs },
      socket: network.bindUdp(UNSPECIFIED_ADDRESS[family], 0),
      // After the socket, which may not open.
      ...wayTo(endpoint, door.target, client),
    };
    table.add(flow);
    void onOpen(flow);
    return flow;
  };
  /** Gives a flow another endpoint; returns whether there is one. */
  const move = (flow: Flow) => {
    const endpoint = nextEndpoint(flow.door.target, flow.client, flow.endpoint);
    if (endpoint === undefined) return false;
    flow.sinceMs = clock.monotonic();
    Object.assign(flow, wayTo(endpoint, flow.door.target, flow.client));
    return true;
  };

  return (door, client) => {
    const flow = door.flows.get(clientOf(client));
    if (flow === undefined) return openFlow(door, client);
    table.use(flow);
    if (++flow.questions === 2) table.use(flow, "question");
    if (flow.checked !== door.target.servicePort) {
      if (!mayStay(flow)) return move(flow) ? flow : undefined;
      flow.checked = door.target.servicePort;
    }
    if (!flow.isAnswered && door.isAnswering && clock.monotonic() - flow.sinceMs >= SILENCE_MS) {
      if (move(flow)) counters.failovers++;
    } else if (flow.isAnswered && clock.monotonic() - flow.startedMs >= STREAM_MS) table.use(flow, "stream");
    return flow;
  };
}

/** Whether a flow may keep its endpoint: the list still has it, or allows existing flows to finish. */
function mayStay({ door: { target }, endpoint }: Flow): boolean {
  return endpointsOf(target).includes(endpoint) || target.servicePort.lingeringEndpoints.includes(endpoint);
}

function clientOf({ hostname, port }: Deno.NetAddr): string {
  return `${hostname} ${port}`;
}

/** The largest payload of a UDP datagram fits. */
const SLOT_BYTES = 65_536;
/** Slots that are allocated at once: 64 MB, which malloc maps without touching them. */
const SLOTS = 1024;

/**
 * Creates a pool of buffers of 64 kB in large slabs: a small datagram touches one page of 4 kB, so 10,000 buffers take 40 MB;
 * allocated one by one, they take 640.
 */
function createDatagramBuffers() {
  const free: Uint8Array<ArrayBuffer>[] = [];
  const grow = () => {
    const slab = new ArrayBuffer(SLOTS * SLOT_BYTES);
    for (let i = SLOTS - 1; i >= 0; i--) free.push(new Uint8Array(slab, i * SLOT_BYTES, SLOT_BYTES));
  };
  return {
    take() {
      if (free.length === 0) grow();
      return free.pop()!;
    },
    /** Takes back a buffer that no pending call uses. */
    release: (buffer: Uint8Array<ArrayBuffer>) => void free.push(buffer),
  };
}
