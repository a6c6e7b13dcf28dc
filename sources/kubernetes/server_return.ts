import { type Clock, sleep } from "../../platform/mod.ts";

/** Options of `serverReturns`. */
export interface ServerReturnOptions {
  /** The URL of the server or of the proxy in front of it. */
  readonly url: string;
  readonly clock: Clock;
  /** Opens and closes a TCP connection. Rejects if that fails, or with the signal's reason. */
  readonly connect: (address: TcpAddress, signal: AbortSignal) => Promise<void>;
}

/** A TCP address. */
export interface TcpAddress {
  readonly hostname: string;
  readonly port: number;
}

/** The timeout of a connection attempt, and the pause before the next one, in milliseconds. */
const CONNECT_DEADLINE_MS = 2_000;
const PAUSE_MS = 1_000;

/**
 * Resolves as soon as a TCP connection to the server succeeds: to true if earlier attempts failed, to false if the first one
 * succeeded and the server is only slow. Rejects with the signal's reason.
 *
 * It helps requests that started while the network was down: the kernel repeats a lost SYN only after 1, 3, 7, 15 and 31 s.
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

/** Opens and closes a TCP connection; see `ServerReturnOptions`. */
export async function tryToConnect({ hostname, port }: TcpAddress, signal: AbortSignal): Promise<void> {
  (await Deno.connect({ hostname, port, signal })).close();
}

/** The address in an http or https URL. */
function tcpAddress(text: string): TcpAddress {
  const { protocol, hostname, port } = new URL(text);
  const standard = protocol === "https:" ? 443 : 80;
  return { hostname: hostname.replace(/^\[(.*)\]$/, "$1"), port: port === "" ? standard : Number(port) };
}
