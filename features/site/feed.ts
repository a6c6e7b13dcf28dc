/** Watches the leader of a site or the API server, depending on the role of the node. */
import { type ClockAndLogger, errorText, sleep, untilAborted } from "../../platform/mod.ts";
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
interface Feed {
  enter(role: Role): void;
  /** Watches the API server in addition to the leader until the API server answers: this node may lead soon. */
  standBy(): void;
  /** The origin of the state: the leader, or the API server. */
  from(): "leader" | "api" | undefined;
  /** Resolves when the signal has ended all sources; rejects if one cannot work. */
  readonly ended: Promise<void>;
}

interface FeedOptions extends ClockAndLogger {
  readonly sink: SourceSink;
  /** Opens the API server as a source, in full. */
  readonly openApi: (onLink: ReportLink) => Source;
  /** Opens the leader's server as a source, in full. */
  readonly openLeader: (leader: Leader, onLink: ReportLink) => Promise<Source>;
  /** The time without an answer of the leader after which this node watches the API server itself. */
  readonly patienceMs: () => number;
  readonly onLost: () => void;
  /** The leader has sent its whole state, or a later change. */
  readonly onFollowed: () => void;
  /** Called when the state comes from another source than before. */
  readonly onFrom: () => void;
  /** Receives the state of the link to the source in use. */
  readonly onLink: ReportLink;
  readonly signal: AbortSignal;
}

interface Watched extends FeedOptions {
  readonly newSink: ReturnType<typeof createHandOver>;
  readonly ended: PromiseWithResolvers<void>;
  api?: WatchedSource | undefined;
  /** The leader, and its server unless its address is unknown. */
  leader?: Leader | undefined;
  leaderServer?: WatchedSource | undefined;
  from?: "leader" | "api";
  /** Stops waiting for an answer of the leader; undefined if the feed does not wait. */
  endPatience?: (() => void) | undefined;
}

/** Creates a feed that watches nothing yet. */
export function createFeed(options: FeedOptions): Feed {
  const { logger, signal } = options;
  const ended = Promise.withResolvers<void>();
  ended.promise.catch(() => {});
  const watched: Watched = { ...options, newSink: createHandOver(options.sink), ended };

  signal.addEventListener("abort", () => {
    endPatience(watched);
    leaveLeader(watched);
    watched.api?.stop();
    ended.resolve();
  }, { once: true });

  return {
    enter(role) {
      if (signal.aborted) return;
      if (role.kind === "undecided") return waitForLeader(watched);
      if (role.kind !== "follower") {
        leaveLeader(watched);
        return watchApi(watched);
      }
      const { leader } = role;
      if (watched.leader?.address === leader.address && watched.leader.certificate === leader.certificate) return;
      leaveLeader(watched);
      watched.leader = leader;
      waitForLeader(watched);
      if (leader.address === "") options.onLost();
      else watchLeader(watched, leader);
    },
    standBy() {
      if (signal.aborted || watched.api !== undefined) return;
      const leader = watched.leader?.node;
      logger.info("watching the API server, to take over from the leader of the site", { leader });
      watchBoth(watched);
    },
    from: () => watched.from,
    ended: ended.promise,
  };
}

function start(watched: Watched, open: OpenSource, onEvent?: (event: LinkEvent) => void): WatchedSource {
  const source = watchSource(open, watched.newSink(), watched, onEvent);
  source.ended.catch(watched.ended.reject);
  return source;
}

function watchApi(watched: Watched): void {
  endPatience(watched);
  watched.api ??= start(watched, watched.openApi);
  comesFrom(watched, "api");
}

function watchLeader(watched: Watched, leader: Leader): void {
  watched.leaderServer?.stop();
  watched.leaderServer = start(watched, (onLink) => watched.openLeader(leader, onLink), (event) => {
    if (event.type === "ended") return;
    if (event.type !== "failed") return leaderAnswered(watched, leader);
    waitForLeader(watched);
    watched.onLost();
  });
}

function leaderAnswered(watched: Watched, leader: Leader): void {
  endPatience(watched);
  comesFrom(watched, "leader");
  if (watched.api !== undefined) {
    const fields = { leader: leader.node };
    watched.logger.info("the leader of the site answers, so the API server is no longer watched", fields);
    watched.api.stop();
    watched.api = undefined;
  }
  watched.onFollowed();
}

function watchBoth(watched: Watched): void {
  const { leader, leaderServer } = watched;
  // The API server's objects replace the leader's, so the leader must send its whole state again.
  if (leader !== undefined && leaderServer !== undefined) watchLeader(watched, leader);
  watched.leaderServer?.mute();
  watchApi(watched);
}

/** Watches the API server, too, if the leader has not answered in time. */
function waitForLeader(watched: Watched): void {
  if (watched.endPatience !== undefined || watched.api !== undefined) return;
  watched.endPatience = watched.clock.schedule(watched.patienceMs(), () => {
    watched.logger.warn("no leader of the site answers, watching the API server", { leader: watched.leader?.node });
    watchBoth(watched);
  });
}

function endPatience(watched: Watched): void {
  watched.endPatience?.();
  watched.endPatience = undefined;
}

function leaveLeader(watched: Watched): void {
  watched.leaderServer?.stop();
  watched.leader = watched.leaderServer = undefined;
}

function comesFrom(watched: Watched, from: "leader" | "api"): void {
  if (watched.from === from) return;
  watched.from = from;
  watched.onFrom();
}

type OpenSource = (onLink: ReportLink) => Promise<Source> | Source;

interface WatchedSource {
  /** Stops reporting its link: another source is in use. */
  mute(): void;
  stop(): void;
  readonly ended: Promise<void>;
}

/** Watches a source, which feeds `sink`. `onEvent` receives the events of its link, also while it is muted. */
function watchSource(
  open: OpenSource,
  sink: ReturnType<ReturnType<typeof createHandOver>>,
  options: Pick<FeedOptions, "onLink" | "clock" | "logger">,
  onEvent?: (event: LinkEvent) => void,
): WatchedSource {
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
    const source = await openRetrying(() => open(onLink), (event) => onLink("open", "", event), options, ending.signal);
    if (!ending.signal.aborted) await source?.run(sink, ending.signal);
  };
  return {
    mute,
    stop() {
      ending.abort();
      mute();
      sink.end();
    },
    ended: untilAborted(run(), ending.signal),
  };
}

/** Opens a source. Retries after a delay if that fails, for example because a certificate cannot be read. */
async function openRetrying(
  open: () => Promise<Source> | Source,
  onEvent: (event: LinkEvent) => void,
  { clock, logger }: Pick<FeedOptions, "clock" | "logger">,
  signal: AbortSignal,
): Promise<Source | undefined> {
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

    const of = <T extends { readonly kind: Kind }>(pass: (one: T) => void) => (one: T) => enters(one.kind) && pass(one);
    const ofKind = (pass: (kind: Kind) => void) => (kind: Kind) => enters(kind) && pass(kind);
    return {
      set: of(sink.set),
      delete: of(sink.delete),
      reset: ofKind(sink.reset),
      synced: ofKind(sink.synced),
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
