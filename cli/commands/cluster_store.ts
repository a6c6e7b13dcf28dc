/** A store with the cluster's state, for the commands that serve, export and watch it. */
import type { Invocation } from "./command.ts";
import { type Flag, option } from "../../config/mod.ts";
import type { DetailFilters, KeyFilter, SourceServer, SourceSink } from "../../core/objects/mod.ts";
import { createProblemBoard, type ProblemBoard, type ReportProblems } from "../../core/problems/mod.ts";
import type { Store } from "../../kpng/store/mod.ts";
import type { SourceFigures } from "../../observe/serving/mod.ts";
import type { Clock } from "../../platform/mod.ts";
import type { SourceOptions } from "../../sources/mod.ts";

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

/** Observers of the source. */
interface Observers extends Pick<SourceOptions, "onApiRequest" | "onLink"> {
  /** Receives the problems of the source and of its objects, in addition to the board. */
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

/** KPNG's default for the labels of nodes. */
const NODE_LABELS = ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
/** The characters of the keys of labels and annotations, and the wildcards. */
const PATTERN = /^[A-Za-z0-9._/*?-]+$/;

/** The flags, each with a list of patterns. */
export const DETAIL_FLAGS: readonly Flag[] = [
  details("service-labels", "labels of services", []),
  details("service-annotations", "annotations of services", []),
  details("node-labels", "labels of nodes", NODE_LABELS),
  details("node-annotations", "annotations of nodes", []),
];

function details(name: string, what: string, initial: readonly string[]): Flag {
  const description =
    `The ${what} to include from the API server or manifests: keys, in which * stands for any text and ? ` +
    `for a character; ${initial.length === 0 ? "none" : initial.join(", ")} by default.`;
  return option(`with-${name}`, { kind: "texts", initial }, description);
}

/** Reads the flags. Throws an Error that names the invalid one. */
function readDetailFilters({ flags }: Pick<Invocation, "flags">): DetailFilters {
  const filter = (name: string): KeyFilter => {
    const { field } = DETAIL_FLAGS.find((flag) => flag.name === name)!;
    return keyFilter(name, (flags.get(name) ?? field.initial) as readonly string[]);
  };
  return {
    serviceLabels: filter("with-service-labels"),
    serviceAnnotations: filter("with-service-annotations"),
    nodeLabels: filter("with-node-labels"),
    nodeAnnotations: filter("with-node-annotations"),
  };
}

function keyFilter(flag: string, patterns: readonly string[]): KeyFilter {
  const expressions = patterns.map((given) => {
    const pattern = given.trim();
    if (!PATTERN.test(pattern)) {
      throw new Error(`--${flag}: ${JSON.stringify(pattern)} must be a key, in which * and ? are wildcards`);
    }
    return new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", ".*").replaceAll("?", ".")}$`);
  });
  return (key) => expressions.some((expression) => expression.test(key));
}
