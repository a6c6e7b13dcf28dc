import { systemClock } from "../../platform/clock.ts";
import type { FakeApiServer } from "../fakes/api_server.ts";

/** Makes servers send bookmarks periodically, as kube-apiserver does once a minute. Returns a function that stops them. */
export function startBookmarks(servers: readonly FakeApiServer[], everyMs: number): () => void {
  let cancel = () => {};
  const next = () => {
    cancel = systemClock.schedule(everyMs, () => {
      for (const server of servers) server.bookmark();
      next();
    });
  };
  next();
  return () => cancel();
}
