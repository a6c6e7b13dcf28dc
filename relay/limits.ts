import type { RelayLimits } from "./contract.ts";

/** Files that the relay leaves to the rest of the process: API connections, servers, tools. */
const RESERVED_FILES = 512;
/** A connection of a client and one to its endpoint. */
const FILES_PER_CONNECTION = 2;

/**
 * Returns the default limits for a process that may open `files` files, of which this relay gets `share` (0 to 1). Half of
 * them are for connections, an eighth for UDP flows, and the rest for listeners.
 *
 * kube-proxy's userspace mode closed UDP flows after 250 ms without traffic (`--udp-timeout`), which loses slow answers. A
 * resolver waits 5 s for an answer, so 10 s are enough for a question; streams stay as long as in the kernel's connection
 * tracking (nf_conntrack_udp_timeout_stream).
 */
export function defaultRelayLimits(files: number, share = 0.5): RelayLimits {
  const own = Math.max(64, Math.floor((files - RESERVED_FILES) * share));
  return {
    connections: Math.floor(own / 2 / FILES_PER_CONNECTION),
    udpFlows: Math.floor(own / 8),
    affinityClients: 50_000,
    headStartMs: 250,
    connectMs: 10_000,
    udpIdleMs: 10_000,
    udpStreamIdleMs: 120_000,
    drainMs: 5_000,
    stopMs: 5_000,
  };
}
