import { boolean, option } from "../../config/mod.ts";
import type { DescribedOperation } from "../../kpng/messages/mod.ts";
import { sleep } from "../../platform/mod.ts";
import type { Command, Invocation } from "./command.ts";
import { openClusterStore } from "./cluster_store.ts";
import { DETAIL_FLAGS } from "./detail_flags.ts";

const CHOICES = ["services", "endpoints", "nodes", "local"] as const;

/** `sluice watch`: the stream of changes on standard output. */
export const watchCommand: Command = {
  lasts: true,
  name: "watch",
  summary: "Print the cluster's state and its changes as they arrive.",
  arguments: [{
    name: CHOICES.join("|"),
    description: "only this kind; local: only what this node needs; everything by default",
    required: false,
    values: CHOICES,
  }],
  flags: [option("json", boolean(), "Print one JSON object per line."), ...DETAIL_FLAGS],
  examples: [
    { line: "sluice watch endpoints", does: "added, changed and removed endpoints" },
    { line: "sluice watch local --source grpc://10.0.0.1:12090", does: "what a server sends to this node" },
  ],
  async start(invocation) {
    const [choice] = invocation.arguments;
    const { store, ended } = await openClusterStore(invocation, invocation.signal);
    await Promise.race([printChanges(store, choice, invocation), ended]);
    return 0;
  },
};

async function printChanges(
  store: Awaited<ReturnType<typeof openClusterStore>>["store"],
  choice: string | undefined,
  { configuration: { nodeName }, clock, flags, print, signal }: Invocation,
): Promise<void> {
  const { createAnswers, createSemaphore, createChangeWaiters, serveWatcher } = await import(
    "../../kpng/server/mod.ts"
  );
  const { describeOperation } = await import("../../kpng/messages/mod.ts");
  const { createFrameReader } = await import("../../kpng/transport/mod.ts");
  const frames = createFrameReader(Number.MAX_SAFE_INTEGER);
  const known = new Set<string>();
  const write = (operation: DescribedOperation) => {
    const isWanted = operation.set === undefined || choice === undefined || choice === "local" ||
      operation.set === choice;
    if (isWanted) print(flags.get("json") === true ? `${JSON.stringify(operation)}\n` : line(operation, known));
  };
  const request = {
    scope: choice === "local" ? "local" : "global",
    nodeName,
    extended: false,
    onlyNode: undefined,
  } as const;
  const stream = {
    nextRequest: () => Promise.resolve(signal.aborted ? undefined : request),
    async write(bytes: Uint8Array) {
      for (const message of frames.push(bytes)) {
        const operation = describeOperation(message);
        if (operation !== undefined) write(operation);
      }
      await sleep(clock, 0, signal);
    },
  };
  const { changed } = createChangeWaiters(store, clock);
  try {
    const transfers = createSemaphore(1);
    await serveWatcher(stream, { answers: createAnswers(store, clock), clock, signal, changed, transfers });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** Formats an operation: `+` added, `~` changed, `-` removed; an empty line ends a batch. */
function line({ op, set = "services", path = "", text = "" }: DescribedOperation, known: Set<string>): string {
  if (op === "reset") return "";
  if (op === "sync") return "\n";
  const key = `${set} ${path}`;
  const sign = op === "delete" ? "-" : known.has(key) ? "~" : "+";
  if (op === "delete") known.delete(key);
  else known.add(key);
  const [name] = /^(.*?)(\|\|)?$/.exec(path)!.slice(1);
  return `${sign} ${set.slice(0, -1).padEnd(8)} ${name!.replace(/^\|/, "")} ${text}`.trimEnd() + "\n";
}
