import { type Clock, sleep } from "../../platform/mod.ts";

/** Where a server is looked for, and how. */
export interface ServerReturnOptions {
  /** The URL of the server, or of the proxy in front of it. */
  readonly url: string;
  readonly clock: Clock;
  /** Opens a TCP connection and closes it. Rejects where that fails, or with the signal's reason. */
  readonly connect: (address: TcpAddress, signal: AbortSignal) => Promise<void>;
}

/** An address of TCP. */
export interface TcpAddress {
  readonly hostname: string;
  readonly port: number;
}

/** The longest wait for a connection, and the pause before the next try, in milliseconds. */
const CONNECT_DEADLINE_MS = 2_000;
const PAUSE_MS = 1_000;

/**
 * Resolves as soon as a TCP connection to the server succeeds: to true where others failed before, to false where the
 * first one did, so that the server is slow and was not away. Rejects with the signal's reason.
 *
 * It is for requests that wait for an answer: the kernel repeats a lost SYN after 1, 3, 7, 15 and 31 s, and a request that
 * began while the network was down is late by as much.
 */
export async function serverReturns(options: ServerReturnOptions, signal: AbortSignal): Promise<boolean> {
  const { clock, connect } = options;
  const address = tcpAddress(options.url);
  for (let isAway = false;; isAway = true) {
    const deadline = new AbortController();
    const cancel = clock.schedule(CONNECT_DEADLINE_MS, () => deadline.abort());
    const connected = await connect(address, AbortSignal.any([signal, deadline.signal])).then(() => true, () => false);
    cancel();
    signal.throwIfAborted();
    if (connected) return isAway;
    await sleep(clock, PAUSE_MS, signal);
  }
}

/** Opens a TCP connection and closes it; see `ServerReturnOptions`. */
export async function tryToConnect({ hostname, port }: TcpAddress, signal: AbortSignal): Promise<void> {
  (await Deno.connect({ hostname, port, signal })).close();
}

/** The address that a URL of http or https stands for. */
function tcpAddress(text: string): TcpAddress {
  const { protocol, hostname, port } = new URL(text);
  const standard = protocol === "https:" ? 443 : 80;
  return { hostname: hostname.replace(/^\[(.*)\]$/, "$1"), port: port === "" ? standard : Number(port) };
}
