/** TCP connections: from a client to an endpoint and back. */
import type { RelayOptions } from "./contract.ts";
import type { Chooser, Target } from "./target.ts";
import type { Counters, RelayTraffic } from "./counts.ts";
import type { FileWatch } from "./file_watch.ts";
import type { RelayNetwork } from "./network.ts";
import type { Socket } from "node:net";

/** The parts of a relay that its connections and flows share. */
export interface RelayParts extends Pick<RelayOptions, "family" | "limits" | "clock" | "logger"> {
  readonly network: RelayNetwork;
  readonly chooser: Chooser;
  readonly counters: Counters;
  readonly traffic: Pick<RelayTraffic, "begin">;
  readonly files: Pick<FileWatch, "note" | "touch">;
}

/** The open connections. */
interface Connections {
  /** Carries a client's connection to an endpoint of the target; resets it if no endpoint accepts it. */
  accept(client: Socket, target: Target): void;
  /** Resolves when no connection is open. */
  drained(): Promise<void>;
  resetAll(): void;
}

/** One connection: the client's socket and the socket to its endpoint. */
interface Connection {
  readonly client: Socket;
  server: Socket | undefined;
  cancelDial: () => void;
  /** Sockets that are not closed yet. */
  sockets: number;
}

/** Creates an empty set of connections. */
export function createConnections(parts: RelayParts): Connections {
  const { chooser, limits, counters, traffic, logger, files } = parts;
  const open = new Set<Connection>();
  let onDrained = () => {};

  const watch = (connection: Connection, socket: Socket) => {
    connection.sockets++;
    socket.once("error", () => reset(connection));
    socket.once("close", () => {
      if (--connection.sockets > 0) return;
      open.delete(connection);
      counters.connectionsOpen = open.size;
      if (open.size === 0) onDrained();
    });
  };
  const refuse = (client: Socket) => {
    counters.connectionsRefused++;
    logger.warn("connection refused: too many are open", { limit: limits.connections });
    client.on("error", () => {});
    client.resetAndDestroy();
  };
  const join = (connection: Connection, { socket: server, endpoint }: Dialed, { key }: Target) => {
    const countBytes = traffic.begin(key, endpoint);
    connection.server = server;
    watch(connection, server);
    pump(connection.client, server, (bytes) => {
      counters.bytesToEndpoints += bytes;
      countBytes?.(bytes);
    });
    pump(server, connection.client, (bytes) => {
      counters.bytesToClients += bytes;
      countBytes?.(bytes);
    });
  };

  return {
    accept(client, target) {
      if (open.size >= limits.connections) return refuse(client);
      const connection: Connection = { client, server: undefined, cancelDial: () => {}, sockets: 0 };
      open.add(connection);
      counters.connectionsAccepted++;
      counters.connectionsOpen = open.size;
      watch(connection, client);
      files.touch();
      const address = client.remoteAddress ?? "";
      connection.cancelDial = dial(chooser.candidates(target, address), parts, (dialed) => {
        if (dialed !== undefined) {
          chooser.chosen(target, address, dialed.endpoint);
          return join(connection, dialed, target);
        }
        counters.connectionsFailed++;
        logger.debug("no endpoint accepts the connection", { servicePort: target.servicePort.name });
        reset(connection);
      });
    },
    drained() {
      if (open.size === 0) return Promise.resolve();
      return new Promise((resolve) => onDrained = resolve);
    },
    resetAll: () => open.forEach(reset),
  };
}

/** Ends both sides with a reset, so that neither takes a partial transfer for a complete one. */
function reset({ client, server, cancelDial }: Connection): void {
  cancelDial();
  client.resetAndDestroy();
  server?.resetAndDestroy();
}

/** Copies one direction, with backpressure: it buffers one read. An end closes only this direction. */
function pump(from: Socket, to: Socket, count: (bytes: number) => void): void {
  from.on("data", (chunk: Uint8Array) => {
    count(chunk.length);
    if (!to.write(chunk)) from.pause();
  });
  to.on("drain", () => from.resume());
  from.on("end", () => to.end());
  from.resume();
}

/** A connection to an endpoint. */
export interface Dialed {
  readonly socket: Socket;
  readonly endpoint: string;
}

/** The time an endpoint has to accept a connection before the next one is tried as well. */
const HEAD_START_MS = 250;
/** The time after which a connection fails if no endpoint has accepted it. */
const CONNECT_MS = 10_000;
/** Attempts of one connection that run at the same time; a further one replaces the oldest. */
const MAX_ATTEMPTS = 4;

/**
 * Connects to the first of `candidates`. Each has a head start before the next is tried as well; if it fails, the next is
 * tried at once. The first that accepts wins, the others are closed. `onSettled` is called once: with the connection, or
 * with undefined when all endpoints have failed or on timeout. Returns a function that cancels all attempts without a call
 * of it.
 */
export function dial(
  candidates: Iterator<string, void, void>,
  { network, clock, counters, chooser, files }: Omit<RelayParts, "family" | "limits" | "logger" | "traffic">,
  onSettled: (dialed: Dialed | undefined) => void,
): () => void {
  const attempts = new Set<Socket>();
  let cancelHeadStart = () => {};
  const drop = (socket: Socket) => {
    attempts.delete(socket);
    socket.destroy();
  };
  const cancel = () => {
    cancelHeadStart();
    cancelTimeout();
    attempts.forEach(drop);
  };
  const giveUp = () => {
    cancel();
    onSettled(undefined);
  };
  const attempt = (endpoint: string) => {
    const socket = network.connectTcp(endpoint);
    attempts.add(socket);
    socket.once("connect", () => {
      if (!attempts.delete(socket)) return;
      cancel();
      onSettled({ socket, endpoint });
    });
    // Stays for the lifetime of the socket: errors after the last attempt are ignored.
    socket.on("error", (error) => {
      if (!attempts.delete(socket)) return;
      files.note(error);
      chooser.late(endpoint);
      tryNext();
    });
  };
  const tryNext = () => {
    cancelHeadStart();
    const next = candidates.next();
    if (next.done) {
      if (attempts.size === 0) giveUp();
      return;
    }
    counters.failovers++;
    if (attempts.size === MAX_ATTEMPTS) drop(attempts.values().next().value!);
    start(next.value);
  };
  const start = (endpoint: string) => {
    attempt(endpoint);
    cancelHeadStart = clock.schedule(HEAD_START_MS, () => {
      chooser.late(endpoint);
      tryNext();
    });
  };
  const cancelTimeout = clock.schedule(CONNECT_MS, giveUp);
  const first = candidates.next();
  if (first.done) giveUp();
  else start(first.value);
  return cancel;
}
