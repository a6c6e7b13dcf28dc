/**
 * Runs in a network namespace of the lab, where it answers connections and opens them on request.
 *
 *     agent.ts [NAME ADDRESS PORT]…
 *
 * Each triple starts a TCP and a UDP server that answers with its name and the client's address, and closes. Each line of
 * standard input is an Attempt in JSON; its Outcome is printed as a line of JSON. Exits at the end of standard input.
 */
import { type Clock, systemClock } from "../platform/clock.ts";

/** A connection to open. */
export interface Attempt {
  readonly protocol: "tcp" | "udp";
  readonly address: string;
  readonly port: number;
  readonly timeoutMs: number;
}

/** The result of an attempt. */
export type Outcome =
  | { readonly kind: "answered"; readonly by: string; readonly sourceSeen: string }
  | { readonly kind: "refused" }
  | { readonly kind: "silence" }
  | { readonly kind: "failed"; readonly reason: string };

const encoder = new TextEncoder(), decoder = new TextDecoder();

async function serveTcp(name: string, hostname: string, port: number): Promise<void> {
  for await (const connection of Deno.listen({ hostname, port })) {
    answer(connection, name).catch(() => {});
  }
}

async function answer(connection: Deno.TcpConn, name: string): Promise<void> {
  using open = connection;
  await open.write(encoder.encode(`${name} ${open.remoteAddr.hostname}`));
}

async function serveUdp(name: string, hostname: string, port: number): Promise<void> {
  const socket = Deno.listenDatagram({ transport: "udp", hostname, port });
  for await (const [, from] of socket) {
    await socket.send(encoder.encode(`${name} ${(from as Deno.NetAddr).hostname}`), from);
  }
}

async function requestTcp({ address, port }: Attempt): Promise<string> {
  using connection = await Deno.connect({ hostname: address, port });
  const buffer = new Uint8Array(256);
  const length = await connection.read(buffer);
  return decoder.decode(buffer.subarray(0, length ?? 0));
}

async function requestUdp({ address, port }: Attempt): Promise<string> {
  const any = address.includes(":") ? "::" : "0.0.0.0";
  const socket = Deno.listenDatagram({ transport: "udp", hostname: any, port: 0 });
  try {
    await socket.send(encoder.encode("?"), { transport: "udp", hostname: address, port });
    const [bytes] = await socket.receive();
    return decoder.decode(bytes);
  } finally {
    socket.close();
  }
}

async function attempt(request: Attempt, clock: Clock): Promise<Outcome> {
  const timeout = Promise.withResolvers<undefined>();
  const cancel = clock.schedule(request.timeoutMs, () => timeout.resolve(undefined));
  try {
    const text = await Promise.race([
      request.protocol === "tcp" ? requestTcp(request) : requestUdp(request),
      timeout.promise,
    ]);
    if (text === undefined) return { kind: "silence" };
    const [by = "", sourceSeen = ""] = text.split(" ");
    return { kind: "answered", by, sourceSeen };
  } catch (error) {
    if (error instanceof Deno.errors.ConnectionRefused) return { kind: "refused" };
    return { kind: "failed", reason: String(error) };
  } finally {
    cancel();
  }
}

if (import.meta.main) {
  for (let i = 0; i + 2 < Deno.args.length; i += 3) {
    const [name, address, port] = Deno.args.slice(i, i + 3) as [string, string, string];
    serveTcp(name, address, Number(port));
    serveUdp(name, address, Number(port));
  }
  console.log(JSON.stringify("ready"));
  const input = Deno.stdin.readable.pipeThrough(new TextDecoderStream()).values();
  let rest = "";
  for await (const chunk of input) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      attempt(JSON.parse(line), systemClock).then((outcome) => console.log(JSON.stringify(outcome)));
    }
  }
  Deno.exit(0);
}
