/**
 * HTTP server with limits on connections, request size and request time.
 *
 * In: handlers by path. Out: running servers. May touch: listening sockets.
 */
export { close, type ConnectionLimits, createConnectionLimits } from "./connection_limits.ts";
export { answerConnection, type HttpAnswer, type HttpHandler, type HttpRequest, SERVER, textAnswer } from "./http.ts";
export { type HttpListener, listenHttp, type OpenPort } from "./listen.ts";
export { localOnly } from "./local_only.ts";
export { acceptedTypes } from "./media_types.ts";
export { route, type Routes, type RunningServer, type ServerOptions, startServer } from "./server.ts";
