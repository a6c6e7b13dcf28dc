import type { Clock } from "../../platform/mod.ts";
import type { ReportLink } from "../../core/objects/mod.ts";

/** The link to the server that the cluster's state comes from. Times are wall times in milliseconds since 1970. */
export interface SourceLink {
  /** `connecting` before the first answer, `disconnected` while any of its streams fails. */
  readonly state: "connecting" | "connected" | "disconnected";
  readonly sinceMs: number;
  /** The server in use or tried last: `https://10.0.0.1:6443`; empty before the first request. */
  readonly server: string;
  /** When the server last sent anything; undefined if it never did. */
  readonly lastReceivedMs: number | undefined;
  /** The last failure; it stays after the link has recovered. */
  readonly lastError: string | undefined;
  readonly lastErrorMs: number | undefined;
  /** The latest time of the next attempt; undefined unless disconnected. */
  readonly retryAtMs: number | undefined;
  /** The time of the cached state that is served; undefined once the server's state has arrived. */
  readonly keptMs?: number;
  /** The endpoints that differ from the cached state, because the container runtime has other pods; undefined if unknown. */
  readonly keptEndpoints?: RevisedEndpoints;
}

/** The cached endpoints of this node that were revised. */
interface RevisedEndpoints {
  /** Endpoints with another address. */
  readonly replaced: number;
  /** Endpoints whose pod does not run. */
  readonly leftOut: number;
}

/** Keeps the state of the link to the source. */
export interface SourceLinkRecord {
  readonly report: ReportLink;
  /** Notes that a cached state of this time is served, with these endpoints revised; undefined for none any more. */
  serveKept(keptMs: number | undefined, keptEndpoints?: RevisedEndpoints): void;
  current(): SourceLink;
}

/** Creates a link that is connecting. `onChange` is called with every new state. */
export function createSourceLink(clock: Clock, onChange: (link: SourceLink) => void = () => {}): SourceLinkRecord {
  const failing = new Map<string, number>();
  let link: SourceLink = {
    state: "connecting",
    sinceMs: clock.now(),
    server: "",
    lastReceivedMs: undefined,
    lastError: undefined,
    lastErrorMs: undefined,
    retryAtMs: undefined,
  };

  const enter = (state: SourceLink["state"], nowMs: number) => {
    const retryAtMs = failing.size > 0 ? Math.min(...failing.values()) : undefined;
    const isNew = state !== link.state;
    link = { ...link, state, retryAtMs, sinceMs: isNew ? nowMs : link.sinceMs };
    if (isNew) onChange(link);
  };

  return {
    report(stream, server, event) {
      const nowMs = clock.now();
      if (event.type === "ended") {
        if (failing.delete(stream) && failing.size === 0) enter("connecting", nowMs);
        return;
      }
      if (event.type === "failed") {
        failing.set(stream, nowMs + event.retryInMs);
        link = { ...link, server, lastError: event.error, lastErrorMs: nowMs };
        enter("disconnected", nowMs);
        return;
      }
      const wasFailing = failing.delete(stream);
      link = { ...link, server, lastReceivedMs: nowMs };
      if (wasFailing || link.state === "connecting") enter(failing.size === 0 ? "connected" : "disconnected", nowMs);
    },
    serveKept(keptMs, keptEndpoints) {
      const { keptMs: _, keptEndpoints: __, ...rest } = link;
      if (keptMs === undefined) link = rest;
      else link = keptEndpoints === undefined ? { ...rest, keptMs } : { ...rest, keptMs, keptEndpoints };
    },
    current: () => link,
  };
}
