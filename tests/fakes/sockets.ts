import { connect, createServer, type Server, type Socket } from "node:net";
import { seededBelow } from "./random.ts";
import { joinHostPort, splitHostPort } from "../../platform/mod.ts";

/** A TCP server of a test. */
export interface TestServer extends AsyncDisposable {
  /** Its `address:port`. */
  readonly endpoint: string;
  /** The next connection that no call has returned yet. */
  accepted(): Promise<Socket>;
  /** Connections so far. */
  count(): number;
}

/** Starts a TCP server on a free port; `onConnection` serves each connection. */
export async function startServer(
  onConnection: (socket: Socket) => void = () => {},
  address = "127.0.0.1",
): Promise<TestServer> {
  const sockets: Socket[] = [];
  const waiting: ((socket: Socket) => void)[] = [];
  let returned = 0;
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => {});
    sockets.push(socket);
    onConnection(socket);
    if (waiting.length > 0) waiting.shift()!(sockets[returned++]!);
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, address, resolve));
  return {
    endpoint: joinHostPort(address, (server.address() as { readonly port: number }).port),
    accepted: () =>
      returned < sockets.length
        ? Promise.resolve(sockets[returned++]!)
        : new Promise((resolve) => waiting.push(resolve)),
    count: () => sockets.length,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** An endpoint that answers with its name to each connection, then closes it. */
export function startNamed(name: string, address = "127.0.0.1"): Promise<TestServer> {
  return startServer((socket) => void socket.resume().end(name), address);
}

/** Connects to an endpoint; errors are left to the test. */
export function open(endpoint: string): Socket {
  const { address, port } = splitHostPort(endpoint);
  const socket = connect({ host: address, port, allowHalfOpen: true });
  socket.on("error", () => {});
  return socket;
}

/** Resolves with the first argument of the next event; rejects on an error unless that is the event. */
export function event<T = unknown>(socket: Socket, name: string): Promise<T> {
  return new Promise((resolve, reject) => {
    socket.once(name, resolve);
    if (name !== "error") socket.once("error", reject);
  });
}

/** Everything that a socket receives until its end; rejects if it is reset. */
export async function received(socket: Socket): Promise<string> {
  let text = "";
  socket.on("data", (chunk: Uint8Array) => text += new TextDecoder().decode(chunk));
  await event(socket, "end");
  return text;
}

/** An `address:port` where nothing listens. */
export function closedEndpoint(): string {
  return `127.0.0.1:${reservePort()}`;
}

/** Connects to an endpoint, and returns everything that it sends until it ends its side; then ends this side as well. */
export async function answerOf(endpoint: string): Promise<string> {
  const client = open(endpoint);
  const text = await received(client);
  client.end();
  return text;
}

/** As many have a listener above them. */
const RESERVABLE_PORTS = 11_000;

/** The listeners of the reserved ports, for as long as the isolate lasts. */
const reservations: Deno.Listener[] = [];

const random = seededBelow(Deno.pid);

/**
 * Reserves a TCP port of an address, for a server that needs its number before it starts, or starts again. The kernel gives none below 32768 to
 * those that leave the choice to it, and a listener on another port keeps it from other tests.
 */
export function reservePort(hostname = "127.0.0.1"): number {
  for (;;) {
    const port = 10_000 + random(RESERVABLE_PORTS);
    try {
      reservations.push(Deno.listen({ hostname: "127.0.0.1", port: port + RESERVABLE_PORTS }));
      Deno.listen({ hostname, port }).close();
      return port;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
  }
}

/** Whether a request over TLS to a server on loopback gets any answer. */
export async function isAnsweredTo(client: Deno.HttpClient, port: number): Promise<boolean> {
  try {
    await (await fetch(`https://127.0.0.1:${port}/`, { client })).body?.cancel();
    return true;
  } catch {
    return false;
  }
}
