import type { DetailFilters, SourceServer, SourceSink } from "../core/objects/mod.ts";
import { createProblemBoard, type ProblemBoard, type ReportProblems } from "../core/problems/mod.ts";
import { createStore, type Store } from "../kpng/store/mod.ts";
import type { Clock } from "../platform/mod.ts";
import { openSource, type SourceOptions } from "../sources/mod.ts";

interface ClusterStore {
  readonly store: Store;
  /** The problems of the source and of its objects. */
  readonly problems: ProblemBoard;
  /** When the source last reported something, in milliseconds since 1970; undefined before the first report. */
  readonly lastEventMs: () => number | undefined;
  /** The servers that the source chooses from; none if it is not a gRPC server. */
  readonly servers: () => readonly SourceServer[];
  /** Fills the store until the signal is aborted; rejects if the source cannot work. */
  run(): Promise<void>;
}

/** Options of `openClusterStore`. */
export interface ClusterOptions extends Omit<SourceOptions, "kept" | "isOfNode"> {
  readonly details: DetailFilters;
  /** Receives the problems of the source and of its objects, in addition to the board. */
  readonly onProblems?: ReportProblems;
  readonly signal: AbortSignal;
}

/** Opens the configured source, and an empty store for its state. */
export async function openClusterStore(options: ClusterOptions): Promise<ClusterStore> {
  const { configuration: { source: choice }, details, onProblems = () => {}, clock, logger, signal } = options;
  if (choice.kind === "grpc" && choice.scope === "local") {
    throw new Error("--local streams only what one node needs; the whole cluster's state is required (remove --local)");
  }
  const problems = createProblemBoard(clock, logger);
  const report: ReportProblems = (...given) => {
    problems.report(...given);
    onProblems(...given);
  };
  const store = createStore({ clock, onProblems: report });
  const { source, close } = await openSource(options, details);
  const { sink, lastEventMs } = withLastEvent(store, clock);
  return {
    store,
    problems,
    lastEventMs,
    servers: () => source.servers?.() ?? [],
    run: () => source.run(sink, signal).finally(close),
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
