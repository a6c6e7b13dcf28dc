/** Watches the leader of a site or the API server, depending on the role of the node. */
import { type Clock, errorText, type Logger, sleep } from "../../platform/mod.ts";
import {
  type Kind,
  KINDS,
  type LinkEvent,
  type ReportLink,
  type Source,
  type SourceSink,
} from "../../core/objects/mod.ts";
import type { Leader, Role } from "./lease.ts";

const REOPEN_MS = 2_000;

/** Watches the leader of the site or the API server, depending on the role of this node, or both until one answers. */
export interface Feed {
  enter(role: Role): void;
  /** Watches the API server in addition to the leader until the API server answers: this node may lead soon. */
  standBy(): void;
  /** The origin of the state: the leader, or the API server. */
  from(): "leader" | "api" | undefined;
  /** Resolves when the signal has ended all sources; rejects if one cannot work. */
  readonly ended: Promise<void>;
}

/** Creates a feed that watches nothing yet. */
export function createFeed(options: {
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
  /** Called when the state comes from another source than before. */
  readonly onFrom: () => void;
  /** Receives the state of the link to the source in use. */
  readonly onLink: ReportLink;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends all sources. */
  readonly signal: AbortSignal;
}): Feed {
  const { openApi, openLeader, clock, logger, signal } = options;
  const newSink = createHandOver(options.sink);
  const { promise: ended, resolve, reject } = Promise.withResolvers<void>();
  ended.catch(() => {});
  let apiRun: ReturnType<typeof start> | undefined;
  let leaderRun: ReturnType<typeof start> | undefined;
  let leader: Leader | undefined;
  let from: "leader" | "api" | undefined;
  let cancelPatience = () => {};
  let isPatient = false;

  const start = (open: (onLink: ReportLink) => Promise<Source> | Source, onEvent?: (event: LinkEvent) => void) => {
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
      /** Stops reporting its link: another source is in use. */
      mute,
      stop() {
        ending.abort();
        mute();
        own.end();
      },
    };
  };

  /** Opens a source. Retries after a delay if that fails, for example because a certificate cannot be read. */
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
    // The API server's objects replace the leader's, so the leader must send its whole state again.
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

/**
 * Lets several sources feed one sink, one at a time. A source takes over with its first object, until another one takes over.
 * The objects of the previous source stay until the new one has reported all objects of the kind, so only differences have an
 * effect. Each call returns the sink of a new source.
 */
function createHandOver(sink: SourceSink) {
  let owner: symbol | undefined;

  return (): SourceSink & { readonly end: () => void } => {
    const self = Symbol();
    let state: "waiting" | "heard" | "ended" = "waiting";
    const untouched = new Set<Kind>(KINDS);
    const scopes = new Set<string>();

    /** Whether the source's objects are accepted. The first call for a kind starts a reset of the kind. */
    const enters = (kind: Kind): boolean => {
      if (state === "ended" || state === "heard" && owner !== self) return false;
      owner = self;
      state = "heard";
      if (untouched.delete(kind)) sink.reset(kind);
      return true;
    };

    return {
      set(object) {
        if (enters(object.kind)) sink.set(object);
      },
      delete(ref) {
        if (enters(ref.kind)) sink.delete(ref);
      },
      reset(kind) {
        if (enters(kind)) sink.reset(kind);
      },
      synced(kind) {
        if (enters(kind)) sink.synced(kind);
      },
      problems(scope, problems, options) {
        if (state === "ended") return;
        scopes.add(scope);
        sink.problems(scope, problems, options);
      },
      /** Ends the source: its objects are ignored from now on, and its problems end. */
      end() {
        state = "ended";
        for (const scope of scopes) sink.problems(scope, []);
        scopes.clear();
      },
    };
  };
}
