import { Session } from "node:inspector";
import { systemClock } from "../../platform/clock.ts";

/** Categories of heap objects. */
export const CONTENTS = ["text", "lists and tables", "objects", "code and the rest"] as const;

/** A category of heap objects. */
export type Content = typeof CONTENTS[number];

/** Bytes by category. */
export type HeapAccount = Readonly<Record<Content, number>>;

/** The needed part of a heap snapshot in V8's format. */
interface Snapshot {
  readonly snapshot: {
    readonly meta: { readonly node_fields: readonly string[]; readonly node_types: readonly [readonly string[]] };
  };
  /** The fields of all nodes, concatenated. */
  readonly nodes: readonly number[];
}

const CONTENT_OF: Readonly<Record<string, Content>> = {
  "string": "text",
  "concatenated string": "text",
  "sliced string": "text",
  "array": "lists and tables",
  "object": "objects",
};

/** Measures this isolate's heap without garbage, which the snapshot collects first. */
export async function takeHeapAccount(): Promise<HeapAccount> {
  const { snapshot: { meta }, nodes } = await takeSnapshot();
  const type = meta.node_fields.indexOf("type"), size = meta.node_fields.indexOf("self_size");
  const account: Record<Content, number> = { text: 0, "lists and tables": 0, objects: 0, "code and the rest": 0 };
  for (let at = 0; at < nodes.length; at += meta.node_fields.length) {
    const kind = meta.node_types[0][nodes[at + type]!]!;
    account[CONTENT_OF[kind] ?? "code and the rest"] += nodes[at + size]!;
  }
  return account;
}

/** The growth of the heap between two measurements. */
export function heapGrowth(before: HeapAccount, after: HeapAccount): HeapAccount {
  return Object.fromEntries(CONTENTS.map((content) => [content, after[content] - before[content]])) as Record<
    Content,
    number
  >;
}

const DEADLINE_MS = 60_000;
const session = new Session();
let chunks: string[] | undefined;

function takeSnapshot(): Promise<Snapshot> {
  if (chunks === undefined) {
    session.connect();
    session.on("HeapProfiler.addHeapSnapshotChunk", ({ params }) => chunks?.push(params.chunk));
  }
  chunks = [];
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // Without a pending timer, Deno would exit.
  const cancel = systemClock.schedule(DEADLINE_MS, () => reject(new Error("no heap snapshot within a minute")));
  session.post("HeapProfiler.takeHeapSnapshot", {}, (error) => error ? reject(error) : resolve());
  return promise.finally(cancel).then(() => {
    const text = chunks!.join("");
    chunks = [];
    return JSON.parse(text);
  });
}
