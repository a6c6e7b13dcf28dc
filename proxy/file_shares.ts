/** How many of the files (descriptors) that this process may open each part may use. */
export interface FileShares {
  /** Connections from outside, of all listeners together. */
  readonly connections: number;
  /** Listeners of health check node ports. */
  readonly listeners: number;
}

/** Kept for the runtime (some 60 at rest), the API server's connections, and tools, which take up to 8 while they start. */
const RESERVE = 256;
const MOST_CONNECTIONS = 256;
/** What Linux gives a process where nobody says otherwise. */
const COMMON_LIMIT = 1024;

/**
 * Shares out the descriptors of a process that may open `limit` of them; one that is not known is taken for Linux's common
 * one. What is left over is for the tools, the API server and the runtime.
 */
export function shareFiles(limit = COMMON_LIMIT): FileShares {
  const shared = limit - Math.min(RESERVE, Math.floor(limit / 2));
  const connections = Math.min(MOST_CONNECTIONS, Math.floor(shared / 4));
  return { connections, listeners: shared - connections };
}
