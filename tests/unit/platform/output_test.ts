import assert from "node:assert/strict";
import { writeToStderr, writeToStdout } from "../../../platform/output.ts";

type Write = (bytes: Uint8Array) => number;

/** Runs `act` while a stream writes with `write`. */
function withStream<T>(stream: { writeSync: Write }, write: Write, act: () => T): T {
  const original = stream.writeSync;
  stream.writeSync = write;
  try {
    return act();
  } finally {
    stream.writeSync = original;
  }
}

Deno.test("a text is written to its last byte, however little is written at a time", () => {
  for (const [stream, write] of [[Deno.stdout, writeToStdout], [Deno.stderr, writeToStderr]] as const) {
    const written: number[] = [];
    withStream(stream, (bytes) => {
      written.push(...bytes.slice(0, 3));
      return Math.min(bytes.length, 3);
    }, () => write("to the end: ✓"));
    assert.equal(new TextDecoder().decode(new Uint8Array(written)), "to the end: ✓");
  }
});

Deno.test("a reader that has left is told by the result, another error is thrown; on standard error, neither stops the process", () => {
  const failing = (error: Error) => () => {
    throw error;
  };
  const left = failing(new Deno.errors.BrokenPipe("gone")), full = failing(new Error("disk is full"));
  assert.equal(withStream(Deno.stdout, (bytes) => bytes.length, () => writeToStdout("text")), true);
  assert.equal(withStream(Deno.stdout, left, () => writeToStdout("text")), false);
  assert.throws(
    () => withStream(Deno.stdout, full, () => writeToStdout("text")),
    /^Error: cannot write to standard output$/,
  );
  for (const write of [left, full]) withStream(Deno.stderr, write, () => writeToStderr("text"));
});
