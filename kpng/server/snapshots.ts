import type { NodeContext } from "../../core/planning/mod.ts";
import { joinBytes } from "../../platform/mod.ts";
import type { ServiceState, StoreState } from "../store/mod.ts";
import { framesOf, sharedFramesOf } from "../transport/mod.ts";
import { difference, everythingOf, type LocalViews, type View } from "../views/mod.ts";

/** Operations in chunks, so that the writer can wait in between. */
export interface Chunks {
  /** The number of chunks that are kept for several watchers; undefined if each can be read once, in order. */
  readonly sharedId: number | undefined;
  /** The chunk at this index; undefined after the last one. */
  at(index: number): Uint8Array | undefined;
}

/** Chunks that may be computed by another isolate. */
export interface AwaitedChunks {
  /** The chunk at this index; undefined after the last one. */
  at(index: number): Uint8Array | undefined | Promise<Uint8Array | undefined>;
}

/** The size of a chunk: about HTTP/2's default window, so that a reader with that window takes each one without a pause. */
const CHUNK_BYTES = 60 * 1024;

/** Chunks that are created on demand and not kept: each can be read once, in order. */
export function lazyChunks(operations: Iterable<Uint8Array>): Chunks {
  const iterator = operations[Symbol.iterator]();
  return { sharedId: undefined, at: () => nextChunk(iterator, framesOf) };
}

let sharedChunksMade = 0;

/** Chunks that are created on demand and kept for other watchers, in memory that workers can share. */
export function sharedChunks(operations: Iterable<Uint8Array>): Chunks {
  const iterator = operations[Symbol.iterator]();
  const made: (Uint8Array | undefined)[] = [];
  return {
    sharedId: ++sharedChunksMade,
    at(index) {
      while (made.length <= index && (made.length === 0 || made[made.length - 1] !== undefined)) {
        made.push(nextChunk(iterator, sharedFramesOf));
      }
      return made[index];
    },
  };
}

/** Chunks of frames that are created on demand and not kept; long pieces are split, the others stay as they are. */
function splitChunks(pieces: Iterable<Uint8Array<ArrayBuffer>>): Chunks {
  const iterator = pieces[Symbol.iterator]();
  let piece: Uint8Array<ArrayBuffer> | undefined;
  return {
    sharedId: undefined,
    at() {
      while (piece === undefined || piece.length === 0) {
        const { done, value } = iterator.next();
        if (done) return undefined;
        piece = value;
      }
      const chunk = piece.subarray(0, CHUNK_BYTES);
      piece = piece.subarray(chunk.length);
      return chunk;
    },
  };
}

function nextChunk<T>(iterator: Iterator<Uint8Array>, frame: (messages: readonly Uint8Array[]) => T): T | undefined {
  const messages: Uint8Array[] = [];
  let bytes = 0;
  while (bytes < CHUNK_BYTES) {
    const { done, value } = iterator.next();
    if (done) break;
    messages.push(value);
    bytes += value.length;
  }
  return messages.length === 0 ? undefined : frame(messages);
}

/** All services and endpoints at one revision, for any number of nodes. */
export interface LocalSnapshot {
  readonly state: StoreState;
  /** The parts of a node's snapshot: services, then endpoints. */
  partsFor(node: NodeContext): readonly Chunks[];
}

/** Endpoints of consecutive services that most nodes of a zone receive. */
interface Block {
  readonly states: readonly ServiceState[];
  /** The frames of their endpoints, for a node that has none of them. */
  readonly frames: Uint8Array<ArrayBuffer>;
  /** Where the frames of each service end. */
  readonly ends: readonly number[];
  /** The positions of the services that have endpoints on a node, by its name. */
  readonly differing: ReadonlyMap<string, readonly number[]>;
}

/** The number of endpoints from which a block is complete: about one chunk. */
const ENDPOINTS_PER_BLOCK = 400;

/** A snapshot of this state. What nodes have in common is encoded once. */
export function createLocalSnapshot(state: StoreState, views: LocalViews): LocalSnapshot {
  const view: View = { ...views.of({ name: "", zone: "" }), endpoints: () => [] };
  const services = sharedChunks(difference({ ...everythingOf(state), scoped: [] }, view));
  const zones = new Map<string, ReturnType<typeof createBlocks>>();

  return {
    state,
    partsFor(node) {
      let blocks = zones.get(node.zone);
      if (blocks === undefined) zones.set(node.zone, blocks = createBlocks(state.services, views, node.zone));
      return [services, splitChunks(endpointsFor(node, blocks, views.of(node)))];
    },
  };
}

/** The frames of all endpoints that a node receives. */
function* endpointsFor(
  { name }: NodeContext,
  blocks: ReturnType<typeof createBlocks>,
  view: View,
): Generator<Uint8Array<ArrayBuffer>, void> {
  for (let i = 0;; i++) {
    const block = blocks.at(i);
    if (block === undefined) break;
    const differing = block.differing.get(name);
    yield differing === undefined ? block.frames : joinBytes(piecesOf(block, differing, view));
  }
  for (const state of blocks.ofEachNode()) yield framesOfEndpoints(state, view);
}

/** The frames of a block. The services at the `differing` positions are encoded from the node's own view. */
function* piecesOf(
  { states, frames, ends }: Block,
  differing: readonly number[],
  view: View,
): Generator<Uint8Array<ArrayBuffer>, void> {
  let copied = 0;
  for (const i of differing) {
    yield frames.subarray(copied, ends[i - 1] ?? 0);
    yield framesOfEndpoints(states[i]!, view);
    copied = ends[i]!;
  }
  yield frames.subarray(copied);
}

/** The blocks of a zone, created on demand and cached, and the services whose endpoints differ on every node. */
function createBlocks(services: readonly ServiceState[], views: LocalViews, zone: string) {
  const common = views.of({ name: "", zone });
  const made: Block[] = [];
  const ofEachNode: ServiceState[] = [];
  let next = 0;

  const nextBlock = (): Block | undefined => {
    const states: ServiceState[] = [], pieces: Uint8Array<ArrayBuffer>[] = [], ends: number[] = [];
    const differing = new Map<string, number[]>();
    let endpoints = 0, end = 0;
    while (next < services.length && endpoints < ENDPOINTS_PER_BLOCK) {
      const state = services[next++]!;
      const nodes = views.differing(state, zone);
      if (nodes === undefined) {
        ofEachNode.push(state);
        continue;
      }
      const items = common.endpoints(state, undefined);
      if (items.length === 0) continue;
      for (const node of nodes) {
        const positions = differing.get(node);
        if (positions === undefined) differing.set(node, [states.length]);
        else positions.push(states.length);
      }
      endpoints += items.length;
      states.push(state);
      pieces.push(framesOf(items.map(({ operation }) => operation)));
      end += pieces.at(-1)!.length;
      ends.push(end);
    }
    return states.length === 0 ? undefined : { states, frames: joinBytes(pieces), ends, differing };
  };

  return {
    at(index: number): Block | undefined {
      const known = made[index];
      if (known !== undefined) return known;
      const block = nextBlock();
      if (block !== undefined) made.push(block);
      return block;
    },
    /** Complete after the last block. */
    ofEachNode: () => ofEachNode,
  };
}

function framesOfEndpoints(state: ServiceState, view: View): Uint8Array<ArrayBuffer> {
  return framesOf(view.endpoints(state, undefined).map(({ operation }) => operation));
}
