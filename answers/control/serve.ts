import type { Clock, Logger } from "../../platform/mod.ts";
import { answerConnection, createConnectionLimits, type HttpHandler } from "../../platform/http/mod.ts";
import type { ControlAnswers } from "./server.ts";

/** What the control socket is served with. */
export interface ControlOptions {
  readonly listener: Deno.Listener;
  /** Called with every question: before the first one, nothing that questions need is loaded. */
  readonly answers: () => Promise<ControlAnswers>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Answers on the control socket until the signal. */
export async function serveControlSocket({ listener, answers, clock, logger, signal }: ControlOptions): Promise<void> {
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
