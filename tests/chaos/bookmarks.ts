import { systemClock } from "../../platform/clock.ts";
import type { FakeApiServer } from "../fakes/api_server.ts";

/** Bookmarks that servers send periodically. */
export interface Bookmarks {
  /** Resolves once the next ones are sent. */
  sent(): Promise<void>;
  stop(): void;
}

/** Makes servers send bookmarks periodically, as kube-apiserver does once a minute. */
export function startBookmarks(servers: readonly FakeApiServer[], everyMs: number): Bookmarks {
  let cancel = () => {};
  let sending = Promise.withResolvers<void>();
  const next = () => {
    cancel = systemClock.schedule(everyMs, () => {
      for (const server of servers) server.bookmark();
      sending.resolve();
      sending = Promise.withResolvers();
      next();
    });
  };
  next();
  return { sent: () => sending.promise, stop: () => cancel() };
}
