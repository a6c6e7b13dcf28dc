import { abortedBy } from "../../platform/mod.ts";
import { basename, dirname, join } from "node:path";
import { option, text } from "../../config/mod.ts";
import type { Store } from "../../kpng/store/mod.ts";
import type { Command, Invocation } from "./command.ts";
import { openClusterStore } from "./cluster_store.ts";
import { DETAIL_FLAGS } from "./detail_flags.ts";

/** `sluice export`: the cluster's state as a file. */
export const exportCommand: Command = {
  lasts: true,
  name: "export",
  summary: "Write the cluster's state to a file, in KPNG's format, after each change.",
  arguments: [],
  flags: [
    option("to", text(), "The file, replaced atomically; - prints to standard output once and exits."),
    ...DETAIL_FLAGS,
  ],
  examples: [
    { line: "sluice export --to -", does: "the current state at the API server" },
    { line: "sluice export --source unix:///run/sluice.sock --to /run/state.yaml", does: "keep a file up to date" },
  ],
  async start(invocation) {
    const to = invocation.flags.get("to") as string | undefined;
    if (!to) throw new Error("--to is required: a file, or - for standard output");
    const done = new AbortController();
    const { signal } = abortedBy(invocation.signal, done.signal);
    const { store, ended } = await openClusterStore(invocation, signal);
    const exporting = to === "-" ? printOnce(store, invocation, signal) : keepWriting(store, to, invocation, signal);
    try {
      await Promise.race([exporting, ended]);
      return invocation.signal.aborted && to === "-" ? 1 : 0;
    } finally {
      done.abort();
      await ended;
    }
  },
};

async function printOnce(store: Store, { clock, print }: Invocation, signal: AbortSignal): Promise<void> {
  const { writeStateFile } = await import("../../sources/state/mod.ts");
  const { createChangeWaiters } = await import("../../kpng/server/mod.ts");
  await createChangeWaiters(store, clock).changed(0, signal);
  for (const part of writeStateFile(store.state())) print(part);
}

async function keepWriting(
  store: Store,
  path: string,
  { clock, logger }: Invocation,
  signal: AbortSignal,
): Promise<void> {
  const { writeStateFile } = await import("../../sources/state/mod.ts");
  const { createChangeWaiters } = await import("../../kpng/server/mod.ts");
  const waiters = createChangeWaiters(store, clock);
  // In the same folder, so that the rename is atomic.
  const temporary = join(dirname(path), `.${basename(path)}.${Deno.pid}`);
  let written = 0;
  try {
    while (!signal.aborted) {
      await waiters.changed(written, signal);
      const state = store.state();
      await Deno.writeTextFile(temporary, ReadableStream.from(writeStateFile(state)), { mode: 0o644 });
      await Deno.rename(temporary, path);
      written = state.revision;
      logger.debug("state written", { file: path, revision: written });
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    await Deno.remove(temporary).catch(() => {});
  }
}
