/** A store with the cluster's state, for the commands that serve, export and watch it. */
import { createProblemBoard, type ProblemBoard, type ReportProblems } from "../../core/problems/mod.ts";
import type { SourceServer, SourceSink } from "../../core/objects/mod.ts";
import type { Store } from "../../kpng/store/mod.ts";
import type { SourceFigures } from "../../observe/serving/mod.ts";
import type { Clock } from "../../platform/mod.ts";
import type { SourceOptions } from "../../sources/mod.ts";
import type { Invocation } from "./command.ts";
import { readDetailFilters } from "./detail_flags.ts";

/** A store that a source keeps up to date. */
export interface ClusterStore {
  readonly store: Store;
  /** The problems of the source and of its objects. */
  readonly problems: ProblemBoard;
  /** The state of the source. */
  readonly figures: () => SourceFigures;
  /** The servers that the source chooses from; none if it is not a gRPC server. */
  readonly servers: () => readonly SourceServer[];
  /** Resolves when the signal has stopped the source; rejects if the source cannot work. */
  readonly ended: Promise<void>;
}

/** Follow what the source does. */
export interface Observers extends Pick<SourceOptions, "onApiRequest" | "onLink"> {
  /** Takes the problems of the source and of its objects, besides the board. */
  readonly onProblems?: ReportProblems;
}

/** Opens the configured source and fills a store from it until the signal is aborted. */
export async function openClusterStore(
  invocation: Invocation,
  signal: AbortSignal,
  observers: Observers = {},
): Promise<ClusterStore> {
  const { configuration: { source: choice }, clock, logger } = invocation;
  if (choice.kind === "grpc" && choice.scope === "local") {
    throw new Error("--local streams only what one node needs; the whole cluster's state is required (remove --local)");
  }
  const { createStore } = await import("../../kpng/store/mod.ts");
  const { openSource } = await import("../../sources/mod.ts");
  const problems = createProblemBoard(clock, logger);
  const { onProblems = () => {} } = observers;
  const report: ReportProblems = (...given) => {
    problems.report(...given);
    onProblems(...given);
  };
  const store = createStore({ clock, onProblems: report });
  const { source, close } = await openSource({ ...invocation, ...observers }, readDetailFilters(invocation));
  const { sink, lastEventMs } = withLastEvent(store, clock);
  return {
    store,
    problems,
    figures: () => ({ isReady: store.ready(), lastEventMs: lastEventMs() }),
    servers: () => source.servers?.() ?? [],
    ended: source.run(sink, signal).finally(close),
  };
}

/** A sink that notes the time of its last call, in milliseconds since 1970; problems do not count. */
function withLastEvent(sink: SourceSink, clock: Clock): { sink: SourceSink; lastEventMs(): number | undefined } {
  let lastEventMs: number | undefined;
  const noting = <A extends readonly unknown[]>(pass: (...given: A) => void) => (...given: A) => {
    lastEventMs = clock.now();
    pass(...given);
  };
  return {
    sink: {
      set: noting(sink.set),
      delete: noting(sink.delete),
      reset: noting(sink.reset),
      synced: noting(sink.synced),
      problems: sink.problems,
    },
    lastEventMs: () => lastEventMs,
  };
}
