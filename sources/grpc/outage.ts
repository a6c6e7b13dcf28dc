import type { Logger } from "../../platform/mod.ts";
import type { SourceSink } from "../../core/objects/mod.ts";

/** The scope of the connection's problems. */
const SCOPE = "gRPC server";

/** Logs and reports which server is watched and why others are not. */
export interface OutageReport {
  /** A server has sent its whole state, or a later round. */
  watched(server: string): void;
  /** The server in use closes the connection in an orderly way; `next` is tried at once, without it the same server soon. */
  leaving(server: string, reason: string, next: string | undefined): void;
  /** A server failed and the next one is tried at once. */
  failed(server: string, reason: string, next: string): void;
  /** A server failed like all others; the first of them is tried again after `waitMs`. */
  allFailed(server: string, reason: string, waitMs: number): void;
}

/** A report without history. An outage is one line for each server and reason, however long it lasts. */
export function createOutageReport(logger: Logger, sink: Pick<SourceSink, "problems">): OutageReport {
  const reasons = new Map<string, string>();
  let last: string | undefined;
  let isWatched = false;

  /** Keeps the reason; returns whether it is new for this server. */
  const note = (server: string, reason: string): boolean => {
    const isNews = reasons.get(server) !== reason;
    reasons.set(server, reason);
    isWatched = false;
    return isNews;
  };

  return {
    watched(server) {
      if (isWatched) return;
      const message = last === server ? "watching the server again" : "watching the server";
      logger.info(message, { server, before: last === server ? undefined : last });
      isWatched = true;
      last = server;
      reasons.clear();
      sink.problems(SCOPE, [], { isLogged: true });
    },
    leaving(server, reason, next) {
      if (!note(server, reason)) return;
      if (next === undefined) logger.info("the server closes the connection, reconnecting", { server, reason });
      else logger.info("the server closes the connection, trying the next one", { server, reason, next });
    },
    failed(server, reason, next) {
      if (note(server, reason)) logger.warn("cannot watch the server, trying the next one", { server, reason, next });
    },
    allFailed(server, reason, waitMs) {
      if (note(server, reason)) {
        const inSeconds = Math.round(waitMs / 100) / 10;
        logger.warn("cannot watch the server, retrying; the last state stays in effect", { server, reason, inSeconds });
      }
      const problems = Array.from(reasons, ([subject, detail]) => {
        return { code: "source-unreachable", subject, detail } as const;
      });
      sink.problems(SCOPE, problems, { isLogged: true });
    },
  };
}
