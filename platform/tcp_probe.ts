import type { Clock } from "./clock.ts";
import { errorText } from "./log.ts";

/** The result of a TCP connection attempt: the host accepted or refused it, nothing answered, or it could not be made. */
export type TcpProbeResult = "answered" | "silent" | { readonly failed: string };

/** Errors of the network about an address that does not answer. */
const SILENT = /No route to host|Host is unreachable|Network is unreachable|Connection timed out/i;

/** Connects to an address, and closes the connection at once; waits up to `timeoutMs` for an answer. */
export async function probeTcp(
  { address, port }: { readonly address: string; readonly port: number },
  timeoutMs: number,
  clock: Clock,
): Promise<TcpProbeResult> {
  const timeout = new AbortController();
  const cancel = clock.schedule(timeoutMs, () => timeout.abort());
  try {
    const connection = await Deno.connect({ hostname: address, port, signal: timeout.signal });
    connection.close();
    return "answered";
  } catch (error) {
    if (error instanceof Deno.errors.ConnectionRefused || error instanceof Deno.errors.ConnectionReset) {
      return "answered";
    }
    const text = errorText(error);
    return timeout.signal.aborted || SILENT.test(text) ? "silent" : { failed: text };
  } finally {
    cancel();
  }
}
