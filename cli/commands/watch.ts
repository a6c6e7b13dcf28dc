/** `sluice watch` and `sluice export`: the cluster's state and its changes on standard output, or in a file. */
import { type Command, type Invocation, isJson, TEXT_OR_JSON, UsageError } from "./command.ts";
import { DETAIL_FLAGS, readDetailFilters } from "./serve.ts";
import { dropPermissions, startHook } from "./privileges.ts";
import { duration, flagValue, option, text } from "../../config/mod.ts";
import type { DescribedOperation } from "../../kpng/messages/mod.ts";
import type { Store } from "../../kpng/store/mod.ts";
import {
  abortedBy,
  basename,
  dirname,
  fileErrorText,
  pathIn,
  printable,
  type RunProgram,
  sleep,
  untilAborted,
} from "../../platform/mod.ts";

const EXEC = option(
  "exec",
  text(),
  "With local: run this program with the node's whole state on its standard input, after each change.",
);
const EXEC_TIMEOUT = option("exec-timeout", duration(), "The time after which the program is killed; 1m by default.");
const EXEC_TIMEOUT_MS = 60_000;

const CHOICES = ["services", "endpoints", "nodes", "local"] as const;

/** `sluice watch`: the stream of changes on standard output. */
export const watchCommand: Command = {
  lasts: true,
  name: "watch",
  summary: "Print the cluster's state and its changes as they arrive.",
  arguments: [{
    name: CHOICES.join("|"),
    description: "only this kind; local: only what this node needs; everything by default",
    values: CHOICES,
  }, { name: "ARGUMENT", description: "with --exec: the arguments of the program, after --", repeats: true }],
  flags: [...TEXT_OR_JSON, EXEC, EXEC_TIMEOUT, ...DETAIL_FLAGS],
  examples: {
    "sluice watch endpoints": "added, changed and removed endpoints",
    "sluice watch local --exec sluice-hook -- --verbose":
      "run a program with this node's whole state on its standard input after each change",
    "sluice watch local --source grpc://10.0.0.1:12090": "what a server sends to this node",
  },
  startsPrograms: true,
  streams: true,
  async start(invocation) {
    const { arguments: [choice, ...args], flags, lost, signal } = invocation;
    const program = flagValue(flags, EXEC);
    if (program === undefined && args.length > 0) {
      throw new UsageError("watch: arguments for a program need --exec PROGRAM");
    }
    if (program !== undefined && choice !== "local") {
      throw new UsageError("--exec gets the state of one node: sluice watch local --exec PROGRAM");
    }
    const run = program === undefined
      ? undefined
      : await startHook(program, args, (reason) => lost.abort(new Error(reason)));
    dropPermissions("run");
    const stop = abortedBy(signal, lost.signal);
    const { store, ended } = await openedStore(invocation, stop.signal);
    const output = run === undefined
      ? printed(choice, invocation)
      : await executed(program!, run, invocation, stop.signal);
    await Promise.race([watchStore(store, choice, output, invocation, stop.signal), ended]);
    await output.idle();
    if (lost.signal.aborted) throw lost.signal.reason;
    return 0;
  },
};

/** A store that is being filled; `ended` rejects if the source cannot work. */
async function openedStore(invocation: Invocation, signal: AbortSignal) {
  const { openClusterStore } = await import("../../serve/mod.ts");
  const { store, run } = await openClusterStore({ ...invocation, details: readDetailFilters(invocation), signal });
  return { store, ended: run() };
}

interface Output {
  take(operation: DescribedOperation): void;
  /** Resolves when nothing is in progress, before the next round and at the end. */
  idle(): Promise<void>;
}

function printed(choice: string | undefined, invocation: Invocation): Output {
  const { print } = invocation;
  const known = new Set<string>();
  return {
    take(operation) {
      const isWanted = operation.set === undefined || choice === undefined || choice === "local" ||
        operation.set === choice;
      if (isWanted) print(isJson(invocation) ? `${JSON.stringify(operation)}\n` : line(operation, known));
    },
    idle: () => Promise.resolve(),
  };
}

/** Runs a program with the whole state after each round. */
async function executed(
  program: string,
  run: RunProgram,
  { configuration: { nodeName }, clock, flags, logger }: Invocation,
  signal: AbortSignal,
): Promise<Output> {
  const { createDocumentedState } = await import("../../kpng/messages/mod.ts");
  const { createHook } = await import("./hook.ts");
  const timeoutMs = flagValue(flags, EXEC_TIMEOUT) ?? EXEC_TIMEOUT_MS;
  const documentOf = createDocumentedState(nodeName);
  const hook = createHook(program, run, timeoutMs, { clock, logger, signal });
  return {
    take(operation) {
      const document = documentOf(operation);
      if (document !== undefined) hook.give(`${JSON.stringify(document)}\n`);
    },
    idle: hook.idle,
  };
}

async function watchStore(
  store: Store,
  choice: string | undefined,
  output: Output,
  { configuration: { nodeName }, clock }: Invocation,
  signal: AbortSignal,
): Promise<void> {
  const { createAnswers, createSemaphore, createChangeWaiters, serveWatcher } = await import(
    "../../kpng/server/mod.ts"
  );
  const { describeOperation } = await import("../../kpng/messages/mod.ts");
  const { createFrameReader } = await import("../../kpng/transport/mod.ts");
  const frames = createFrameReader(Number.MAX_SAFE_INTEGER);
  const request = {
    scope: choice === "local" ? "local" : "global",
    nodeName,
    extended: false,
    onlyNode: undefined,
  } as const;
  const stream = {
    async nextRequest() {
      await output.idle();
      return signal.aborted ? undefined : request;
    },
    async write(bytes: Uint8Array) {
      for (const message of frames.push(bytes)) {
        const operation = describeOperation(message);
        if (operation !== undefined) output.take(operation);
      }
      await sleep(clock, 0, signal);
    },
  };
  const { changed } = createChangeWaiters(store, clock);
  const options = { answers: createAnswers(store, clock), clock, signal, changed, transfers: createSemaphore(1) };
  await untilAborted(serveWatcher(stream, options), signal);
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
  return printable(`${sign} ${set.slice(0, -1).padEnd(8)} ${name!.replace(/^\|/, "")} ${text}`).trimEnd() + "\n";
}

const TO = option("to", text(), "The file, replaced atomically; - prints to standard output once and exits.");

/** `sluice export`: the cluster's state as a file. */
export const exportCommand: Command = {
  lasts: true,
  name: "export",
  summary: "Write the cluster's state to a file, in KPNG's format, after each change.",
  flags: [TO, ...DETAIL_FLAGS],
  examples: {
    "sluice export --to -": "the current state at the API server",
    "sluice export --source unix:///run/sluice.sock --to /run/state.yaml": "keep a file up to date",
  },
  async start(invocation) {
    const to = flagValue(invocation.flags, TO);
    if (!to) throw new UsageError("export needs --to: a file, or - for standard output");
    const done = new AbortController();
    const { signal } = abortedBy(invocation.signal, done.signal);
    const { store, ended } = await openedStore(invocation, signal);
    try {
      await Promise.race([exportTo(to, store, invocation, signal), ended]);
      return invocation.signal.aborted && to === "-" ? 1 : 0;
    } finally {
      done.abort();
      await ended;
    }
  },
};

/** Prints the state once to standard output (`-`), or keeps a file up to date until the signal is aborted. */
async function exportTo(
  path: string,
  store: Store,
  { clock, logger, print }: Invocation,
  signal: AbortSignal,
): Promise<void> {
  const { writeStateFile } = await import("../../sources/state/mod.ts");
  const { createChangeWaiters } = await import("../../kpng/server/mod.ts");
  const { changed } = createChangeWaiters(store, clock);
  if (path === "-") {
    await changed(0, signal);
    for (const part of writeStateFile(store.state())) print(part);
    return;
  }
  // In the same folder, so that the rename is atomic.
  const temporary = pathIn(dirname(path), `.${basename(path)}.${Deno.pid}`);
  let written = 0;
  try {
    await refuseSpecial(path);
    while (!signal.aborted) {
      await changed(written, signal);
      const state = store.state();
      await Deno.writeTextFile(temporary, ReadableStream.from(writeStateFile(state)), { mode: 0o644 });
      await Deno.rename(temporary, path);
      written = state.revision;
      logger.debug("state written", { file: path, revision: written });
    }
  } catch (error) {
    if (!signal.aborted) throw new Error(`cannot write ${path}: ${fileErrorText(error)}`);
  } finally {
    await Deno.remove(temporary).catch(() => {});
  }
}

/** Throws if the path is a pipe, a socket or a device: the rename would replace it with a file. */
async function refuseSpecial(path: string): Promise<void> {
  const there = await Deno.stat(path).catch((error) => {
    if (error instanceof Deno.errors.NotCapable) throw error;
  });
  if (there && !there.isFile && !there.isDirectory) {
    throw new Error("it is not a regular file (--to - prints to standard output)");
  }
}
