import { type Clock, errorText, type Logger, sleep } from "../../platform/mod.ts";
import type { Source, SourceSink } from "../../core/objects/mod.ts";
import type { LinkEvent, ReportLink } from "../../observe/mod.ts";
import { createHandOver } from "./hand_over.ts";
import type { Leader } from "./lease.ts";
import type { Role } from "./role.ts";

/** Options of `createFeed`. */
export interface FeedOptions {
  readonly sink: SourceSink;
  /** Opens the API server as a source, in full. */
  readonly openApi: (onLink: ReportLink) => Source;
  /** Opens the leader's server as a source, in full. */
  readonly openLeader: (leader: Leader, onLink: ReportLink) => Promise<Source>;
  /** How long a leader may not answer before this node watches the API server itself. */
  readonly patienceMs: () => number;
  /** The leader does not answer. */
  readonly onLost: () => void;
  /** The leader has sent its whole state, or a later change. */
  readonly onFollowed: () => void;
  /** The state comes from another source than before. */
  readonly onFrom: () => void;
  /** Receives the state of the link to the source in use. */
  readonly onLink: ReportLink;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends all sources. */
  readonly signal: AbortSignal;
}

/** Watches what the role of this node asks for: the leader of its site, or the API server, or both until one answers. */
export interface Feed {
  enter(role: Role): void;
  /** Watches the API server beside the leader, until that answers: this node may lead soon. */
  standBy(): void;
  /** What the state comes from: the leader, or the API server. */
  from(): "leader" | "api" | undefined;
  /** Resolves when the signal has ended all sources; rejects if one cannot work. */
  readonly ended: Promise<void>;
}

/** The wait before a source that could not be opened is opened again. */
const REOPEN_MS = 2_000;

/** A source that runs. */
interface Run {
  /** Reports its link no longer: another source is in use. */
  mute(): void;
  stop(): void;
}

/** Creates a feed that watches nothing yet. */
export function createFeed(options: FeedOptions): Feed {
  const { openApi, openLeader, clock, logger, signal } = options;
  const newSink = createHandOver(options.sink);
  const { promise: ended, resolve, reject } = Promise.withResolvers<void>();
  ended.catch(() => {});
  let apiRun: Run | undefined;
  let leaderRun: Run | undefined;
  let leader: Leader | undefined;
  let from: "leader" | "api" | undefined;
  let cancelPatience = () => {};
  let isPatient = false;

  const start = (open: (onLink: ReportLink) => Promise<Source> | Source, onEvent?: (event: LinkEvent) => void): Run => {
    const own = newSink();
    const ending = new AbortController();
    const streams = new Map<string, string>();
    let isMuted = false;
    const onLink: ReportLink = (stream, server, event) => {
      if (ending.signal.aborted) return;
      onEvent?.(event);
      if (isMuted || ending.signal.aborted) return;
      streams.set(stream, server);
      options.onLink(stream, server, event);
    };
    const mute = () => {
      isMuted = true;
      for (const [stream, server] of streams) options.onLink(stream, server, { type: "ended" });
      streams.clear();
    };
    const run = async () => {
      const source = await openRetrying(() => open(onLink), (event) => onLink("open", "", event), ending.signal);
      if (!ending.signal.aborted) await source?.run(own, ending.signal);
    };
    run().catch((error) => {
      if (!ending.signal.aborted) reject(error);
    });
    return {
      mute,
      stop() {
        ending.abort();
        mute();
        own.end();
      },
    };
  };

  /** Opens a source; one that cannot be opened, for a certificate that cannot be read, is opened again after a while. */
  const openRetrying = async (
    open: () => Promise<Source> | Source,
    onEvent: (event: LinkEvent) => void,
    signal: AbortSignal,
  ): Promise<Source | undefined> => {
    let reason = "";
    while (!signal.aborted) {
      try {
        const source = await open();
        if (reason !== "") onEvent({ type: "ended" });
        return source;
      } catch (error) {
        if (reason !== errorText(error)) {
          logger.warn("cannot watch the leader of the site", { error: errorText(error) });
        }
        reason = errorText(error);
        onEvent({ type: "failed", error: reason, retryInMs: REOPEN_MS });
        await sleep(clock, REOPEN_MS, signal).catch(() => {});
      }
    }
  };

  const endPatience = () => {
    cancelPatience();
    cancelPatience = () => {};
    isPatient = false;
  };

  const comesFrom = (next: "leader" | "api") => {
    if (from === next) return;
    from = next;
    options.onFrom();
  };

  const watchApi = () => {
    endPatience();
    apiRun ??= start(openApi);
    comesFrom("api");
  };

  const watchLeader = (next: Leader) => {
    leaderRun?.stop();
    leaderRun = start((onLink) => openLeader(next, onLink), (event) => {
      if (event.type === "ended") return;
      if (event.type === "failed") {
        waitForLeader();
        return options.onLost();
      }
      endPatience();
      comesFrom("leader");
      if (apiRun !== undefined) {
        logger.info("the leader of the site answers, so the API server is no longer watched", { leader: next.node });
        apiRun.stop();
        apiRun = undefined;
      }
      options.onFollowed();
    });
  };

  /** Watches the API server, too, if the leader has not answered in time. */
  const waitForLeader = () => {
    if (isPatient || apiRun !== undefined) return;
    isPatient = true;
    cancelPatience = clock.schedule(options.patienceMs(), () => {
      logger.warn("no leader of the site answers, watching the API server", { leader: leader?.node });
      watchBoth();
    });
  };

  const watchBoth = () => {
    // The API server's objects replace those of the leader, which must send all of its own again.
    if (leader !== undefined && leaderRun !== undefined) watchLeader(leader);
    leaderRun?.mute();
    watchApi();
  };

  const leaveLeader = () => {
    leaderRun?.stop();
    leaderRun = leader = undefined;
  };

  signal.addEventListener("abort", () => {
    endPatience();
    leaveLeader();
    apiRun?.stop();
    resolve();
  }, { once: true });

  return {
    enter(role) {
      if (signal.aborted) return;
      if (role.kind === "undecided") return waitForLeader();
      if (role.kind !== "follower") {
        leaveLeader();
        return watchApi();
      }
      const { address, certificate } = role.leader;
      if (leader?.address === address && leader.certificate === certificate) return;
      leaveLeader();
      leader = role.leader;
      waitForLeader();
      if (address === "") options.onLost();
      else watchLeader(leader);
    },
    standBy() {
      if (signal.aborted || apiRun !== undefined) return;
      logger.info("watching the API server, to take over from the leader of the site", { leader: leader?.node });
      watchBoth();
    },
    from: () => from,
    ended,
  };
}
