/** Probes of endpoints that seem not to answer. */
import type { Configuration } from "../config/mod.ts";
import { type Clock, sleep, splitHostPort, type TcpProbeResult } from "../platform/mod.ts";

/** A TCP connection attempt that waits up to `timeoutMs` for an answer (see `probeTcp`). */
export type TryTcp = (
  target: { readonly address: string; readonly port: number },
  timeoutMs: number,
) => Promise<TcpProbeResult>;

/** Probes an endpoint, `address:port`; resolves with whether anything answered. */
export type ProbeEndpoint = (endpoint: string, kind: "single" | "thorough") => Promise<boolean>;

/**
 * Creates a probe of an endpoint's own port and of the liveness port of its address: where a process is too busy to accept
 * connections, its host still refuses or accepts others. A thorough probe asks the liveness port first, since a connection
 * is work for a busy process, then both, up to the first answer. An attempt that this host cannot make counts as an answer.
 */
export function createEndpointProbe(
  { probes, probeTimeoutMs, livenessPort }: Pick<
    Configuration["failover"],
    "probes" | "probeTimeoutMs" | "livenessPort"
  >,
  tryTcp: TryTcp,
  clock: Clock,
): ProbeEndpoint {
  return async (endpoint, kind) => {
    const { address, port } = splitHostPort(endpoint);
    const rounds = kind === "thorough" ? probes : 1;
    const answered = Promise.withResolvers<true>();
    let hasAnswered = false;
    const attempts = Array.from({ length: rounds }, (_, round) => {
      const ports = new Set(round === 0 && rounds > 1 ? [livenessPort] : [livenessPort, port]);
      return [...ports].map(async (port) => {
        // Spread over the first half of the time, so that a short loss of packets does not take them all.
        const delayMs = probeTimeoutMs / 2 / rounds * round;
        if (delayMs > 0) await sleep(clock, delayMs);
        if (hasAnswered || await tryTcp({ address, port }, probeTimeoutMs - delayMs) === "silent") return;
        hasAnswered = true;
        answered.resolve(true);
      });
    });
    return await Promise.race([answered.promise, Promise.all(attempts.flat()).then(() => false)]);
  };
}
