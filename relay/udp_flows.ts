/** UDP: one flow for each client address and port at a listener, with a socket of its own towards the endpoint. */
import { type Clock, type Family, type Logger, sleep, splitHostPort } from "../platform/mod.ts";
import type { RelayLimits } from "./contract.ts";
import { createDatagramBuffers } from "./datagram_buffers.ts";
import type { Counters } from "./figures.ts";
import type { FileWatch } from "./file_watch.ts";
import { createIdleFlows } from "./idle_flows.ts";
import type { DatagramSocket, RelayNetwork } from "./network.ts";
import { type Chooser, endpointsOf, type Target } from "./target.ts";
import type { CountBytes, RelayTraffic } from "./traffic.ts";

/** Inputs of `createUdpFlows`. */
export interface UdpFlowsOptions {
  readonly family: Family;
  readonly network: RelayNetwork;
  readonly chooser: Chooser;
  readonly limits: RelayLimits;
  readonly counters: Counters;
  readonly traffic: Pick<RelayTraffic, "begin">;
  readonly clock: Clock;
  /** Limits repetitions. */
  readonly logger: Logger;
  readonly files: Pick<FileWatch, "note">;
}

/** The UDP listeners and their flows. */
export interface UdpFlows {
  /** Listens for datagrams for the target. Throws the system's error. */
  listen(address: string, port: number, target: Target): { readonly port: number; close(): void };
  closeAll(): void;
}

/** A listener and its flows by client. */
interface Door {
  readonly socket: DatagramSocket;
  readonly target: Target;
  readonly flows: Map<string, Flow>;
  /** Whether endpoints answer at all; those of one-way protocols do not. */
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
  /** The state of the service port for which the endpoint was chosen or checked. */
  checked: Target["servicePort"];
  isClosed: boolean;
}

/** The time after which a client that repeats itself without an answer gets another endpoint. */
const SILENCE_MS = 1000;
/** The time after which an answered flow is a stream (as in the kernel's connection tracking). */
const STREAM_MS = 2000;
/** The wait after a listener's socket has failed. */
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
    idleMs: limits.udpIdleMs,
    streamIdleMs: limits.udpStreamIdleMs,
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
    if (flow.checked !== door.target.servicePort) {
      if (!mayStay(flow)) return move(flow) ? flow : undefined;
      flow.checked = door.target.servicePort;
    }
    if (!flow.isAnswered && door.isAnswering && clock.monotonic() - flow.sinceMs >= SILENCE_MS) {
      counters.failovers++;
      move(flow);
    } else if (flow.isAnswered && clock.monotonic() - flow.startedMs >= STREAM_MS) idle.promote(flow);
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

/** Whether a flow may keep its endpoint: the list still has it, or lets it finish. */
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
