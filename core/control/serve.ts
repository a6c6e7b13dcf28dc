import { type Clock, sleep } from "../../platform/clock.ts";
import { errorText, type Logger } from "../../platform/log.ts";
import { answerConnection, close, type HttpHandler } from "../observe/http.ts";
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

const AFTER_FAILED_ACCEPT_MS = 100;

/** Answers on the control socket until the signal. */
export async function serveControlSocket({ listener, answers, clock, logger, signal }: ControlOptions): Promise<void> {
  let handler: Promise<HttpHandler> | undefined;
  const load = async () => {
    const { createControlHandler } = await import("./server.ts");
    return createControlHandler(await answers());
  };
  const connections = new Set<Deno.Conn>();
  const answer = async (connection: Deno.Conn) => {
    connections.add(connection);
    await answerConnection(connection, async (request) => (await (handler ??= load()))(request), { clock, logger });
    connections.delete(connection);
  };
  const end = () => {
    close(listener);
    connections.forEach(close);
  };
  if (signal.aborted) return end();
  signal.addEventListener("abort", end, { once: true });
  while (!signal.aborted) {
    try {
      answer(await listener.accept());
    } catch (error) {
      if (signal.aborted) return;
      logger.warn("a connection to the control socket could not be accepted", { error: errorText(error) });
      await sleep(clock, AFTER_FAILED_ACCEPT_MS, signal).catch(() => {});
    }
  }
}
