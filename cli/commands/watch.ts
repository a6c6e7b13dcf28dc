import { boolean, option } from "../../config/mod.ts";
import type { DescribedOperation } from "../../kpng/messages/mod.ts";
import { sleep } from "../../platform/mod.ts";
import type { Command, Invocation } from "./command.ts";
import { feedStore } from "./feeding.ts";

const CHOICES = ["services", "endpoints", "nodes", "local"] as const;

/** The stream of changes, on standard output. */
export const watchCommand: Command = {
  lasts: true,
  name: "watch",
  summary: "Print the cluster's state and its changes as they come.",
  arguments: [{
    name: CHOICES.join("|"),
    description: "only this; local for what this node may use; everything by default",
    required: false,
    values: CHOICES,
  }],
  flags: [option("json", boolean(), "A JSON object a line.")],
  examples: [
    { line: "sluice watch endpoints", does: "every endpoint that comes, changes or goes" },
    { line: "sluice watch local --source grpc://10.0.0.1:12090", does: "what a server's nodes like this one are told" },
  ],
  async start(invocation) {
    const [choice] = invocation.arguments;
    const { store, ended } = await feedStore(invocation, invocation.signal);
    await Promise.race([printChanges(store, choice, invocation), ended]);
    return 0;
  },
};

async function printChanges(
  store: Awaited<ReturnType<typeof feedStore>>["store"],
  choice: string | undefined,
  { configuration: { nodeName }, clock, flags, print, signal }: Invocation,
): Promise<void> {
  const { createAnswers } = await import("../../kpng/server/mod.ts");
  const { createWakeups } = await import("../../kpng/server/mod.ts");
  const { createPlaces } = await import("../../kpng/server/mod.ts");
  const { serveWatcher } = await import("../../kpng/server/mod.ts");
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
  const { changed } = createWakeups(store, clock);
  try {
    const places = createPlaces(1);
    await serveWatcher(stream, { answers: createAnswers(store, clock), clock, signal, changed, places });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** `+` for what is new, `~` for what is different, `-` for what is gone. The end of a round is an empty line. */
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
