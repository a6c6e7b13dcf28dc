/**
 * An HTTP server that holds what a stranger can cost it: connections by address, bytes and time of a request.
 *
 * In: handlers by path. Out: running servers. May touch: listening sockets.
 */
export { close, type ConnectionLimits, createConnectionLimits } from "./connection_limits.ts";
export { answerConnection, type HttpAnswer, type HttpHandler, type HttpRequest, SERVER, textAnswer } from "./http.ts";
export { type HttpListener, listenHttp, type OpenPort } from "./listen.ts";
export { localOnly } from "./local_only.ts";
export { preferredForms } from "./media_types.ts";
export { route, type Routes, type RunningServer, type ServerOptions, startServer } from "./server.ts";
