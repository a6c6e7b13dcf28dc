/**
 * Opens connections to agnhost's netexec where it is started, one after the other for each target, until its standard input ends.
 * Prints a line once all targets have answered, and the Tally of each target as JSON at the end.
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
  /** Whether all requests go over one connection, or from one UDP socket. */
  readonly isLong: boolean;
}

/** The results of all connections, or of all requests over one. A TCP connection ends with its first failure. */
export interface Tally {
  readonly attempts: number;
  readonly failures: number;
  /** The first failures. */
  readonly examples: readonly string[];
  readonly slowestMs: number;
  /** The longest time without an answer: from the start of the first of consecutive failures to the end of the last. */
  readonly outageMs: number;
}

const REST_MS = 40;
const LONG_REST_MS = 200;
const TIMEOUT_MS = 5000;
const MOST_EXAMPLES = 2;
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

/** A UDP socket that sends a request at a time. */
function openSocket({ address, port }: Target): { readonly request: Request; [Symbol.dispose](): void } {
  const hostname = address.includes(":") ? "::" : "0.0.0.0";
  const socket = Deno.listenDatagram({ transport: "udp", hostname, port: 0 });
  let answered: (bytes: number) => void;
  const receive = async () => {
    for await (const [bytes] of socket) answered(bytes.length);
  };
  void receive();
  return {
    async request() {
      const answer = Promise.withResolvers<number>();
      answered = answer.resolve;
      await socket.send(encoder.encode("hostname"), { transport: "udp", hostname: address, port });
      return await inTime(answer.promise);
    },
    [Symbol.dispose]: () => socket.close(),
  };
}

async function udpRequest(target: Target): Promise<number | null> {
  using socket = openSocket(target);
  return await socket.request();
}

async function requestOf(target: Target): Promise<Request> {
  if (target.protocol === "udp") return target.isLong ? openSocket(target).request : () => udpRequest(target);
  if (!target.isLong) return () => tcpRequest(target);
  const connection = await Deno.connect({ hostname: target.address, port: target.port });
  return () => ask(connection);
}

async function inTime<T>(work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const cancel = systemClock.schedule(TIMEOUT_MS, () => late.reject(new Error(`no answer within ${TIMEOUT_MS} ms`)));
  return await Promise.race([work, late.promise]).finally(cancel);
}

/** Why a request failed; undefined if it was answered. */
async function failureOf(request: Request): Promise<string | undefined> {
  return await inTime(request()).then((bytes) => bytes ? undefined : "closed without an answer", String);
}

/** Resolves with the request of a target once it has been answered. */
async function served(target: Target): Promise<Request> {
  while (true) {
    const request = await inTime(requestOf(target)).catch(() => undefined);
    if (request !== undefined && await failureOf(request) === undefined) return request;
    await sleep(systemClock, REST_MS);
  }
}

async function probe({ isLong, protocol }: Target, request: Request, isOver: () => boolean): Promise<Tally> {
  let attempts = 0, failures = 0, slowestMs = 0, outageMs = 0;
  let failingSinceMs: number | undefined;
  const examples: string[] = [];
  while (!isOver()) {
    const startedMs = systemClock.monotonic();
    const failure = await failureOf(request), endedMs = systemClock.monotonic();
    attempts++;
    slowestMs = Math.max(slowestMs, Math.round(endedMs - startedMs));
    if (failure === undefined) failingSinceMs = undefined;
    else {
      failures++;
      failingSinceMs ??= startedMs;
      outageMs = Math.max(outageMs, Math.round(endedMs - failingSinceMs));
      if (examples.length < MOST_EXAMPLES) examples.push(`${new Date(systemClock.now()).toISOString()} ${failure}`);
      if (isLong && protocol === "tcp") break;
    }
    await sleep(systemClock, isLong ? LONG_REST_MS : REST_MS);
  }
  return { attempts, failures, examples, slowestMs, outageMs };
}

if (import.meta.main) {
  const targets = JSON.parse(Deno.args[0]!) as readonly Target[];
  const requests = await Promise.all(targets.map(served));
  console.log("all targets have answered");
  let over = false;
  const tallies = Promise.all(targets.map(async (target, index) => {
    return [target.name, await probe(target, requests[index]!, () => over)] as const;
  }));
  for await (const _ of Deno.stdin.readable) { /* The end of standard input ends the traffic. */ }
  over = true;
  console.log(JSON.stringify(Object.fromEntries(await tallies)));
  Deno.exit(0);
}
