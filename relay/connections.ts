/** TCP connections: from a client to an endpoint and back. */
import type { Socket } from "node:net";
import type { Clock, Logger } from "../platform/mod.ts";
import type { RelayLimits } from "./contract.ts";
import { dial, type Dialed } from "./dial.ts";
import type { Counters } from "./figures.ts";
import type { FileWatch } from "./file_watch.ts";
import type { RelayNetwork } from "./network.ts";
import type { Chooser, Target } from "./target.ts";
import type { RelayTraffic } from "./traffic.ts";

/** Inputs of `createConnections`. */
export interface ConnectionsOptions {
  readonly network: RelayNetwork;
  readonly chooser: Chooser;
  readonly limits: RelayLimits;
  readonly counters: Counters;
  readonly traffic: Pick<RelayTraffic, "begin">;
  readonly clock: Clock;
  /** Limits repetitions. */
  readonly logger: Logger;
  readonly files: Pick<FileWatch, "note" | "touch">;
}

/** The open connections. */
export interface Connections {
  /** Carries a client's connection to an endpoint of the target; resets it if no endpoint accepts it. */
  accept(client: Socket, target: Target): void;
  /** Resolves when no connection is open. */
  drained(): Promise<void>;
  /** Resets all connections. */
  resetAll(): void;
}

/** One connection: the client's socket, and what was connected to it. */
interface Connection {
  readonly client: Socket;
  server: Socket | undefined;
  cancelDial: () => void;
  /** Sockets that are not closed yet. */
  sockets: number;
}

/** Creates an empty set of connections. */
export function createConnections(options: ConnectionsOptions): Connections {
  const { network, chooser, limits, counters, traffic, clock, logger, files } = options;
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
      connection.cancelDial = dial(chooser.candidates(target, address), {
        network,
        clock,
        limits,
        onFailover: () => counters.failovers++,
        onError: files.note,
        onSettled(dialed) {
          if (dialed !== undefined) {
            chooser.chosen(target, address, dialed.endpoint);
            return join(connection, dialed, target);
          }
          counters.connectionsFailed++;
          logger.debug("no endpoint accepts the connection", { servicePort: target.servicePort.name });
          reset(connection);
        },
      });
    },
    drained() {
      if (open.size === 0) return Promise.resolve();
      return new Promise((resolve) => onDrained = resolve);
    },
    resetAll() {
      open.forEach(reset);
    },
  };
}

/** Ends both sides with a reset, so that neither takes what it received for everything. */
function reset({ client, server, cancelDial }: Connection): void {
  cancelDial();
  client.resetAndDestroy();
  server?.resetAndDestroy();
}

/**
 * Copies one direction. A receiver that does not keep up stops the sender: each direction holds one read and what the
 * receiver's kernel has not taken. The end is passed on alone; the other direction stays open.
 */
function pump(from: Socket, to: Socket, count: (bytes: number) => void): void {
  from.on("data", (chunk: Uint8Array) => {
    count(chunk.length);
    if (!to.write(chunk)) from.pause();
  });
  to.on("drain", () => from.resume());
  from.on("end", () => to.end());
  from.resume();
}
