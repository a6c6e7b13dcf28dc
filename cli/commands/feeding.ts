/** What the commands that hand the cluster's state on have in common: a store, and the source that fills it. */
import type { Store } from "../../kpng/store/mod.ts";
import type { Invocation } from "./command.ts";

/** A store that a source fills. */
export interface Feed {
  readonly store: Store;
  /** Resolves when the source has ended, which is with the signal; rejects where it never will work. */
  readonly ended: Promise<void>;
}

/** Opens the source that the configuration names, and lets it fill a store until the signal. */
export async function feedStore(invocation: Invocation, signal: AbortSignal): Promise<Feed> {
  const { configuration: { source: choice }, clock, logger } = invocation;
  if (choice.kind === "grpc" && choice.scope === "local") {
    throw new Error("--local: what one node may use is not the state of the cluster, and cannot be handed on as such");
  }
  const { createStore } = await import("../../kpng/store/mod.ts");
  const { openSource } = await import("../../sources/mod.ts");
  const store = createStore({ clock, onProblem: (where, message) => logger.warn(message, { object: where }) });
  const { source, close } = await openSource(invocation, "everything");
  return { store, ended: source.run(store, signal).finally(close) };
}
