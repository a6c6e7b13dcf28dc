import type { ClusterObject, Kind, Source } from "../../core/objects/mod.ts";
import { abortedBy, type Clock, errorText, type Logger, sleep } from "../../platform/mod.ts";
import type { PodWatch } from "../../cri/mod.ts";
import { createKeeper } from "./keeper.ts";
import { unpackObjects } from "./payload.ts";
import type { RevisedCounts } from "./pod_addresses.ts";
import { createPodFollower, type PodFollower, type PodFollowerOptions } from "./pod_follower.ts";
import type { StateOrigin } from "./slot.ts";
import { createStandIn, type StandIn } from "./stand_in.ts";
import type { StateFile } from "./state_file.ts";

/** Options of `createKeptSource`. */
export interface KeptSourceOptions {
  readonly source: Source;
  readonly file: StateFile;
  readonly origin: StateOrigin;
  /**
   * How long the source may take to sync at the start before the kept state is served, unless it fails earlier. By default a
   * second, or no time if the kernel is empty: then nothing is served meanwhile.
   */
  readonly delayMs?: number;
  /** Whether the kernel had no rules of a service proxy at the start, as after a reboot; unknown by default. */
  readonly isKernelEmpty?: Promise<boolean>;
  /** Resolves when a request of the source has failed and is repeated later; never by default. */
  readonly failed?: Promise<void>;
  /** The kinds that the source reports. */
  readonly kinds: readonly Kind[];
  /** The objects that the sink has. */
  readonly objects: () => Iterable<ClusterObject>;
  /** The pods of this node, for the addresses of kept endpoints; not asked by default. It is ended once the source has synced. */
  readonly pods?: PodWatch;
  /**
   * Receives the time of the kept state that is served, in milliseconds since 1970, and how many of its endpoints have been revised if
   * the pods are known; undefined once it is replaced.
   */
  readonly onServing: (atMs: number | undefined, revised?: RevisedCounts) => void;
  /** Receives the kept state if the source has synced before it is served; by default, it is not read then. */
  readonly onNotServed?: (kept: readonly ClusterObject[]) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The source, with a kept state: that of the file is served if the source has not synced every kind in time, and replaced kind
 * by kind when it does. From then on the objects are kept in the file.
 */
export function createKeptSource(options: KeptSourceOptions): Source {
  const { source, objects, kinds, origin: { node }, onServing, logger } = options;
  return {
    servers: source.servers,
    async run(sink, signal) {
      let servingMs: number | undefined;
      const synced = Promise.withResolvers<void>();
      const keeper = createKeeper({ ...options, onProblems: sink.problems });
      const onSynced = () => {
        keeper.start();
        synced.resolve();
        follower?.stop();
        options.pods?.end();
        if (servingMs === undefined) return;
        logger.info("the source has answered, and its state has replaced the kept one");
        onServing(undefined);
      };
      const standIn = createStandIn({ sink, kinds, objects, onChange: keeper.changed, onSynced });
      const onChange: PodFollowerOptions["onChange"] = (slices, counts) => {
        standIn.revise(slices);
        onServing(servingMs, counts);
      };
      const watch = options.pods?.isEnded() ? undefined : options.pods;
      const follower = watch && createPodFollower({ ...options, watch, node, onChange, onProblems: sink.problems });
      const ended = new AbortController();
      const serve = (kept: readonly ClusterObject[], atMs: number) => {
        const revised = follower?.start(kept);
        servingMs = atMs;
        standIn.serve(revised?.objects ?? kept);
        onServing(atMs, revised?.counts);
      };
      const heard = follower?.heard ?? (() => Promise.resolve());
      const stand = { isOver: standIn.isOver, synced: synced.promise, heard, serve };
      serveKept(options, stand, abortedBy(signal, ended.signal).signal);
      try {
        await source.run(standIn.sink, signal);
      } finally {
        ended.abort();
        follower?.stop();
        await keeper.stop();
      }
    },
  };
}

/** The default of `delayMs` for a kernel that has rules. */
const DELAY_MS = 1_000;

/** Resolves when the kept state is to be served, or the source has synced. Rejects if the signal is aborted. */
async function waitForSource(
  { delayMs, isKernelEmpty, failed, clock }: KeptSourceOptions,
  synced: Promise<void>,
  signal: AbortSignal,
) {
  if (delayMs === 0) return;
  const ends = [synced, sleep(clock, delayMs ?? DELAY_MS, signal)];
  if (failed !== undefined) ends.push(failed);
  if (delayMs === undefined && isKernelEmpty !== undefined) {
    const { promise, resolve } = Promise.withResolvers<void>();
    isKernelEmpty.then((isEmpty) => isEmpty && resolve());
    ends.push(promise);
  }
  await Promise.race(ends);
}

/** What `serveKept` needs of a stand-in. */
interface KeptSink extends Pick<StandIn, "isOver">, Pick<PodFollower, "heard"> {
  /** Resolves when the source has synced. The file is written a second later at the earliest. */
  readonly synced: Promise<void>;
  /** Serves these objects, the state of `atMs`. */
  serve(kept: readonly ClusterObject[], atMs: number): void;
}

/** Serves the kept state if the source does not sync in time. Never rejects. */
async function serveKept(
  options: KeptSourceOptions,
  { isOver, synced, heard, serve }: KeptSink,
  signal: AbortSignal,
): Promise<void> {
  const { file, origin, onNotServed, clock, logger } = options;
  try {
    await waitForSource(options, synced, signal);
    if (isOver() && onNotServed === undefined) return;
    const { state, ignored } = await file.read(origin);
    for (const reason of ignored) logger.warn("ignored a kept state", { file: file.path, reason });
    if (state === undefined) {
      if (isOver()) return;
      logger.info("the source has not answered, and there is no kept state to serve", { file: file.path });
      return;
    }
    const [objects] = await Promise.all([unpackObjects(state.payload, clock), isOver() ? undefined : heard()]);
    if (signal.aborted) return;
    if (isOver()) return onNotServed?.(objects);
    serve(objects, state.atMs);
    const of = new Date(state.atMs).toISOString();
    logger.warn("serving the kept state until the source has answered", {
      of,
      objects: objects.length,
      file: file.path,
    });
  } catch (error) {
    if (!signal.aborted) logger.warn("ignored a kept state", { file: file.path, reason: errorText(error) });
  }
}
