/** A store with the cluster's state, for the commands that serve, export and watch it. */
import { createProblemBoard } from "../../core/problems/mod.ts";
import type { Store } from "../../kpng/store/mod.ts";
import type { Invocation } from "./command.ts";

/** A store that a source keeps up to date. */
export interface ClusterStore {
  readonly store: Store;
  /** Resolves when the signal has stopped the source; rejects if the source cannot work. */
  readonly ended: Promise<void>;
}

/** Opens the configured source and fills a store from it until the signal is aborted. */
export async function openClusterStore(invocation: Invocation, signal: AbortSignal): Promise<ClusterStore> {
  const { configuration: { source: choice }, clock, logger } = invocation;
  if (choice.kind === "grpc" && choice.scope === "local") {
    throw new Error("--local streams only what one node needs; the whole cluster's state is required (remove --local)");
  }
  const { createStore } = await import("../../kpng/store/mod.ts");
  const { openSource } = await import("../../sources/mod.ts");
  const store = createStore({ clock, onProblems: createProblemBoard(clock, logger).report });
  const { source, close } = await openSource(invocation, "everything");
  return { store, ended: source.run(store, signal).finally(close) };
}
