import type { Http2SecureServer, Http2Server, ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Clock } from "../../platform/mod.ts";
import type { ClosedConnections, ClosureReason } from "./closed_connections.ts";
import { guardConnection } from "./connection.ts";
import type { Limits } from "./limits.ts";
import type { Tally } from "./tally.ts";

/** Options of `admitConnections`. */
export interface ConnectionsOptions {
  readonly server: Http2Server | Http2SecureServer;
  readonly isSecure: boolean;
  /** The organization that a client's certificate must name; any if undefined. */
  readonly clientOrganization?: string;
  readonly limits: Limits;
  readonly clock: Clock;
  readonly closed: ClosedConnections;
  /** Counts the connections of all isolates, which the limits apply to. */
  readonly tally: Tally;
}

/** The connections of a server. */
export interface Connections {
  /** Announces the end to all of them, and closes them when their calls have ended, or after `lingerMs`. */
  close(): void;
}

/** The connections of one address. */
interface Client {
  count: number;
  readonly idle: Set<Connection>;
}

/** An admitted connection. */
interface Connection {
  readonly socket: Socket;
  readonly client: Client;
  readonly cancelHandshake: () => void;
}

/**
 * Admits connections to a server within its limits, and guards each one. At a limit, the oldest connection without a stream is
 * closed for the new one, so that clients that call immediately are served regardless of the number of idle connections.
 */
export function admitConnections(options: ConnectionsOptions): Connections {
  const { server, isSecure, clientOrganization, limits, clock, closed, tally } = options;
  const sessions = new Set<ServerHttp2Session>();
  const clients = new Map<string, Client>();
  const idle = createIdleConnections(closed);
  // By the client's address and port with TLS, where the session's socket differs from the accepted one; else by
  // socket.
  const connections = new Map<Socket | string, Connection>();
  const keyOf = (socket: Socket) => isSecure ? `${socket.remoteAddress} ${socket.remotePort}` : socket;
  let arriving: Socket | undefined;

  const admit = (socket: Socket) => {
    // Outside of its session's lifetime, a socket has no other error listener.
    socket.on("error", () => {});
    const address = socket.remoteAddress ?? "";
    const client = clients.get(address) ?? { count: 0, idle: new Set() };
    if (tally.ofAddress(address) >= limits.connectionsPerAddress) {
      if (!idle.makeRoom(client.idle, "too many connections from one address", socket)) return;
    } else if (tally.total("connections") >= limits.connections) {
      if (!idle.makeRoom(idle.all, "too many connections", socket)) return;
    }
    const closeLate = () => {
      closed.count("no TLS handshake", address);
      socket.destroy();
    };
    const cancelHandshake = isSecure ? clock.schedule(limits.handshakeMs, closeLate) : () => {};
    const connection = { socket, client, cancelHandshake };
    const key = keyOf(socket);
    connections.set(key, connection);
    clients.set(address, client);
    client.count++;
    tally.add("connections", 1);
    tally.addAddress(address, 1);
    idle.set(connection, true);
    socket.once("close", () => {
      cancelHandshake();
      idle.set(connection, false);
      if (connections.get(key) === connection) connections.delete(key);
      if (--client.count === 0) clients.delete(address);
      tally.add("connections", -1);
      tally.addAddress(address, -1);
    });
  };

  // node:http2 creates the session in its own listener of the same event, and does not expose its socket.
  const onArrival = (socket: Socket) => {
    arriving = socket;
  };
  server.prependListener(isSecure ? "secureConnection" : "connection", onArrival);
  server.prependListener("connection", admit);
  server.on("session", (session: ServerHttp2Session) => {
    const socket = arriving!;
    const connection = connections.get(keyOf(socket));
    connection?.cancelHandshake();
    if (clientOrganization !== undefined && !isMember(socket as TLSSocket, clientOrganization)) {
      closed.count("certificate of another organization", socket.remoteAddress);
      session.destroy();
      return;
    }
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
    const onIdle = (isIdle: boolean) => {
      if (connection !== undefined && !connection.socket.destroyed) idle.set(connection, isIdle);
    };
    guardConnection({ session, socket, limits, clock, closed, onIdle });
  });
  server.on("unknownProtocol", (socket: Socket) => {
    closed.count("no HTTP/2 over TLS", socket.remoteAddress);
    socket.destroy();
  });

  return {
    close() {
      // Sends GOAWAY, and waits for the session's streams.
      for (const session of sessions) session.close();
      const cancel = clock.schedule(limits.lingerMs, () => {
        for (const session of sessions) session.destroy();
        for (const { socket } of connections.values()) socket.destroy();
      });
      server.once("close", cancel);
    },
  };
}

/** Whether the client's certificate, which the handshake has verified, names the organization. */
function isMember(socket: TLSSocket, organization: string): boolean {
  const { O } = socket.getPeerCertificate().subject ?? {};
  return (Array.isArray(O) ? O : [O]).includes(organization);
}

/** The connections without a stream, oldest first. */
function createIdleConnections(closed: ClosedConnections) {
  const all = new Set<Connection>();

  const set = (connection: Connection, isIdle: boolean) => {
    for (const group of [all, connection.client.idle]) {
      if (isIdle) group.add(connection);
      else group.delete(connection);
    }
  };

  /** Closes the oldest of these connections, or else the new one. Returns whether the new one may stay. */
  const makeRoom = (among: ReadonlySet<Connection>, reason: ClosureReason, newcomer: Socket): boolean => {
    const [oldest] = among;
    const victim = oldest?.socket ?? newcomer;
    closed.count(reason, victim.remoteAddress);
    victim.destroy();
    if (oldest === undefined) return false;
    set(oldest, false);
    return true;
  };

  return { all, set, makeRoom };
}
