import type { Clock } from "../../platform/clock.ts";
import type { Logger } from "../../platform/log.ts";
import { createConnectionLimits } from "../observe/connection_limits.ts";
import { answerConnection, type HttpHandler } from "../observe/http.ts";
import type { ControlAnswers } from "./server.ts";

/** What the control socket is served with. */
export interface ControlOptions {
  readonly listener: Deno.Listener;
  /** Called with the first question: until then, nothing that questions need is loaded. */
  readonly answers: () => Promise<ControlAnswers>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Answers on the control socket until the signal. */
export async function serveControlSocket({ listener, answers, clock, logger, signal }: ControlOptions): Promise<void> {
  let handler: Promise<HttpHandler> | undefined;
  const load = async () => {
    const { createControlHandler } = await import("./server.ts");
    return createControlHandler(await answers());
  };
  const answer: HttpHandler = async (request) => (await (handler ??= load()))(request);
  await createConnectionLimits({ clock }).accept(listener, {
    serve: (connection) => answerConnection(connection, answer, { clock, logger }),
    logger: logger.with({ server: "control socket" }),
    signal,
  });
}
