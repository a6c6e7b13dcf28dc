import type { Clock } from "../../platform/mod.ts";
import type { Conversation, Runner } from "../tools/mod.ts";

/**
 * An nft that goes on running, for short transactions. To start one for each costs ten times the processor time of the
 * transaction itself, and it ends only when the kernel has freed what was deleted, a grace period of some 10 ms later.
 */
export interface NftSession {
  /**
   * Carries out statements, without newlines, as one transaction. Resolves with whether it is in effect: nothing of it is
   * where nft refuses it, or where there is no session to be had. Rejects where nft ended over it, and nobody knows.
   */
  transact(statements: readonly string[]): Promise<boolean>;
}

/** What a session needs. */
export interface NftSessionOptions {
  readonly runner: Runner;
  readonly clock: Clock;
}

/** It keeps a history of all lines in memory. */
const LINES_PER_PROCESS = 1_000;
/** After so long without a transaction its memory is given back. */
const IDLE_MS = 60_000;
const OPENING_TIMEOUT_MS = 5_000;
const TRANSACTION_TIMEOUT_MS = 60_000;
/** How many transactions the next attempt is put off by at the most. */
const LONGEST_REST = 1_000;

/** A session that starts its nft when it is needed first. */
export function createNftSession({ runner, clock }: NftSessionOptions): NftSession {
  let conversation: Conversation | undefined;
  let lines = 0;
  // An nft that dies over a transaction must not get the same one again, and one that cannot be talked with may be
  // replaced as Sluice runs: transactions are carried out without it for a while, for longer each time.
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

  /** nft says nothing where all is well. What makes no sense to it is an error that repeats it: so far it has come. */
  const ask = async (line: string, timeoutMs: number): Promise<string> => {
    const end = `end ${++lines}`;
    const said = await conversation!.ask(`${line}${end}\n`, end, timeoutMs);
    const own = said.lastIndexOf("Error: ");
    if (own === -1) throw new Error("nft takes no offence at nonsense");
    return said.slice(0, own);
  };

  /** Whether there is an nft to talk with. */
  const open = async (): Promise<boolean> => {
    if (lines >= LINES_PER_PROCESS) close();
    if (conversation?.isOpen()) return true;
    try {
      lines = 0;
      conversation = runner.converse!({ tool: "nft", args: ["-i"] });
      return !isComplaint(await ask("", OPENING_TIMEOUT_MS));
    } catch {
      // Whatever it is that such an nft does, each transaction can have an nft of its own.
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
        const said = await ask(`${statements.join("; ")}\n`, TRANSACTION_TIMEOUT_MS);
        nextRest = 1;
        return !isComplaint(said);
      } catch (error) {
        avoid();
        throw error;
      }
    },
  };
}

function isComplaint(said: string): boolean {
  return said.includes("Error: ");
}
