import { type Clock, joinBytes } from "../../platform/mod.ts";
import { createRunLimits } from "./run_limits.ts";
import {
  type Conversation,
  type Runner,
  type ToolCall,
  ToolEndedError,
  ToolMissingError,
  ToolMovedError,
  ToolTimeoutError,
} from "./runner.ts";

interface ProcessRunnerOptions {
  readonly clock: Clock;
  /** The PATH on which tools are found, also by other tools: folders separated by colons. */
  readonly path: string;
  /** Called for every run that was refused because its tool appeared after this program had started. */
  readonly onMoved?: (error: ToolMovedError) => void;
  /** Aborting it kills every running tool; their calls, and later ones, reject with the signal's reason. */
  readonly signal?: AbortSignal;
}

const STDIN_PIECE_CHARACTERS = 65_536;
const STDERR_LIMIT_BYTES = 65_536;
/** The sizes of the buffer for an output: the second one once a piece has filled the first. */
const BUFFER_BYTES = { first: 4_096, later: 65_536 } as const;

/**
 * Creates a runner that starts real processes. It needs `--allow-run` for the tools by name and nothing else. A tool
 * does not inherit the environment: variables such as XTABLES_LIBDIR would make it load code, and Deno refuses to run
 * tools by name if there is an LD_… variable. It gets PATH, LC_ALL=C so that its messages can be matched, and no home.
 * A tool may end without having read its input. Of a long standard error, the first and the last 32 KB are kept.
 */
export function createProcessRunner({ clock, path, onMoved, signal }: ProcessRunnerOptions): Runner {
  const limits = createRunLimits();
  const start = (call: SpawnedCall, streams: Streams) => spawn(call, streams, path, onMoved);
  return {
    async run(call) {
      const ending = signal && call.signal ? AbortSignal.any([signal, call.signal]) : signal ?? call.signal;
      ending?.throwIfAborted();
      const child = start(call, { stdin: call.stdin === undefined ? "null" : "piped", stdout: "piped" });
      const stdout = child.stdout.getReader({ mode: "byob" });
      const stderr = child.stderr.getReader({ mode: "byob" });
      const stopped = new AbortController();
      const stop = (reason: unknown) => {
        // Kill it before closing its input: it must not take half an input for a complete one.
        kill(child);
        stopped.abort(reason);
        // A child of the tool may have inherited these and hold them open.
        ignoreFailure(stdout.cancel());
        ignoreFailure(stderr.cancel());
      };
      const startedAtMs = clock.monotonic();
      let pieces = 0;
      const scheduleTimeout = () => {
        const limitMs = limits.limitMs(call, pieces);
        return clock.schedule(startedAtMs + limitMs - clock.monotonic(), () => {
          limits.expired(call);
          stop(new ToolTimeoutError(call.tool, limitMs));
        });
      };
      let cancelTimeout = scheduleTimeout();
      const onPiece = () => {
        cancelTimeout();
        pieces++;
        cancelTimeout = scheduleTimeout();
      };
      const onAbort = () => stop(ending?.reason);
      ending?.addEventListener("abort", onAbort, { once: true });
      const orStop = <T>(work: Promise<T>): Promise<T | undefined> =>
        work.catch((error) => {
          stop(error);
          return undefined;
        });
      try {
        const [out, err, status] = await Promise.all([
          orStop(readOutput(stdout, call)),
          orStop(readErrors(stderr)),
          child.status,
          call.stdin && orStop(feed(child.stdin, call.stdin, stopped.signal, onPiece)).then(call.onInputTaken),
        ]);
        stopped.signal.throwIfAborted();
        limits.ended(call, clock.monotonic() - startedAtMs, status.code === 0);
        return { exitCode: status.code, stdout: out ?? "", stderr: err ?? "" };
      } finally {
        cancelTimeout();
        ending?.removeEventListener("abort", onAbort);
      }
    },
    converse(call) {
      signal?.throwIfAborted();
      const child = start(call, { stdin: "piped", stdout: call.onLine ? "piped" : "null" });
      const onAbort = () => kill(child);
      signal?.addEventListener("abort", onAbort, { once: true });
      child.status.finally(() => signal?.removeEventListener("abort", onAbort));
      return converseWith(child, call, clock);
    },
  };
}

type Streams = Pick<Deno.CommandOptions, "stdin" | "stdout">;

type SpawnedCall = Pick<ToolCall, "tool" | "args" | "env">;

function spawn(
  call: SpawnedCall,
  streams: Streams,
  path: string,
  onMoved: (error: ToolMovedError) => void = () => {},
): Deno.ChildProcess {
  try {
    return new Deno.Command(call.tool, {
      args: [...call.args],
      clearEnv: true,
      // With a home, a tool with a command line of its own would write a history there. Credential plugins pass their
      // own.
      env: call.env ?? { PATH: path, LC_ALL: "C", HOME: "/dev/null" },
      ...streams,
      stderr: "piped",
    }).spawn();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) throw new ToolMissingError(call.tool);
    // Deno resolves the names of permitted tools to paths at its start.
    if (!(error instanceof Deno.errors.NotCapable)) throw error;
    const moved = new ToolMovedError(call.tool);
    onMoved(moved);
    throw moved;
  }
}

function kill(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has already ended.
  }
}

/**
 * Writes all pieces and closes the input. If iterating the pieces throws, the input stays open until the tool is
 * killed.
 * @param onPiece called when the tool has taken a piece of 64 kB
 */
async function feed(
  stdin: Deno.ChildProcess["stdin"],
  pieces: Iterable<string>,
  stopped: AbortSignal,
  onPiece: () => void,
): Promise<void> {
  const encoder = new TextEncoder();
  const writer = stdin.getWriter();
  // A child of the tool may have inherited the other end without reading it: a write would wait until the child ends.
  const ended = Promise.withResolvers<false>();
  const giveUp = () => {
    ignoreFailure(writer.abort());
    ended.resolve(false);
  };
  stopped.addEventListener("abort", giveUp, { once: true });
  for (const text of gathered(pieces)) {
    if (!await Promise.race([accepted(writer.write(encoder.encode(text))), ended.promise])) return;
    if (text.length >= STDIN_PIECE_CHARACTERS) onPiece();
  }
  await accepted(writer.close());
}

/** Whether the tool took the text. A tool that ended early reads no more. */
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
  yield batch.join("");
}

/**
 * Reads an output piece by piece into one buffer, which the next piece overwrites. A default reader would have Deno allocate 64 kB for
 * every read, also for one that waits, until V8 frees them all.
 */
async function* piecesOf(reader: ReadableStreamBYOBReader): AsyncGenerator<Uint8Array> {
  let buffer = new ArrayBuffer(BUFFER_BYTES.first);
  for (;;) {
    const { done, value } = await reader.read(new Uint8Array(buffer));
    if (done) return;
    yield value;
    buffer = value.length === BUFFER_BYTES.first ? new ArrayBuffer(BUFFER_BYTES.later) : value.buffer;
  }
}

/** The default of `mostOutput`: hundreds of times a listing of 10,000 services. */
const MOST_OUTPUT = 256 * 2 ** 20;

/** Reads all output of a tool, or passes on its lines and returns an empty text. Throws above `mostOutput`. */
export async function readOutput(
  reader: ReadableStreamBYOBReader,
  { onLine, mostOutput = MOST_OUTPUT }: Pick<ToolCall, "onLine" | "mostOutput"> = {},
): Promise<string> {
  const decoder = new TextDecoder();
  const parts: string[] = [];
  let open = "", held = 0;
  const split = (text: string, onLine: (line: string) => void) => {
    let start = 0;
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", start)) {
      onLine(start === 0 ? open + text.slice(0, end) : text.slice(start, end));
      if (start === 0) open = "";
      start = end + 1;
    }
    open += text.slice(start);
  };
  const take = onLine ? (text: string) => split(text, onLine) : (text: string) => void parts.push(text);
  for await (const piece of piecesOf(reader)) {
    take(decoder.decode(piece, { stream: true }));
    held = onLine ? open.length : held + piece.length;
    if (held > mostOutput) throw new Error(`printed ${onLine ? "a line of " : ""}more than ${mostOutput} characters`);
  }
  take(decoder.decode());
  // The last line may have no newline.
  if (open !== "") onLine?.(open);
  return parts.join("");
}

/** Reads a standard error and returns its first and last 32 KB, with the number of bytes left out between them. */
export async function readErrors(reader: ReadableStreamBYOBReader, limitBytes = STDERR_LIMIT_BYTES): Promise<string> {
  const half = limitBytes >> 1;
  let head = new Uint8Array(), tail = new Uint8Array(), leftOutBytes = 0;
  for await (const piece of piecesOf(reader)) {
    const room = half - head.length;
    if (room > 0) head = joinBytes([head, piece.subarray(0, room)]);
    tail = joinBytes([tail, piece.subarray(room)]);
    const surplus = Math.max(0, tail.length - half);
    tail = tail.slice(surplus);
    leftOutBytes += surplus;
  }
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  if (leftOutBytes === 0) return text(joinBytes([head, tail]));
  return `${text(head)}\n… ${leftOutBytes} bytes left out …\n${text(tail)}`;
}

/** The longest standard error that may wait for the end of an answer: each piece has all of it searched again. */
const MOST_ANSWER = 2 ** 20;
/** The memory of a line of an answer beside its characters, in bytes. */
const LINE_BYTES = 32;

/** Splits an output at the line `end`, which ends an answer; undefined if it has no such line yet. */
function splitAnswer(output: string, end: string): { readonly answer: string; readonly rest: string } | undefined {
  const at = `\n${output}`.indexOf(`\n${end}\n`);
  return at === -1 ? undefined : { answer: output.slice(0, at), rest: output.slice(at + end.length + 1) };
}

/** Starts a conversation with a process that has just been started. Its standard input and error are piped. */
function converseWith(
  child: Deno.ChildProcess,
  { tool, onLine, mostOutput = MOST_OUTPUT }: Pick<ToolCall, "tool" | "onLine" | "mostOutput">,
  clock: Clock,
): Conversation {
  const writer = child.stdin.getWriter();
  const encoder = new TextEncoder();
  let isOpen = true, printed = 0;
  let question: { readonly end: string; readonly settle: PromiseWithResolvers<string> } | undefined;

  const over = (error: Error) => {
    isOpen = false;
    question?.settle.reject(error);
    writer.abort().catch(() => {});
  };
  const listen = async () => {
    const decoder = new TextDecoder();
    let output = "";
    for await (const bytes of piecesOf(child.stderr.getReader({ mode: "byob" }))) {
      output += decoder.decode(bytes, { stream: true });
      const split = question && splitAnswer(output, question.end);
      if (split) {
        question?.settle.resolve(split.answer);
        output = split.rest;
      }
      if (output.length > MOST_ANSWER) throw new Error(`printed more than ${MOST_ANSWER} characters of errors`);
    }
  };
  const fail = () => {
    kill(child);
    over(new ToolEndedError(tool));
  };
  listen().catch(() => {}).finally(fail);
  if (onLine) {
    const onOpenLine = (line: string) => {
      printed += line.length + LINE_BYTES;
      if (printed > mostOutput) throw new Error(`printed more than ${mostOutput} characters`);
      if (isOpen) onLine(line);
    };
    readOutput(child.stdout.getReader({ mode: "byob" }), { onLine: onOpenLine, mostOutput }).catch(fail);
  }

  return {
    async ask(text, end, timeoutMs) {
      if (!isOpen) throw new ToolEndedError(tool);
      const settle = Promise.withResolvers<string>();
      question = { end, settle };
      printed = 0;
      const cancel = clock.schedule(timeoutMs, () => {
        kill(child);
        over(new ToolTimeoutError(tool, timeoutMs));
      });
      writer.write(encoder.encode(text)).catch(fail);
      return await settle.promise.finally(cancel);
    },
    isOpen: () => isOpen,
    close() {
      isOpen = false;
      writer.close().catch(() => {});
    },
  };
}
