/**
 * The control socket, through which commands query the running proxy.
 *
 * In: requests over a unix socket. Out: JSON. May touch: the socket and its folder.
 */
import type { ControlAnswers } from "./server.ts";
import { answerConnection, createConnectionLimits, type HttpHandler } from "../../platform/http/mod.ts";
import type { ClockAndLogger } from "../../platform/mod.ts";
export { AnotherSluiceError, listenOnControlSocket, refuseAnother, SocketInUseError } from "./socket.ts";
export { thisProcess } from "./process.ts";
export { type Asker, connectToProxy, NoProxyError } from "./client.ts";
export type { ControlAnswers } from "./server.ts";

/** Answers requests on the control socket until the signal aborts. */
export async function serveControlSocket({ listener, answers, clock, logger, signal }: ClockAndLogger & {
  readonly listener: Deno.Listener;
  /** Called at every request; the code and data behind answers are not loaded before the first one. */
  readonly answers: () => Promise<ControlAnswers>;
  readonly signal: AbortSignal;
}): Promise<void> {
  const handle: HttpHandler = async (request) => {
    const { createControlHandler } = await import("./server.ts");
    return await createControlHandler(await answers())(request);
  };
  await createConnectionLimits({ clock }).accept(listener, {
    serve: (connection) => answerConnection(connection, handle, { clock, logger }),
    logger: logger.with({ server: "control socket" }),
    signal,
  });
}
