import { sha256 } from "@noble/hashes/sha2.js";
import { OP_ITEM } from "../messages/mod.ts";
import type { ClusterScoped, ServiceState, StoreDifference, StoreState } from "../store/mod.ts";

/** An entry of a set: the wire's `Value`, encoded. */
export interface WireItem {
  readonly set: number;
  readonly path: string;
  /** Its content without times; an item with the same content is not sent again. */
  readonly content: Uint8Array<ArrayBuffer>;
  readonly operation: Uint8Array<ArrayBuffer>;
}

/** Encodes an item; `bytes` are sent for the content. */
export function wireItem(
  set: number,
  path: string,
  content: Uint8Array<ArrayBuffer>,
  bytes: Uint8Array<ArrayBuffer> = content,
): WireItem {
  return { set, path, content, operation: OP_ITEM.encode({ set: { ref: { set, path }, bytes } }) };
}

/** The items that one kind of watcher receives. The items of a service depend only on its state. */
export interface View {
  service(state: ServiceState): WireItem | undefined;
  /** May omit items that are the same in `other`, an earlier or later state of the service. */
  endpoints(state: ServiceState, other: ServiceState | undefined): readonly WireItem[];
  scoped(object: ClusterScoped): WireItem | undefined;
}

/** Ends a round. */
export const SYNC: Uint8Array<ArrayBuffer> = OP_ITEM.encode({ sync: {} });

/** Makes a watcher discard its state. */
export const RESET: Uint8Array<ArrayBuffer> = OP_ITEM.encode({ reset: {} });

/** The difference to an empty state, which a watcher receives after a `Reset`. */
export function everythingOf({ services, scoped }: StoreState): StoreDifference {
  return {
    services: services.map((after) => ({ before: undefined, after })),
    scoped: scoped.map((after) => ({ before: undefined, after })),
  };
}

/**
 * The operations that bring a watcher from one state to another; none if its view of both is the same. Services come before
 * their endpoints, and are deleted after them. `viewBefore` is the watcher's previous view, if it changed because its node moved
 * to another zone.
 */
export function* difference(
  { services, scoped }: StoreDifference,
  view: View,
  viewBefore: View = view,
): Generator<Uint8Array<ArrayBuffer>, void> {
  const gone: Uint8Array<ArrayBuffer>[] = [];
  for (const one of scoped) {
    yield* ofOne(one.before && viewBefore.scoped(one.before), one.after && view.scoped(one.after), gone);
  }
  for (const { before, after } of services) {
    // A service's item does not depend on its endpoints.
    if (before?.service === after?.service) continue;
    yield* ofOne(before && viewBefore.service(before), after && view.service(after), gone);
  }
  for (const { before, after } of services) {
    // Common items may only be omitted if both states have the same view.
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
  if (after !== undefined && !sameContent(before, after)) yield after.operation;
  if (after === undefined && before !== undefined) gone.push(deleteOperation(before));
}

function* ofMany(
  before: readonly WireItem[],
  after: readonly WireItem[],
  gone: Uint8Array<ArrayBuffer>[],
): Generator<Uint8Array<ArrayBuffer>, void> {
  const earlier = new Map(before.map((item) => [item.path, item]));
  const later = new Map(after.map((item) => [item.path, item]));
  for (const item of later.values()) if (!sameContent(earlier.get(item.path), item)) yield item.operation;
  for (const item of earlier.values()) if (!later.has(item.path)) gone.push(deleteOperation(item));
}

/** Whether two items with the same path are the same: hashes in paths are not relied upon. */
function sameContent(before: WireItem | undefined, after: WireItem): boolean {
  if (before === undefined || before === after) return before === after;
  const { content } = after;
  return before.content.length === content.length && before.content.every((byte, i) => byte === content[i]);
}

function deleteOperation({ set, path }: WireItem): Uint8Array<ArrayBuffer> {
  return OP_ITEM.encode({ delete: { set, path } });
}

/** Parts of the SHA-256 of some content. */
interface ContentHash {
  /** 64 bits, for KPNG's hash fields. */
  readonly value: bigint;
  /** 96 bits in base64url, for paths. */
  readonly text: string;
}

const TEXT_BYTES = 12;

/** Hashes bytes: equal bytes have equal hashes in every process. */
export function contentHash(bytes: Uint8Array): ContentHash {
  const digest = sha256(bytes);
  const value = new DataView(digest.buffer, digest.byteOffset).getBigUint64(0);
  return { value, text: digest.subarray(0, TEXT_BYTES).toBase64({ alphabet: "base64url" }) };
}
