import { failureOf, type FailureTable, failureText, type Runner } from "../tools/mod.ts";
import { TABLE, type TrafficSetName } from "./table.ts";

/** Lists the elements of sets, which belong to one family. */
export interface SetLister {
  /**
   * Calls `onElement` with each element of the sets, as `nft -n` prints it. A set that does not exist has none. Throws if a
   * set cannot be listed, after some of the calls.
   */
  list(sets: readonly TrafficSetName[], onElement: (set: TrafficSetName, element: string) => void): Promise<void>;
}

/** Inputs of `createSetLister`. */
export interface SetListerOptions {
  readonly runner: Runner;
  /** The name of the family in statements. */
  readonly ip: string;
  /** The meaning of nft's messages. */
  readonly failures: FailureTable;
}

const SET = /^\tset (\S+) \{$/;
const ELEMENTS = "\t\telements = { ";
const ABSENT = /No such file or directory/g;

/**
 * A lister that lists all sets with one process, since a process takes 5 ms of processor time. nft 1.0.6 cannot list two
 * sets with one call, but each line of its interactive mode is a call of its own.
 */
export function createSetLister({ runner, ip, failures }: SetListerOptions): SetLister {
  // nft may be built without it.
  let isInteractive = true;

  /** Runs nft; returns the result, and the number of sets that it has printed. */
  const run = async (
    args: readonly string[],
    stdin: readonly string[] | undefined,
    onElement: (set: TrafficSetName, element: string) => void,
  ) => {
    let set: TrafficSetName | undefined, printed = 0;
    const onLine = (line: string) => {
      if (line.startsWith("\tset ")) {
        set = SET.exec(line)?.[1] as TrafficSetName | undefined;
        printed++;
      }
      const start = line.startsWith(ELEMENTS) ? ELEMENTS.length : 0;
      if (start === 0 && !line.startsWith("\t\t\t")) return;
      const end = line.endsWith(" }") ? line.length - 2 : line.endsWith(",") ? line.length - 1 : line.length;
      for (const element of line.slice(start, end).trimStart().split(", ")) onElement(set!, element);
    };
    const result = await runner.run({ tool: "nft", args: ["-n", ...args], stdin, onLine });
    return { result, printed };
  };
  const words = (set: TrafficSetName) => ["list", "set", ip, TABLE, set];

  return {
    async list(sets, onElement) {
      if (isInteractive) {
        const lines = sets.map((set) => `${words(set).join(" ")}\n`);
        const { result, printed } = await run(["-i"], lines, onElement);
        const absent = result.stderr.match(ABSENT)?.length ?? 0;
        if (result.exitCode === 0 && printed + absent === sets.length) return;
        // Each line may fail, whatever the exit code.
        if (printed > 0 || absent > 0) throw new Error(failureText("nft list set", result));
        isInteractive = false;
      }
      for (const set of sets) {
        const { result } = await run(words(set), undefined, onElement);
        const failure = failureOf("nft list set", result, failures);
        if (failure !== undefined && failure.kind !== "absent") throw new Error(failure.text);
      }
    },
  };
}
