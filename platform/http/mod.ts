/**
 * HTTP server with limits on connections, request size and request time.
 *
 *   server.ts             opens a port, retries to listen, and its routes
 *   http.ts               reads one request, writes one response; Accept headers, and what only this host may read
 *   connection_limits.ts  limits on inbound connections
 *
 * In: handlers by path. Out: running servers. May touch: listening sockets.
 */
export { close, type ConnectionLimits, createConnectionLimits } from "./connection_limits.ts";
export * from "./http.ts";
export * from "./server.ts";
