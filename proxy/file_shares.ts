/**
 * Shares of the file descriptors of this process. backends/host/file_limit.ts reads and raises the limit;
 * platform/http/connection_limits.ts enforces the share of connections.
 */
export interface FileShares {
  /** Inbound connections over all listeners. */
  readonly connections: number;
  /** Listeners of health check node ports. */
  readonly listeners: number;
}

/** Descriptors reserved for the runtime (some 60 when idle), the API server's connections, and tools (up to 8 while starting). */
const RESERVE = 256;
const MAX_CONNECTIONS = 256;
/** Linux's default limit. */
const DEFAULT_LIMIT = 1024;

/**
 * Divides `limit` descriptors, Linux's default if unknown. The remainder is for the tools, the API server and the runtime.
 */
export function shareFiles(limit = DEFAULT_LIMIT): FileShares {
  const shared = limit - Math.min(RESERVE, Math.floor(limit / 2));
  const connections = Math.min(MAX_CONNECTIONS, Math.floor(shared / 4));
  return { connections, listeners: shared - connections };
}
