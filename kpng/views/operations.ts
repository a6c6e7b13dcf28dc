import type { ClusterScoped, ServiceState, StoreDifference, StoreState } from "../store/mod.ts";
import { OP_ITEM, type OpItemMessage } from "../messages/mod.ts";
import type { View, WireItem } from "./view.ts";

/** How a round ends. */
export const SYNC: Uint8Array<ArrayBuffer> = OP_ITEM.encode({ sync: {} });

/** Tells a watcher to forget everything. */
export const RESET: Uint8Array<ArrayBuffer> = OP_ITEM.encode({ reset: {} });

/** The difference to nothing: what a watcher is told after a `Reset`. */
export function everythingOf({ services, scoped }: StoreState): StoreDifference {
  return {
    services: services.map((after) => ({ before: undefined, after })),
    scoped: scoped.map((after) => ({ before: undefined, after })),
  };
}

/**
 * The operations that bring a watcher from one state to another; none where its view of both is the same. Services come
 * before their endpoints, and go after them. A watcher whose view was another one before (its node moved to another
 * zone) says so.
 */
export function* difference(
  { services, scoped }: StoreDifference,
  view: View,
  viewBefore: View = view,
): Generator<Uint8Array<ArrayBuffer>, void> {
  const gone: Uint8Array<ArrayBuffer>[] = [];
  for (const one of scoped) {
    yield* ofOne(scopedItem(one.before, viewBefore), scopedItem(one.after, view), gone);
  }
  for (const one of services) {
    yield* ofOne(serviceItem(one.before, viewBefore), serviceItem(one.after, view), gone);
  }
  for (const { before, after } of services) {
    // What both have in common may only be left out where both are seen alike.
    const comparable = view === viewBefore;
    const earlier = before === undefined ? [] : viewBefore.endpoints(before, comparable ? after : undefined);
    const later = after === undefined ? [] : view.endpoints(after, comparable ? before : undefined);
    yield* ofMany(earlier, later, gone);
  }
  for (let i = gone.length - 1; i >= 0; i--) yield gone[i]!;
}

function* ofOne(
  before: WireItem | undefined,
  after: WireItem | undefined,
  gone: Uint8Array<ArrayBuffer>[],
): Generator<Uint8Array<ArrayBuffer>, void> {
  if (after !== undefined && after.hash !== before?.hash) yield setOperation(after);
  if (after === undefined && before !== undefined) gone.push(deleteOperation(before));
}

function* ofMany(
  before: readonly WireItem[],
  after: readonly WireItem[],
  gone: Uint8Array<ArrayBuffer>[],
): Generator<Uint8Array<ArrayBuffer>, void> {
  const earlier = new Map(before.map((item) => [item.path, item]));
  const later = new Map(after.map((item) => [item.path, item]));
  for (const item of later.values()) if (earlier.get(item.path)?.hash !== item.hash) yield setOperation(item);
  for (const item of earlier.values()) if (!later.has(item.path)) gone.push(deleteOperation(item));
}

function serviceItem(state: ServiceState | undefined, view: View): WireItem | undefined {
  return state === undefined ? undefined : view.service(state);
}

function scopedItem(object: ClusterScoped | undefined, view: View): WireItem | undefined {
  return object === undefined ? undefined : view.scoped(object);
}

function setOperation({ set, path, bytes }: WireItem): Uint8Array<ArrayBuffer> {
  return encode({ set: { ref: { set, path }, bytes } });
}

function deleteOperation({ set, path }: WireItem): Uint8Array<ArrayBuffer> {
  return encode({ delete: { set, path } });
}

function encode(operation: OpItemMessage): Uint8Array<ArrayBuffer> {
  return OP_ITEM.encode(operation);
}
