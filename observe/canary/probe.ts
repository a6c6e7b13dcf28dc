import { type Clock, errorText, readUpTo, splitHostPort, unlessAborted } from "../../platform/mod.ts";

/** The outcome of one try. */
export type TryOutcome =
  | { readonly kind: "answered"; readonly durationMs: number }
  | { readonly kind: "no-route" | "foreign-answer" | "failed"; readonly message: string };

/** Opens a TCP connection; rejects with the signal's reason. Deno.connect by default. */
export type ConnectTo = (
  options: { readonly hostname: string; readonly port: number; readonly signal: AbortSignal },
) => Promise<Pick<Deno.TcpConn, "read" | "close">>;

/** Options of `tryCanary`. */
export interface TryOptions {
  /** The `address:port` to try. */
  readonly address: string;
  /** The right answer. */
  readonly nonce: string;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly connect?: ConnectTo;
}

/** Connects and compares the answer. Never rejects. */
export async function tryCanary(options: TryOptions): Promise<TryOutcome> {
  const { address, nonce, timeoutMs, clock, connect = Deno.connect } = options;
  const deadline = new AbortController();
  const late = new Error(`no answer within ${timeoutMs / 1000} s`);
  const cancel = clock.schedule(timeoutMs, () => deadline.abort(late));
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

/**
 * The errors of the kernel's route lookup: no route, a route of type `blackhole` or `prohibit`, no address to send from.
 * EHOSTUNREACH is not among them, which a route of type `unreachable` causes, but also a firewall that rejects.
 */
const WITHOUT_ROUTE = ["ENETUNREACH", "EINVAL", "EACCES", "EADDRNOTAVAIL"];

function isWithoutRoute(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" && WITHOUT_ROUTE.includes(code);
}
