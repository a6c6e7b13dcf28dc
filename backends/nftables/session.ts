import type { Clock } from "../../platform/mod.ts";
import type { Conversation, Runner } from "../tools/mod.ts";

/**
 * A long-running nft for short transactions. A process per transaction would cost ten times the processor time of the
 * transaction, and would exit only after the kernel has freed what was deleted, some 10 ms later.
 */
export interface NftSession {
  /**
   * Carries out statements, without newlines, as one transaction. Resolves with whether it is in effect: false if nft refuses
   * it or there is no session. Rejects if nft died, which leaves it unknown whether the transaction is in effect.
   */
  transact(statements: readonly string[]): Promise<boolean>;
}

/** Inputs of `createNftSession`. */
export interface NftSessionOptions {
  readonly runner: Runner;
  readonly clock: Clock;
}

/** A process is replaced after this many lines: nft keeps a history of all lines in memory. */
const LINES_PER_PROCESS = 1_000;
/** A process ends after this time without a transaction, to free its memory. */
const IDLE_MS = 60_000;
const OPENING_TIMEOUT_MS = 5_000;
const TRANSACTION_TIMEOUT_MS = 60_000;
/** The maximum number of transactions to wait before a new session. */
const LONGEST_REST = 1_000;

/** A session that starts its nft with the first transaction. */
export function createNftSession({ runner, clock }: NftSessionOptions): NftSession {
  let conversation: Conversation | undefined;
  let lines = 0;
  // A transaction that killed nft must not reach another session, and an nft without a working interactive mode may be
  // replaced while Sluice runs. So after a failure a number of transactions, which grows with each failure, runs
  // without a session.
  let rest = runner.converse ? 0 : Infinity;
  let nextRest = 1;
  let cancelIdle: (() => void) | undefined;

  const close = () => {
    conversation?.close();
    conversation = undefined;
  };
  const avoid = () => {
    close();
    rest = nextRest;
    nextRest = Math.min(2 * nextRest, LONGEST_REST);
  };

  /** nft prints nothing on success. An invalid line, which nft repeats in its error, marks the end of the answer. */
  const ask = async (line: string, timeoutMs: number): Promise<string> => {
    const end = `end ${++lines}`;
    const output = await conversation!.ask(`${line}${end}\n`, end, timeoutMs);
    const ownError = output.lastIndexOf("Error: ");
    if (ownError === -1) throw new Error("nft accepted an invalid line");
    return output.slice(0, ownError);
  };

  /** Starts an nft if there is none; returns whether it works. */
  const open = async (): Promise<boolean> => {
    if (lines >= LINES_PER_PROCESS) close();
    if (conversation?.isOpen()) return true;
    try {
      lines = 0;
      conversation = runner.converse!({ tool: "nft", args: ["-i"] });
      return !hasError(await ask("", OPENING_TIMEOUT_MS));
    } catch {
      // Without a session, each transaction has its own process.
      return false;
    }
  };

  return {
    async transact(statements) {
      if (rest > 0) {
        rest--;
        return false;
      }
      cancelIdle?.();
      if (!await open()) {
        avoid();
        return false;
      }
      cancelIdle = clock.schedule(IDLE_MS, close);
      try {
        const output = await ask(`${statements.join("; ")}\n`, TRANSACTION_TIMEOUT_MS);
        nextRest = 1;
        return !hasError(output);
      } catch (error) {
        avoid();
        throw error;
      }
    },
  };
}

function hasError(output: string): boolean {
  return output.includes("Error: ");
}
