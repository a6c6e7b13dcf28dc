/** Starts KPNG and Sluice as processes of a test, and stops them at its end. */
import { program } from "../../demo/sluice.ts";
import { waitFor } from "../chaos/wait.ts";
import { endChild } from "../children.ts";

/** How long a state may take to arrive before the test fails, in milliseconds. */
const DEADLINE_MS = 30_000;

/** The processes and files of one test. */
export interface Bench {
  readonly folder: string;
  /** Starts a program that runs until the end of the test. */
  start(command: string, args: readonly string[]): void;
  /** Starts Sluice like `start`. */
  sluice(args: readonly string[]): void;
  /** An address on loopback that is free now. */
  freeAddress(): string;
  /** Resolves once `read` returns what is expected; rejects with what the programs logged if that takes too long. */
  until(expected: string, read: () => string): Promise<void>;
}

/** Options of `onBench`. */
export interface BenchOptions {
  /** Added to the environment of the programs. */
  readonly env?: Readonly<Record<string, string>>;
  /** How long a state may take to arrive; 30,000 by default. */
  readonly deadlineMs?: number;
}

/** Runs a test with programs, and stops them at its end. */
export async function onBench(
  test: (bench: Bench) => Promise<void>,
  { env = {}, deadlineMs = DEADLINE_MS }: BenchOptions = {},
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "sluice-kpng-" });
  const children: Deno.ChildProcess[] = [];
  const logs: string[] = [];
  const drained: Promise<void>[] = [];
  const [own = "", ...ownArgs] = program();

  const start = (command: string, args: readonly string[]) => {
    const child = new Deno.Command(command, {
      args: [...args],
      env: { SLUICE: [own, ...ownArgs].join(" "), ...env },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    children.push(child);
    const index = logs.push("") - 1;
    drained.push((async () => {
      for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) logs[index] += text;
    })());
  };

  const bench: Bench = {
    folder,
    start,
    sluice: (args) => start(own, [...ownArgs, ...args]),
    freeAddress() {
      const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      const { port } = listener.addr as Deno.NetAddr;
      listener.close();
      return `127.0.0.1:${port}`;
    },
    async until(expected, read) {
      let found = "";
      await waitFor("the state arrives", deadlineMs, () => (found = read()) === expected, 50).catch(() => {
        throw new Error(`expected:\n${expected}\nfound:\n${found}\nlogs:\n${logs.join("\n")}`);
      });
    },
  };
  try {
    await test(bench);
  } finally {
    await Promise.all([...children.map(endChild), ...drained]);
    await Deno.remove(folder, { recursive: true });
  }
}
