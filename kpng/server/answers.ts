import type { Clock } from "../../platform/mod.ts";
import type { Change, ServiceState, Store, StoreDifference, StoreState } from "../store/mod.ts";
import { serviceKey } from "../../core/tracking/mod.ts";
import { createGlobalView, createLocalView, difference, everythingOf, RESET, type View } from "../views/mod.ts";
import { type Chunks, passingChunks, sharedChunks } from "./chunks.ts";

/** What one watcher asked for. */
export interface Subscription {
  readonly scope: "global" | "local";
  /** The node whose local state is wanted. */
  readonly nodeName: string;
  /** Whether the watcher is a Sluice. */
  readonly extended: boolean;
  /** The one node that a global watcher wants to know of; undefined for all. */
  readonly onlyNode: string | undefined;
}

/** Where a watcher stands: what it was told of. */
export interface Position {
  readonly revision: number;
  /** The zone that a local watcher's node was in. */
  readonly zone: string;
}

/** What a watcher is to be told, and where it stands then. */
export interface Answer {
  /** The first one is a `Reset` and nothing else where everything is told. */
  readonly parts: readonly Chunks[];
  readonly position: Position;
}

/** Answers watchers from a store. What many of them are told is made once. */
export interface Answers {
  /** Whether a watcher at that position will be told all there is. */
  tellsEverything(position: Position | undefined): boolean;
  /** What is new for a watcher at that position, or all there is for one at none. May have nothing in it. */
  since(position: Position | undefined, subscription: Subscription): Answer;
}

/** How long the whole state stays at hand after it was made: watchers that come together share it. */
const WHOLE_STATE_MS = 10_000;
/** From how many revisions the step to the newest one stays at hand: the nearer ones are those that many share. */
const STEPS_KEPT = 16;

/** Answers from this store. */
export function createAnswers(store: Store, clock: Clock): Answers {
  // By kind of view: what was made of the whole state, and from each revision to the newest.
  const whole = new Map<boolean, { readonly state: StoreState; readonly chunks: Chunks }>();
  const steps = new Map<string, Chunks>();
  const changes = new Map<number, StoreDifference | undefined>();
  let newest = -1;
  const views = new Map(
    [false, true].map((extended) => [extended, createGlobalView({ extended, nodeName: undefined })]),
  );

  const wholeServices = (extended: boolean) => {
    const known = whole.get(extended);
    if (known !== undefined && changesSince(known.state.revision) !== undefined) return known;
    const state = store.state();
    const made = {
      state,
      chunks: sharedChunks(difference({ ...everythingOf(state), scoped: [] }, views.get(extended)!)),
    };
    whole.set(extended, made);
    clock.schedule(WHOLE_STATE_MS, () => {
      if (whole.get(extended) === made) whole.delete(extended);
    });
    return made;
  };

  /** Forgets what led to an earlier revision than the newest. */
  const keepUp = () => {
    const revision = store.revision();
    if (revision !== newest) {
      steps.clear();
      changes.clear();
    }
    newest = revision;
  };

  const changesSince = (revision: number): StoreDifference | undefined => {
    if (!changes.has(revision)) changes.set(revision, store.since(revision));
    return changes.get(revision);
  };

  const globalStep = (from: number, extended: boolean, services: StoreDifference["services"]): Chunks => {
    const key = `${from} ${extended}`;
    const known = steps.get(key);
    if (known !== undefined) return known;
    const made = sharedChunks(difference({ services, scoped: [] }, views.get(extended)!));
    steps.set(key, made);
    if (steps.size > STEPS_KEPT) steps.delete(steps.keys().next().value!);
    return made;
  };

  const globalAnswer = (past: Position | undefined, { extended, onlyNode }: Subscription): Answer => {
    const view = createGlobalView({ extended, nodeName: onlyNode });
    const changed = past === undefined ? undefined : changesSince(past.revision);
    if (past !== undefined && changed !== undefined) {
      return {
        parts: [
          passingChunks(difference({ scoped: changed.scoped, services: [] }, view)),
          globalStep(past.revision, extended, changed.services),
        ],
        position: { revision: newest, zone: "" },
      };
    }
    const { state, chunks } = wholeServices(extended);
    const later = changesSince(state.revision)!;
    const { scoped } = everythingOf(store.state());
    return {
      parts: [
        passingChunks([RESET]),
        passingChunks(difference({ scoped, services: [] }, view)),
        chunks,
        globalStep(state.revision, extended, later.services),
      ],
      position: { revision: newest, zone: "" },
    };
  };

  const localAnswer = (past: Position | undefined, { extended, nodeName }: Subscription): Answer => {
    const zone = store.node(nodeName)?.zone ?? "";
    const viewIn = (zone: string): View => createLocalView({ extended, node: { name: nodeName, zone } });
    const view = viewIn(zone);
    const position = { revision: newest, zone };
    const changed = past === undefined ? undefined : changesSince(past.revision);
    if (past === undefined || changed === undefined) {
      const everything = difference(everythingOf(store.state()), view);
      return { parts: [passingChunks([RESET]), passingChunks(everything)], position };
    }
    if (past.zone === zone) return { parts: [passingChunks(difference(changed, view))], position };
    const everything = { ...changed, services: allServices(store.state(), changed.services) };
    return { parts: [passingChunks(difference(everything, view, viewIn(past.zone)))], position };
  };

  return {
    tellsEverything(position) {
      keepUp();
      return position === undefined || changesSince(position.revision) === undefined;
    },
    since(position, subscription) {
      keepUp();
      return subscription.scope === "global"
        ? globalAnswer(position, subscription)
        : localAnswer(position, subscription);
    },
  };
}

/** Every service as changed: all of them can look different from another zone. */
function allServices(
  { services }: StoreState,
  changed: readonly Change<ServiceState>[],
): readonly Change<ServiceState>[] {
  const keyOf = ({ namespace, name }: ServiceState) => serviceKey(namespace, name);
  const changedKeys = new Set(changed.map(({ before, after }) => keyOf((before ?? after)!)));
  const others = services.filter((state) => !changedKeys.has(keyOf(state)));
  return [...changed, ...others.map((state) => ({ before: state, after: state }))];
}
