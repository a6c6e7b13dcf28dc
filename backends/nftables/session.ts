import type { Clock } from "../../platform/clock.ts";
import type { Conversation, Runner } from "../runner.ts";

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

/** A session that starts its nft when it is needed first. */
export function createNftSession({ runner, clock }: NftSessionOptions): NftSession {
  let conversation: Conversation | undefined;
  let lines = 0;
  let isSupported = runner.converse !== undefined;
  let cancelIdle: (() => void) | undefined;

  const close = () => {
    conversation?.close();
    conversation = undefined;
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
    if (!isSupported) return false;
    try {
      lines = 0;
      conversation = runner.converse!({ tool: "nft", args: ["-i"] });
      isSupported = !isComplaint(await ask("", OPENING_TIMEOUT_MS));
    } catch {
      // Whatever it is that such an nft does, each transaction can have an nft of its own.
      isSupported = false;
    }
    if (!isSupported) close();
    return isSupported;
  };

  return {
    async transact(statements) {
      cancelIdle?.();
      if (!await open()) return false;
      cancelIdle = clock.schedule(IDLE_MS, close);
      return !isComplaint(await ask(`${statements.join("; ")}\n`, TRANSACTION_TIMEOUT_MS));
    },
  };
}

function isComplaint(said: string): boolean {
  return said.includes("Error: ");
}
