import type { Node } from "../objects/mod.ts";
import type { Change, ServiceState, StoreDifference, StoreState } from "../store/mod.ts";
import { OP_ITEM, type OpItemMessage } from "./messages.ts";
import type { View, WireItem } from "./view.ts";

/** How a round ends. */
export const SYNC: Uint8Array<ArrayBuffer> = OP_ITEM.encode({ sync: {} });

/** Tells a watcher to forget everything. */
export const RESET: Uint8Array<ArrayBuffer> = OP_ITEM.encode({ reset: {} });

/** The operations that tell a watcher everything, from a `Reset` on; without the `Sync` that ends the round. */
export function* wholeState(state: StoreState, view: View): Generator<Uint8Array<ArrayBuffer>, void> {
  yield RESET;
  yield* difference(everythingOf(state), view);
}

/** A difference in which all there is was nothing before. */
function everythingOf({ services, nodes }: StoreState): StoreDifference {
  return {
    services: services.map((after) => ({ before: undefined, after })),
    nodes: nodes.map((after) => ({ before: undefined, after })),
  };
}

/**
 * The operations that bring a watcher from one state to another; none where its view of both is the same. Services come
 * before their endpoints, and go after them. A watcher whose view was another one before (its node moved to another
 * zone) says so.
 */
export function* difference(
  { services, nodes }: StoreDifference,
  view: View,
  viewBefore: View = view,
): Generator<Uint8Array<ArrayBuffer>, void> {
  const gone: Uint8Array<ArrayBuffer>[] = [];
  for (const one of nodes) {
    yield* ofOne(view.sets.nodes, nodeItem(one.before, viewBefore), nodeItem(one.after, view), gone);
  }
  for (const one of services) {
    yield* ofOne(view.sets.services, serviceItem(one.before, viewBefore), serviceItem(one.after, view), gone);
  }
  for (const { before, after } of services) {
    // What both have in common may only be left out where both are seen alike.
    const comparable = view === viewBefore;
    const earlier = before === undefined ? [] : viewBefore.endpoints(before, comparable ? after : undefined);
    const later = after === undefined ? [] : view.endpoints(after, comparable ? before : undefined);
    yield* ofMany(view.sets.endpoints, earlier, later, gone);
  }
  for (let i = gone.length - 1; i >= 0; i--) yield gone[i]!;
}

function* ofOne(
  set: number,
  before: WireItem | undefined,
  after: WireItem | undefined,
  gone: Uint8Array<ArrayBuffer>[],
): Generator<Uint8Array<ArrayBuffer>, void> {
  if (after !== undefined && after.hash !== before?.hash) yield setOperation(set, after);
  if (after === undefined && before !== undefined) gone.push(deleteOperation(set, before.path));
}

function* ofMany(
  set: number,
  before: readonly WireItem[],
  after: readonly WireItem[],
  gone: Uint8Array<ArrayBuffer>[],
): Generator<Uint8Array<ArrayBuffer>, void> {
  const earlier = new Map(before.map(({ path, hash }) => [path, hash]));
  const later = new Map(after.map((item) => [item.path, item]));
  for (const item of later.values()) if (earlier.get(item.path) !== item.hash) yield setOperation(set, item);
  for (const path of earlier.keys()) if (!later.has(path)) gone.push(deleteOperation(set, path));
}

function serviceItem(state: ServiceState | undefined, view: View): WireItem | undefined {
  return state === undefined ? undefined : view.service(state);
}

function nodeItem(node: Change<Node>["after"], view: View): WireItem | undefined {
  return node === undefined ? undefined : view.node(node);
}

function setOperation(set: number, { path, bytes }: WireItem): Uint8Array<ArrayBuffer> {
  return encode({ set: { ref: { set, path }, bytes } });
}

function deleteOperation(set: number, path: string): Uint8Array<ArrayBuffer> {
  return encode({ delete: { set, path } });
}

function encode(operation: OpItemMessage): Uint8Array<ArrayBuffer> {
  return OP_ITEM.encode(operation);
}
