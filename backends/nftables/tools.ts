import type { AttemptCounts, Attempts, Family } from "../../core/model/mod.ts";
import {
  failureOf,
  type FailureTable,
  printedInput,
  type Runner,
  runOrThrow,
  type ToolCall,
  type ToolFailure,
} from "../tools/mod.ts";
import { ATTEMPTS, readAttempts } from "./failures.ts";
import type { NftSession } from "./session.ts";
import { type Dialect, DIALECTS, TABLE } from "./table.ts";
import { changedPlaces, isShort, type Transaction, transactionText } from "./transaction.ts";

/** nft, for one family. */
export interface NftTools {
  /**
   * Applies a transaction atomically. A short one takes a millisecond in the long-running nft; any other runs in its
   * own `nft -f -`. Throws if the long-running nft ends before it answers.
   * @param onInputTaken called when `nft -f -` has read all of its input and is busy with it
   */
  transact(transaction: Transaction, onInputTaken?: () => void): Promise<ToolFailure | undefined>;
  /** Lists the table as text; false if it does not exist. Throws if it fails. */
  listTable(onLine: (line: string) => void): Promise<boolean>;
  /** Applies statements, without newlines, as one transaction. Throws if it is refused. */
  write(statements: readonly string[]): Promise<void>;
  /** Lists the elements of a set as text; undefined if it does not exist. Throws if it fails. */
  listElements(set: string): Promise<readonly string[] | undefined>;
  /** Reads the counters of connection attempts; empty if none are kept. Throws if it fails. */
  readAttempts(): Promise<AttemptCounts>;
  /** Lists the chains of all tables of the family without their rules, which is cheap. */
  listChains(onLine: (line: string) => void): Promise<void>;
  /**
   * Deletes a table with everything in it; false if it does not exist. Throws if it fails. Tables are not listed first:
   * nft 1.0.6 reads every rule of the host to list their names.
   */
  removeTable(name: string): Promise<boolean>;
}

/** A table of 250,000 elements takes nft ten seconds to list on an idle machine. */
const LIST_TIMEOUT_MS = 180_000;
/** Transactions are cut into batches that take a second or two (see batches.ts). */
const TRANSACTION_TIMEOUT_MS = 60_000;

/** Messages of nft 1.0. */
export const NFT_FAILURES: FailureTable = [
  // Netlink has no room for a message of that size.
  ["no resources", /Message too long/i],
  ["absent", /No such file or directory/],
];

/** The nft of this host, for a family. */
export function createNftTools(family: Family, runner: Runner, session?: NftSession): NftTools {
  const dialect = DIALECTS[family], { ip } = dialect;
  async function runInput(
    input: Pick<ToolCall, "stdin" | "onInputTaken" | "changes">,
  ): Promise<ToolFailure | undefined> {
    const call: ToolCall = { tool: "nft", args: ["-f", "-"], timeoutMs: TRANSACTION_TIMEOUT_MS, ...input };
    return failureOf("nft", await runner.run(call), NFT_FAILURES);
  }
  return {
    async transact(transaction, onInputTaken) {
      const changes = () => changedPlaces(transaction, dialect);
      if (!session || !isShort(transaction)) {
        const stdin = printedInput(() => transactionText(transaction, dialect));
        return await runInput({ stdin, onInputTaken, changes });
      }
      const statements = [...transactionText(transaction, dialect)];
      if (await session.transact(statements.map((statement) => statement.trimEnd()))) return undefined;
      // If the session refused the transaction, this run returns the reason.
      return await runInput({ stdin: statements, onInputTaken, changes });
    },
    async listTable(onLine) {
      const args = ["list", "table", ip, TABLE];
      const result = await runner.run({ tool: "nft", args, onLine, timeoutMs: LIST_TIMEOUT_MS });
      return isThere(failureOf("nft list table", result, NFT_FAILURES));
    },
    async write(statements) {
      if (session && await session.transact(statements)) return;
      const failure = await runInput({ stdin: statements.map((statement) => `${statement}\n`) });
      if (failure) throw new Error(failure.text);
    },
    async listElements(set) {
      const elements: string[] = [];
      const onLine = (line: string) =>
        void elements.push(line.replace(/^\s*(?:elements = \{ )?/, "").replace(/,| \}$/, ""));
      const result = await runner.run({ tool: "nft", args: ["list", "set", ip, TABLE, set], onLine });
      return isThere(failureOf("nft list set", result, NFT_FAILURES)) ? elements : undefined;
    },
    async readAttempts() {
      const counts = new Map<string, Attempts>();
      const onLine = (line: string) => readAttempts(line, counts);
      const result = await runner.run({ tool: "nft", args: ["list", "set", ip, TABLE, ATTEMPTS], onLine });
      isThere(failureOf("nft list set", result, NFT_FAILURES));
      return counts;
    },
    async listChains(onLine) {
      await runOrThrow(runner, { tool: "nft", args: ["list", "chains", ip], onLine }, "nft list chains");
    },
    async removeTable(name) {
      return isThere(await runInput({ stdin: [`delete table ${ip} ${name}\n`] }));
    },
  };
}

/** Whether the table of a call exists. Throws if the call failed for another reason. */
function isThere(failure: ToolFailure | undefined): boolean {
  if (failure && failure.kind !== "absent") throw new Error(failure.text);
  return failure === undefined;
}

/** The names of the chains in the table. */
export async function chainsInTable(tools: NftTools, { ip }: Dialect): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  let inTable = false;
  await tools.listChains((line) => {
    if (line.startsWith("table ")) inTable = line === `table ${ip} ${TABLE} {`;
    else if (inTable && line.startsWith("\tchain ")) names.add(line.slice("\tchain ".length, -" {".length));
  });
  return names;
}
