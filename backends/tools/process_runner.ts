import type { Clock } from "../../platform/mod.ts";
import { converseWith } from "./process_conversation.ts";
import { boundedText, createLineSplitter } from "./process_output.ts";
import { type Runner, type ToolCall, ToolMissingError, ToolMovedError, ToolTimeoutError } from "./runner.ts";

/** What the runner of real processes needs. */
export interface ProcessRunnerOptions {
  readonly clock: Clock;
  /** Where tools are looked for, and where they look for others: folders, with colons in between. */
  readonly path: string;
  /** Told of every run that was refused because its tool appeared after this program had started. */
  readonly onMoved?: (error: ToolMovedError) => void;
  /** Its abort kills every tool that runs; their calls, and later ones, reject with the signal's reason. */
  readonly signal?: AbortSignal;
}

const DEFAULT_TIMEOUT_MS = 60_000;
const STDIN_PIECE_CHARACTERS = 65_536;
const STDERR_LIMIT_BYTES = 65_536;

/**
 * A runner that starts real processes. It needs `--allow-run` for the tools by name and nothing else. A tool inherits
 * nothing of the environment: variables such as XTABLES_LIBDIR would have it load code, and Deno runs no tool by name while
 * there is an LD_… in it. It gets the PATH, LC_ALL=C so that its messages are those that are looked for, and no home. A tool
 * may end without having read its input. Of a long standard error the first and the last 32 KB are kept.
 */
export function createProcessRunner({ clock, path, onMoved, signal }: ProcessRunnerOptions): Runner {
  const start = (call: Pick<ToolCall, "tool" | "args" | "env">, streams: Streams) => {
    try {
      return spawn(call, path, streams);
    } catch (error) {
      if (error instanceof ToolMovedError) onMoved?.(error);
      throw error;
    }
  };
  return {
    async run(call) {
      signal?.throwIfAborted();
      const child = start(call, { stdin: call.stdin === undefined ? "null" : "piped", stdout: "piped" });
      const stdout = child.stdout.getReader();
      const stderr = child.stderr.getReader();
      const stopped = new AbortController();
      const stop = (reason: unknown) => {
        if (stopped.signal.aborted) return;
        // Killed before its input is closed: it must not take half an input for a whole one.
        kill(child);
        stopped.abort(reason);
        // A child of the tool may have inherited these and hold them open.
        ignoreFailure(stdout.cancel());
        ignoreFailure(stderr.cancel());
      };
      const timeoutMs = call.timeoutMs ?? DEFAULT_TIMEOUT_MS;
      const cancelTimeout = clock.schedule(timeoutMs, () => stop(new ToolTimeoutError(call.tool, timeoutMs)));
      const onAbort = () => stop(signal?.reason);
      signal?.addEventListener("abort", onAbort, { once: true });
      const orStop = <T>(work: Promise<T>): Promise<T | undefined> =>
        work.catch((error) => {
          stop(error);
          return undefined;
        });
      try {
        const [out, err, status] = await Promise.all([
          orStop(readOutput(stdout, call.onLine)),
          orStop(readErrors(stderr)),
          child.status,
          call.stdin && orStop(feed(child.stdin, call.stdin, stopped.signal)).then(call.onInputTaken),
        ]);
        stopped.signal.throwIfAborted();
        return { exitCode: status.code, stdout: out ?? "", stderr: err ?? "" };
      } finally {
        cancelTimeout();
        signal?.removeEventListener("abort", onAbort);
      }
    },
    converse(call) {
      signal?.throwIfAborted();
      const child = start(call, { stdin: "piped", stdout: "null" });
      const onAbort = () => kill(child);
      signal?.addEventListener("abort", onAbort, { once: true });
      child.status.finally(() => signal?.removeEventListener("abort", onAbort));
      return converseWith({ tool: call.tool, child, clock });
    },
  };
}

type Streams = Pick<Deno.CommandOptions, "stdin" | "stdout">;

function spawn(
  call: Pick<ToolCall, "tool" | "args" | "env">,
  path: string,
  streams: Streams,
): Deno.ChildProcess {
  try {
    return new Deno.Command(call.tool, {
      args: [...call.args],
      clearEnv: true,
      // A tool with a command line of its own would keep a history of it at home; a credential plugin lives there.
      env: call.env ?? { PATH: path, LC_ALL: "C", HOME: "/dev/null" },
      ...streams,
      stderr: "piped",
    }).spawn();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) throw new ToolMissingError(call.tool);
    // Deno resolves the names that it may run at its start, to paths.
    if (error instanceof Deno.errors.NotCapable) throw new ToolMovedError(call.tool);
    throw error;
  }
}

function kill(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has ended already.
  }
}

/** Writes all pieces and closes. Where the pieces themselves throw, the input stays open until the tool is killed. */
async function feed(
  stdin: Deno.ChildProcess["stdin"],
  pieces: Iterable<string>,
  stopped: AbortSignal,
): Promise<void> {
  const encoder = new TextEncoder();
  const writer = stdin.getWriter();
  ignoreFailure(writer.closed);
  // A child of the tool may have inherited the other end and not read it: a write would wait as long as that lives.
  const ended = Promise.withResolvers<false>();
  const giveUp = () => {
    ignoreFailure(writer.abort());
    ended.resolve(false);
  };
  if (stopped.aborted) return giveUp();
  stopped.addEventListener("abort", giveUp, { once: true });
  for (const text of gathered(pieces)) {
    if (!await Promise.race([accepted(writer.write(encoder.encode(text))), ended.promise])) return;
  }
  await Promise.race([accepted(writer.close()), ended.promise]);
}

/** Whether the tool took it; a tool that ended early reads no more. */
function accepted(written: Promise<void>): Promise<boolean> {
  return written.then(() => true, () => false);
}

function ignoreFailure(promise: Promise<unknown>): void {
  promise.catch(() => {});
}

function* gathered(pieces: Iterable<string>): Generator<string> {
  let batch: string[] = [];
  let length = 0;
  for (const piece of pieces) {
    batch.push(piece);
    length += piece.length;
    if (length < STDIN_PIECE_CHARACTERS) continue;
    yield batch.join("");
    batch = [];
    length = 0;
  }
  if (length > 0) yield batch.join("");
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

async function readOutput(reader: Reader, onLine: ((line: string) => void) | undefined): Promise<string> {
  const decoder = new TextDecoder();
  const parts: string[] = [];
  const lines = onLine && createLineSplitter(onLine);
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    const text = decoder.decode(next.value, { stream: true });
    if (lines) lines.push(text);
    else parts.push(text);
  }
  const rest = decoder.decode();
  lines?.push(rest);
  lines?.end();
  return lines ? "" : parts.join("") + rest;
}

async function readErrors(reader: Reader): Promise<string> {
  const text = boundedText(STDERR_LIMIT_BYTES);
  for (let next = await reader.read(); !next.done; next = await reader.read()) text.push(next.value);
  return text.toString();
}
