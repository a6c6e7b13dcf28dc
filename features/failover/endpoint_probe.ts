/** Probes endpoints that seem not to answer. */
import type { ProbeResult } from "./detector.ts";
import type { FailoverOptions } from "./options.ts";
import { type Clock, errorText, sleep, splitHostPort } from "../../platform/mod.ts";

/** Probes an endpoint, `address:port`. A `thorough` probe is repeated. */
export type ProbeEndpoint = (endpoint: string, kind: "single" | "thorough") => Promise<ProbeResult>;

/** The rounds of a probe that is not thorough: the liveness port, then both. */
const ROUNDS_OF_SINGLE = 2;

/**
 * Creates a probe of the liveness port of an endpoint's address and of the endpoint's own port: where a process is too busy to
 * accept connections, its host still refuses or accepts others. The liveness port is probed first, since a connection is work
 * for a busy process, then both, up to the first answer. The result is unknown if nothing answered and this host could not make
 * an attempt.
 */
export function createEndpointProbe(
  { probes, probeTimeoutMs, livenessPort }: Pick<FailoverOptions, "probes" | "probeTimeoutMs" | "livenessPort">,
  tryTcp: typeof probeTcp,
  clock: Clock,
): ProbeEndpoint {
  return async (endpoint, kind) => {
    const { address, port } = splitHostPort(endpoint);
    const rounds = kind === "thorough" ? probes : ROUNDS_OF_SINGLE;
    const answered = Promise.withResolvers<"answered">();
    let hasAnswered = false, hasFailed = false;
    const attempts = Array.from({ length: rounds }, (_, round) => {
      const ports = new Set(round === 0 && rounds > 1 ? [livenessPort] : [livenessPort, port]);
      return [...ports].map(async (port) => {
        // Spread over the first half of the time, so that a short loss of packets does not take them all.
        const delayMs = probeTimeoutMs / 2 / rounds * round;
        if (delayMs > 0) await sleep(clock, delayMs);
        if (hasAnswered) return;
        const result = await tryTcp({ address, port }, probeTimeoutMs - delayMs, clock);
        if (typeof result === "object") hasFailed = true;
        if (result !== "answered") return;
        hasAnswered = true;
        answered.resolve(result);
      });
    });
    const unanswered = Promise.all(attempts.flat()).then((): ProbeResult => hasFailed ? "unknown" : "silent");
    return await Promise.race([answered.promise, unanswered]);
  };
}

/** The result of a TCP connection attempt: the host accepted or refused it, nothing answered, or it could not be made. */
export type TcpProbeResult = "answered" | "silent" | { readonly failed: string };

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
