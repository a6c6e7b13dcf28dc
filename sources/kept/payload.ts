/** Objects as compressed lines (gzip). */
import { CLUSTER_OBJECTS, type ClusterObject, type Kind } from "../../core/objects/mod.ts";
import { type Clock, startTurn } from "../../platform/mod.ts";

/** Compressed objects. */
interface Packed {
  readonly payload: Uint8Array<ArrayBuffer>;
  /** The total time for which the event loop was blocked, in milliseconds. */
  readonly busyMs: number;
}

/** The text compressed at once, in characters: about a millisecond of work. */
const PIECE = 32_768;
/** The maximum time without yielding, in milliseconds: a change of the cluster waits no longer than this. */
const TURN_MS = 5;

/** Compresses objects, in pieces; objects that are added, changed or deleted meanwhile may be missing from the result. */
export async function packObjects(objects: Iterable<ClusterObject>, clock: Clock): Promise<Packed> {
  const gzip = new CompressionStream("gzip");
  const packed = new Response(gzip.readable).bytes();
  const writer = gzip.writable.getWriter();
  const encoder = new TextEncoder();
  const yieldTurn = startTurn(clock, TURN_MS);
  let busyMs = 0;
  let startMs = clock.monotonic();
  let piece = "";
  const flush = async () => {
    await writer.write(encoder.encode(piece));
    piece = "";
    busyMs += clock.monotonic() - startMs;
    await yieldTurn();
    startMs = clock.monotonic();
  };
  for (const object of objects) {
    piece += lineOf(object);
    if (piece.length >= PIECE) await flush();
  }
  await flush();
  await writer.close();
  return { payload: await packed, busyMs };
}

/** The maximum length of a line, in characters. */
const MOST_LINE = 16 * 2 ** 20;

/** Reads compressed objects, in pieces. Throws an Error if they are not of this version. */
export async function unpackObjects(payload: Uint8Array<ArrayBuffer>, clock: Clock): Promise<readonly ClusterObject[]> {
  const yieldTurn = startTurn(clock);
  const objects: ClusterObject[] = [];
  let rest = "";
  const text = new Blob([payload]).stream().pipeThrough(new DecompressionStream("gzip"))
    .pipeThrough(new TextDecoderStream());
  for await (const piece of text) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop()!;
    if (rest.length > MOST_LINE) throw new Error(`a line of more than ${MOST_LINE / 2 ** 20} MiB`);
    for (const line of lines) objects.push(objectOfLine(line));
    await yieldTurn();
  }
  if (rest !== "") throw new Error("its last line is incomplete");
  return objects;
}

/** The fields that are not kept: only changes after the start of a proxy count for its metrics and Events. */
const NOT_KEPT: Partial<Record<Kind, object>> = {
  EndpointSlice: { triggerTimeMs: 0, origin: undefined },
  Node: { uid: undefined },
};

/** Formats an object as a line. */
export function lineOf(object: ClusterObject): string {
  const without = NOT_KEPT[object.kind];
  return `${JSON.stringify(without ? { ...object, ...without } : object)}\n`;
}

/** Parses the line of an object. Throws an Error if it is not an object of this version. */
export function objectOfLine(line: string): ClusterObject {
  const value = JSON.parse(line);
  const kind = value?.kind as Kind;
  if (!Object.hasOwn(CLUSTER_OBJECTS, kind)) throw new Error("an object of an unknown kind");
  const { wrongField, share } = CLUSTER_OBJECTS[kind];
  const wrong = wrongField(value);
  if (wrong !== undefined) throw new Error(`${kind} with an invalid field ${wrong}`);
  return share!(value as never);
}
