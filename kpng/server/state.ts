import type { Clock } from "../../platform/mod.ts";
import type { Store } from "../store/mod.ts";
import { type Answers, createAnswers } from "./answers.ts";

/** The revisions of a store, in this isolate or another one. */
export type Revisions = Pick<Store, "ready" | "revision" | "subscribe">;

/** The state that watchers receive. */
export interface ServedState {
  readonly revisions: Revisions;
  readonly answers: Answers;
}

/** The state of a store in this isolate. */
export function stateOf(store: Store, clock: Clock): ServedState {
  return { revisions: store, answers: createAnswers(store, clock) };
}
