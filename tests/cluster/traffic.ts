/**
 * Opens connections to agnhost's netexec where it is started, one after the other for each target, until its standard input ends;
 * then prints the Tally of each target as JSON.
 *
 *     traffic.ts JSON     # an array of Target
 */
import { sleep, systemClock } from "../../platform/clock.ts";

/** The destination of connections. */
export interface Target {
  readonly name: string;
  readonly protocol: "tcp" | "udp";
  readonly address: string;
  readonly port: number;
  /** Whether all requests go over one connection, which has to last. */
  readonly isLong: boolean;
}

/** The results of all connections, or of all requests over one. */
export interface Tally {
  readonly attempts: number;
  readonly failures: number;
  /** The first failures. */
  readonly examples: readonly string[];
  readonly slowestMs: number;
}

const REST_MS = 40;
const TIMEOUT_MS = 5000;
const MOST_EXAMPLES = 5;
const encoder = new TextEncoder();

/** A request; resolves with the number of bytes of the answer. */
type Request = () => Promise<number | null>;

async function tcpRequest({ address, port }: Target): Promise<number | null> {
  using connection = await Deno.connect({ hostname: address, port });
  return await ask(connection);
}

async function ask(connection: Deno.TcpConn): Promise<number | null> {
  await connection.write(encoder.encode("GET /hostname HTTP/1.1\r\nHost: netexec\r\n\r\n"));
  return await connection.read(new Uint8Array(1024));
}

async function udpRequest({ address, port }: Target): Promise<number> {
  const hostname = address.includes(":") ? "::" : "0.0.0.0";
  const socket = Deno.listenDatagram({ transport: "udp", hostname, port: 0 });
  try {
    await socket.send(encoder.encode("hostname"), { transport: "udp", hostname: address, port });
    const late = systemClock.schedule(TIMEOUT_MS, () => socket.close());
    const [bytes] = await socket.receive();
    late();
    socket.close();
    return bytes.length;
  } catch (error) {
    throw new Error("no answer", { cause: error });
  }
}

async function requestOf(target: Target): Promise<Request> {
  if (target.protocol === "udp") return () => udpRequest(target);
  if (!target.isLong) return () => tcpRequest(target);
  const connection = await Deno.connect({ hostname: target.address, port: target.port });
  return () => ask(connection);
}

async function inTime<T>(work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const cancel = systemClock.schedule(TIMEOUT_MS, () => late.reject(new Error(`no answer within ${TIMEOUT_MS} ms`)));
  return await Promise.race([work, late.promise]).finally(cancel);
}

async function probe(target: Target, isOver: () => boolean): Promise<Tally> {
  let attempts = 0, failures = 0, slowestMs = 0;
  const examples: string[] = [];
  const request = await requestOf(target);
  while (!isOver()) {
    const startedMs = systemClock.monotonic();
    const failure = await inTime(request()).then(
      (bytes) => bytes ? undefined : "closed without an answer",
      (error) => String(error),
    );
    attempts++;
    slowestMs = Math.max(slowestMs, Math.round(systemClock.monotonic() - startedMs));
    if (failure !== undefined) {
      failures++;
      if (examples.length < MOST_EXAMPLES) examples.push(`${new Date(systemClock.now()).toISOString()} ${failure}`);
      if (target.isLong) break;
    }
    await sleep(systemClock, REST_MS);
  }
  return { attempts, failures, examples, slowestMs };
}

if (import.meta.main) {
  const targets = JSON.parse(Deno.args[0]!) as readonly Target[];
  let over = false;
  const tallies = Promise.all(targets.map(async (target) => [target.name, await probe(target, () => over)] as const));
  for await (const _ of Deno.stdin.readable) { /* The end of standard input ends the traffic. */ }
  over = true;
  console.log(JSON.stringify(Object.fromEntries(await tallies)));
  Deno.exit(0);
}
