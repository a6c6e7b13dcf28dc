/** UDP: one flow for each client address and port at a listener, with a socket of its own towards the endpoint. */
import { type Clock, type Family, sleep, splitHostPort } from "../platform/mod.ts";
import type { ConnectionsOptions } from "./connections.ts";
import type { CountBytes } from "./figures.ts";
import type { FileWatch } from "./file_watch.ts";
import type { DatagramSocket, Listener } from "./network.ts";
import { endpointsOf, type Target } from "./target.ts";

/** Inputs of `createUdpFlows`. */
export interface UdpFlowsOptions extends Omit<ConnectionsOptions, "failed" | "files"> {
  readonly family: Family;
  readonly files: Pick<FileWatch, "note">;
}

/** The UDP listeners and their flows. */
export interface UdpFlows {
  /** Listens for datagrams for the target. Throws the system's error. */
  listen(address: string, port: number, target: Target): Listener;
  closeAll(): void;
}

/** A listener and its flows by client. */
interface Door {
  readonly socket: DatagramSocket;
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
  readonly socket: DatagramSocket;
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
  isClosed: boolean;
}

/** The time after which a client that retransmits without an answer gets another endpoint. */
const SILENCE_MS = 1000;
/** The time after which an answered flow is a stream (as in the kernel's connection tracking). */
const STREAM_MS = 2000;
/** The delay after a listener's socket has failed. */
const PAUSE_MS = 1000;

/** Creates an empty table of flows. */
export function createUdpFlows(options: UdpFlowsOptions): UdpFlows {
  const { network, chooser, limits, counters, traffic, clock, logger } = options;
  const buffers = createDatagramBuffers();
  const doors = new Set<Door>();
  const anyAddress = options.family === "IPv4" ? "0.0.0.0" : "::";

  const close = (flow: Flow) => {
    flow.isClosed = true;
    flow.door.flows.delete(clientOf(flow.client));
    idle.remove(flow);
    flow.socket.close();
    counters.udpFlows = idle.size();
  };
  const idle = createIdleFlows<Flow>({
    clock,
    idleMs: { answered: limits.udpAnsweredIdleMs, question: limits.udpIdleMs, stream: limits.udpStreamIdleMs },
    onIdle: close,
  });

  const openFlow = (door: Door, client: Deno.NetAddr): Flow | undefined => {
    const endpoint = nextEndpoint(door.target, client, undefined);
    if (endpoint === undefined) return undefined;
    if (idle.size() >= limits.udpFlows) {
      close(idle.oldest()!);
      counters.udpFlowsEvicted++;
      logger.warn("UDP flow closed early: too many are open", { limit: limits.udpFlows });
    }
    const startedMs = clock.monotonic();
    const flow: Flow = {
      ...{ door, client, startedMs, endpoint, to: addressOf(endpoint), sinceMs: startedMs },
      ...{ checked: door.target.servicePort, isAnswered: false, isClosed: false },
      ...{ questions: 1, answers: 0 },
      socket: network.bindUdp(anyAddress, 0),
      countBytes: undefined,
    };
    flow.countBytes = traffic.begin(door.target.key, endpoint);
    chooser.chosen(door.target, client.hostname, endpoint);
    door.flows.set(clientOf(client), flow);
    idle.add(flow);
    counters.udpFlowsCreated++;
    counters.udpFlows = idle.size();
    void receiveAnswers(flow);
    return flow;
  };

  /** The endpoint that follows `current`: any other one if there is one. */
  const nextEndpoint = (target: Target, client: Deno.NetAddr, current: string | undefined): string | undefined => {
    let only: string | undefined;
    for (const endpoint of chooser.candidates(target, client.hostname)) {
      if (endpoint !== current) return endpoint;
      only = endpoint;
    }
    return only;
  };
  const move = (flow: Flow) => {
    const endpoint = nextEndpoint(flow.door.target, flow.client, flow.endpoint);
    if (endpoint === undefined) return false;
    flow.checked = flow.door.target.servicePort;
    flow.sinceMs = clock.monotonic();
    if (endpoint === flow.endpoint) return true;
    flow.endpoint = endpoint;
    flow.to = addressOf(endpoint);
    flow.isAnswered = false;
    flow.countBytes = traffic.begin(flow.door.target.key, endpoint);
    chooser.chosen(flow.door.target, flow.client.hostname, endpoint);
    return true;
  };

  /** The flow of a client, at an endpoint that may serve it; undefined if there is none. */
  const flowOf = (door: Door, client: Deno.NetAddr): Flow | undefined => {
    const flow = door.flows.get(clientOf(client));
    if (flow === undefined) return openFlow(door, client);
    idle.touch(flow);
    if (++flow.questions === 2) idle.become(flow, "question");
    if (flow.checked !== door.target.servicePort) {
      if (!mayStay(flow)) return move(flow) ? flow : undefined;
      flow.checked = door.target.servicePort;
    }
    if (!flow.isAnswered && door.isAnswering && clock.monotonic() - flow.sinceMs >= SILENCE_MS) {
      counters.failovers++;
      move(flow);
    } else if (flow.isAnswered && clock.monotonic() - flow.startedMs >= STREAM_MS) idle.become(flow, "stream");
    return flow;
  };

  const forward = async (door: Door, data: Uint8Array<ArrayBuffer>, client: Deno.NetAddr) => {
    try {
      const flow = flowOf(door, client);
      if (flow === undefined) return void counters.datagramsDropped++;
      await flow.socket.send(data, flow.to);
      counters.datagramsToEndpoints++;
      flow.countBytes?.(data.length);
    } catch (error) {
      counters.datagramsDropped++;
      options.files.note(error);
      logger.warn("datagram dropped", { servicePort: door.target.servicePort.name, error });
    }
  };

  const receiveQuestions = async (door: Door) => {
    const buffer = buffers.take();
    while (!door.isClosed) {
      try {
        const [data, client] = await door.socket.receive(buffer);
        await forward(door, data, client as Deno.NetAddr);
      } catch (error) {
        if (door.isClosed) break;
        logger.warn("cannot receive datagrams, retrying", { servicePort: door.target.servicePort.name, error });
        await sleep(clock, PAUSE_MS);
      }
    }
    buffers.release(buffer);
  };

  const receiveAnswers = async (flow: Flow) => {
    const buffer = buffers.take();
    const { door, socket } = flow;
    try {
      while (!flow.isClosed) {
        const [data, from] = await socket.receive(buffer);
        if (!isSame(from as Deno.NetAddr, flow.to)) continue;
        flow.isAnswered = door.isAnswering = true;
        idle.touch(flow);
        if (++flow.answers === 1 && flow.questions === 1) idle.become(flow, "answered");
        else if (flow.answers === 2 && flow.questions === 1) idle.become(flow, "question");
        await door.socket.send(data, flow.client).then(
          () => {
            counters.datagramsToClients++;
            flow.countBytes?.(data.length);
          },
          () => void counters.datagramsDropped++,
        );
      }
    } catch {
      if (!flow.isClosed) close(flow);
    }
    buffers.release(buffer);
  };

  return {
    listen(address, port, target) {
      const socket = network.bindUdp(address, port);
      const door: Door = { socket, target, flows: new Map(), isAnswering: false, isClosed: false };
      doors.add(door);
      void receiveQuestions(door);
      return { port: socket.port, close: () => closeDoor(door) };
    },
    closeAll: () => doors.forEach(closeDoor),
  };

  function closeDoor(door: Door): void {
    if (door.isClosed) return;
    door.isClosed = true;
    doors.delete(door);
    for (const flow of door.flows.values()) close(flow);
    door.socket.close();
  }
}

/** Whether a flow may keep its endpoint: the list still has it, or allows existing flows to finish. */
function mayStay({ door: { target }, endpoint }: Flow): boolean {
  return endpointsOf(target).includes(endpoint) || target.servicePort.lingeringEndpoints.includes(endpoint);
}

function addressOf(endpoint: string): Deno.NetAddr {
  const { address, port } = splitHostPort(endpoint);
  return { transport: "udp", hostname: address, port };
}

function clientOf({ hostname, port }: Deno.NetAddr): string {
  return `${hostname} ${port}`;
}

function isSame(one: Deno.NetAddr, other: Deno.NetAddr): boolean {
  return one.port === other.port && one.hostname === other.hostname;
}

/** The largest payload of a UDP datagram fits. */
const SLOT_BYTES = 65_536;
/** Slots that are allocated at once: 64 MB, which malloc maps without touching them. */
const SLOTS = 1024;

/** A pool of buffers. */
interface DatagramBuffers {
  take(): Uint8Array<ArrayBuffer>;
  /** Takes back a buffer that no pending call uses. */
  release(buffer: Uint8Array<ArrayBuffer>): void;
}

/**
 * Creates a pool of buffers of 64 kB each. A datagram of 100 bytes touches one page of 4 kB, so 10,000 buffers take some
 * 40 MB; allocated one by one they would take 640.
 */
function createDatagramBuffers(): DatagramBuffers {
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
    release: (buffer) => void free.push(buffer),
  };
}

/**
 * The kinds of flows, in order of eviction: `answered` has carried one datagram in each direction, so it is probably over;
 * `stream` is long-lived (as in the kernel's connection tracking); `question` is any other.
 */
type FlowKind = "answered" | "question" | "stream";

/** Inputs of `createIdleFlows`. */
interface IdleFlowsOptions<Flow> {
  readonly clock: Clock;
  /** The time after which an idle flow of each kind ends. */
  readonly idleMs: Readonly<Record<FlowKind, number>>;
  /** Called for a flow that was idle for too long; must remove the flow. */
  readonly onIdle: (flow: Flow) => void;
}

/** Flows ordered by last use, with a resolution of half a second. */
interface IdleFlows<Flow> {
  /** Adds a flow as a question. */
  add(flow: Flow): void;
  touch(flow: Flow): void;
  /** Changes the kind of a flow that was just used. */
  become(flow: Flow, kind: FlowKind): void;
  remove(flow: Flow): void;
  size(): number;
  /** The flow to evict: of the first kind, the one used longest ago. */
  oldest(): Flow | undefined;
}

/** Datagrams within this time do not change the order, so that a busy flow costs nothing here. */
const RESOLUTION_MS = 500;
const SWEEP_MS = 1000;
const KINDS: readonly FlowKind[] = ["answered", "question", "stream"];

/** Creates an empty table. A timer runs while it is not empty. */
function createIdleFlows<Flow>(options: IdleFlowsOptions<Flow>): IdleFlows<Flow> {
  const { clock, idleMs, onIdle } = options;
  const kinds = new Map<Flow, FlowKind>();
  /** The times of the last use, in their order. */
  const used: Readonly<Record<FlowKind, Map<Flow, number>>> = {
    answered: new Map(),
    question: new Map(),
    stream: new Map(),
  };
  let cancelSweep: (() => void) | undefined;

  const place = (flow: Flow, kind: FlowKind) => {
    used[kinds.get(flow) ?? kind].delete(flow);
    kinds.set(flow, kind);
    used[kind].set(flow, clock.monotonic());
  };
  const end = (kind: FlowKind) => {
    const latestMs = clock.monotonic() - idleMs[kind];
    for (const [flow, usedMs] of used[kind]) {
      if (usedMs > latestMs) return;
      onIdle(flow);
    }
  };
  const sweep = () => {
    KINDS.forEach(end);
    cancelSweep = undefined;
    keepSweeping();
  };
  const keepSweeping = () => {
    if (kinds.size > 0) cancelSweep ??= clock.schedule(SWEEP_MS, sweep);
    else {
      cancelSweep?.();
      cancelSweep = undefined;
    }
  };

  return {
    add(flow) {
      place(flow, "question");
      keepSweeping();
    },
    touch(flow) {
      const kind = kinds.get(flow);
      if (kind === undefined) return;
      if (clock.monotonic() - used[kind].get(flow)! >= RESOLUTION_MS) place(flow, kind);
    },
    become(flow, kind) {
      if (kinds.has(flow) && kinds.get(flow) !== kind) place(flow, kind);
    },
    remove(flow) {
      const kind = kinds.get(flow);
      if (kind !== undefined) used[kind].delete(flow);
      kinds.delete(flow);
      keepSweeping();
    },
    size: () => kinds.size,
    oldest() {
      for (const kind of KINDS) for (const flow of used[kind].keys()) return flow;
      return undefined;
    },
  };
}
