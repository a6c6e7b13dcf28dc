/** The sockets of the system, behind an interface that tests replace. */
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { splitHostPort } from "../platform/mod.ts";

/** An open listener. */
export interface Listener {
  readonly port: number;
  /** Accepts no further connection; accepted ones stay. UDP flows end. */
  close(): void;
}

/** The system calls of the relay. */
export interface RelayNetwork {
  /** Listens at an address; port 0 picks a free one. Rejects with the system's error. Connections arrive paused. */
  listenTcp(address: string, port: number, onConnection: (client: Socket) => void): Promise<Listener>;
  /** Starts to connect to an endpoint (`address:port`); the socket emits `connect` or `error`. */
  connectTcp(endpoint: string): Socket;
  /** Binds a UDP socket; port 0 picks a free one. Throws the system's error. */
  bindUdp(address: string, port: number): Deno.DatagramConn;
}

/** The queue of connections that the kernel has accepted, up to net.core.somaxconn. */
const BACKLOG = 4096;
/** Detects peers that disappeared without closing, within some minutes. */
const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelay: 60_000 } as const;

/**
 * The sockets of this process. TCP uses `node:net`: unlike `Deno.Conn` it can reset a connection, so that a client does not
 * take a failed transfer for a complete one. UDP uses `Deno.listenDatagram`: a socket of `node:dgram` holds 64 kB.
 */
export const systemNetwork: RelayNetwork = {
  listenTcp(address, port, onConnection) {
    const server = createServer(
      { allowHalfOpen: true, pauseOnConnect: true, noDelay: true, ...KEEP_ALIVE },
      (client) => isOfOtherFamily(client.remoteAddress) ? client.resetAndDestroy() : onConnection(client),
    );
    return new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen({ host: address, port, backlog: BACKLOG }, () => {
        server.off("error", reject);
        // A failed accept is not reported, see file_watch.ts.
        server.on("error", () => {});
        resolve({ port: (server.address() as AddressInfo).port, close: () => server.close() });
      });
    });
  },
  connectTcp(endpoint) {
    const { address, port } = splitHostPort(endpoint);
    return connect({ host: address, port, allowHalfOpen: true, noDelay: true, ...KEEP_ALIVE });
  },
  bindUdp: (hostname, port) => Deno.listenDatagram({ transport: "udp", hostname, port }),
};

/**
 * Whether a peer is an IPv4 client of an IPv6 socket. Deno cannot limit a socket to IPv6, and the rules of IPv4 do not protect
 * the ports of IPv6.
 */
export function isOfOtherFamily(address: string | undefined): boolean {
  return address?.startsWith("::ffff:") ?? false;
}
