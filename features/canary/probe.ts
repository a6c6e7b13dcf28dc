import {
  canonicalAddress,
  type Clock,
  errorText,
  joinHostPort,
  readUpTo,
  splitHostPort,
  unlessAborted,
} from "../../platform/mod.ts";

/** The endpoint of a canary. */
export interface Responder {
  /** Where it listens, as `address:port`. */
  readonly target: string;
  /** Its answer to every connection: random, so that no other program gives the same one. */
  readonly nonce: string;
  close(): void;
}

/** The sockets that a canary uses. */
export interface CanaryNetwork {
  /** Listens at an address, on any port. */
  listen(address: string): Deno.TcpListener;
  /** Opens a TCP connection; rejects with the signal's reason. */
  connect(
    options: { readonly hostname: string; readonly port: number; readonly signal: AbortSignal },
  ): Promise<Pick<Deno.TcpConn, "read" | "close">>;
}

/**
 * Starts a responder that answers only clients that `isOwn` admits, since other hosts can reach its port. Throws if it cannot
 * listen.
 */
export function startResponder(
  address: string,
  isOwn: (client: string) => boolean,
  listen: CanaryNetwork["listen"] = (hostname) => Deno.listen({ hostname, port: 0 }),
): Responder {
  const listener = listen(address);
  const nonce = crypto.randomUUID();
  answerAll(listener, new TextEncoder().encode(nonce), isOwn);
  return { target: joinHostPort(address, listener.addr.port), nonce, close: () => listener.close() };
}

async function answerAll(
  listener: Deno.TcpListener,
  answer: Uint8Array,
  isOwn: (client: string) => boolean,
): Promise<void> {
  for (;;) {
    let connection: Deno.TcpConn;
    try {
      connection = await listener.accept();
    } catch (error) {
      if (error instanceof Deno.errors.BadResource || error instanceof Deno.errors.Interrupted) return;
      // A client that is gone already, or a lack of descriptors: the next try fails and says so.
      continue;
    }
    const { hostname } = connection.remoteAddr;
    // The answer fits into the socket's buffer.
    if (isOwn(canonicalAddress(hostname) ?? hostname)) await connection.write(answer).catch(() => 0);
    connection.close();
  }
}

/** The outcome of one try. */
export type TryOutcome =
  | { readonly kind: "answered"; readonly durationMs: number }
  | { readonly kind: "no-route" | "foreign-answer" | "failed"; readonly message: string };

/**
 * Connects to an `address:port` and compares the answer with the right one. Never rejects.
 * @param timeoutMs the time in which this process could run and did not get an answer
 */
export async function tryCanary(
  address: string,
  nonce: string,
  timeoutMs: number,
  clock: Clock,
  connect: CanaryNetwork["connect"] = Deno.connect,
): Promise<TryOutcome> {
  const deadline = new AbortController();
  const late = new Error(`no answer within ${timeoutMs / 1000} s`);
  const cancel = scheduleInSteps(clock, timeoutMs, () => deadline.abort(late));
  const startedMs = clock.monotonic();
  try {
    const { address: hostname, port } = splitHostPort(address);
    const connection = await connect({ hostname, port, signal: deadline.signal });
    let answer: string;
    try {
      answer = new TextDecoder().decode(await unlessAborted(readUpTo(connection, nonce.length + 1), deadline.signal));
    } finally {
      connection.close();
    }
    if (answer === nonce) return { kind: "answered", durationMs: clock.monotonic() - startedMs };
    return { kind: "foreign-answer", message: "another program answers" };
  } catch (error) {
    const message = deadline.signal.aborted ? late.message : errorText(error);
    return { kind: isWithoutRoute(error) ? "no-route" : "failed", message };
  } finally {
    cancel();
  }
}

const STEPS = 10;

/**
 * Calls `run` after a delay that leaves out the time in which this process could not run, as on a busy node or with too
 * small a limit of its CPU: the responder belongs to the same process, so its silence then says nothing about packets.
 */
function scheduleInSteps(clock: Clock, delayMs: number, run: () => void): () => void {
  let cancel = () => {};
  const step = (left: number) => {
    // A late timer counts as one step, however late it is.
    cancel = clock.schedule(delayMs / STEPS, () => left > 1 ? step(left - 1) : run());
  };
  step(STEPS);
  return () => cancel();
}

/**
 * The errors of the kernel's route lookup: no route, a route of type `blackhole` or `prohibit`, no address to send from.
 * EHOSTUNREACH is not among them, which a route of type `unreachable` causes, but also a firewall that rejects.
 */
const WITHOUT_ROUTE = ["ENETUNREACH", "EINVAL", "EACCES", "EADDRNOTAVAIL"];

function isWithoutRoute(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" && WITHOUT_ROUTE.includes(code);
}
