/**
 * HTTP server with limits on connections, request size and request time.
 *
 *   server.ts             a server that retries to listen, and its routes
 *   listen.ts             opens a port
 *   http.ts               reads one request, writes one response
 *   connection_limits.ts  limits on inbound connections
 *   local_only.ts         restricts a handler to this host
 *   media_types.ts        Accept headers
 *
 * In: handlers by path. Out: running servers. May touch: listening sockets.
 */
export { close, type ConnectionLimits, createConnectionLimits } from "./connection_limits.ts";
export { answerConnection, type HttpAnswer, type HttpHandler, type HttpRequest, SERVER, textAnswer } from "./http.ts";
export { type HttpListener, listenHttp, type OpenPort } from "./listen.ts";
export { localOnly } from "./local_only.ts";
export { acceptedTypes } from "./media_types.ts";
export { route, type Routes, type RunningServer, type ServerOptions, startServer } from "./server.ts";
