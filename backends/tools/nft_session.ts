import { type Clock, createTurns } from "../../platform/mod.ts";
import type { Conversation, Runner } from "./runner.ts";

/**
 * A long-running nft for short calls. A process per call would cost ten times the processor time of the call, and, after a
 * transaction, would exit only after the kernel has freed what was deleted, some 10 ms later.
 */
export interface NftSession {
  /**
   * Carries out statements, without newlines, as one transaction. Resolves with whether it is in effect: false if nft refuses
   * it or there is no session. Rejects if nft died, which leaves it unknown whether the transaction is in effect.
   */
  transact(statements: readonly string[]): Promise<boolean>;
  /**
   * Lists one object of a table: `list set ip sluice services`. Resolves with the lines that nft prints; undefined if it prints an
   * error or there is no session. Rejects if nft died, or did not print a whole listing.
   */
  list(command: string): Promise<readonly string[] | undefined>;
  /**
   * Whether a listing shows something: asked at each end of an object, with the lines so far. False also if nft prints an error or
   * died, there is no session, or the listing is late: only true proves anything. Never rejects.
   */
  shows(command: string, isShown: (lines: readonly string[]) => boolean): Promise<boolean>;
}

/** A process is replaced after this many lines: nft keeps a history of all lines in memory. */
const LINES_PER_PROCESS = 1_000;
/** A process ends after this time without a call, to free its memory. */
const IDLE_MS = 60_000;
const OPENING_TIMEOUT_MS = 5_000;
/** Short transactions and listings of chains take milliseconds, and a change may wait for them. */
const ANSWER_TIMEOUT_MS = 8_000;
/** A listing of 65,536 elements takes nft a second. */
const LISTING_TIMEOUT_MS = 60_000;
/** The maximum time from the end of the answer to the last line of a listing, which nft has printed before. */
const LAST_LINE_MS = 1_000;
/** The same for a listing that may print nothing. */
const LAST_LOOK_MS = 50;
/** The maximum number of calls to wait before a new session. */
const LONGEST_REST = 1_000;

/** A listing while nft prints it. */
interface Printing {
  readonly lines: string[];
  readonly isWhole: PromiseWithResolvers<void>;
  /** Whether these lines are all that is needed, at the end of an object. */
  isEnough(lines: readonly string[]): boolean;
  /** How long to wait for them after the end of the answer, in milliseconds. */
  readonly waitMs: number;
}

const newPrinting = (isEnough: Printing["isEnough"], waitMs: number): Printing => (
  { lines: [], isWhole: Promise.withResolvers(), isEnough, waitMs }
);

interface SessionOptions {
  readonly runner: Runner;
  readonly clock: Clock;
  /** Further arguments of nft. */
  readonly args?: readonly string[];
}

/** A session that starts its nft with the first call. */
export function createNftSession(options: SessionOptions): NftSession {
  const { runner, clock } = options;
  const nft = createInteractiveNft(options);
  const state: {
    /**
     * The calls that run without a session, and those after the next failure. A call that killed nft must not reach another
     * session, and an nft without a working interactive mode may be replaced while Sluice runs.
     */
    rest: number;
    nextRest: number;
    cancelIdle?: () => void;
  } = { rest: runner.converse ? 0 : Infinity, nextRest: 1 };

  const avoid = () => {
    nft.close();
    state.rest = state.nextRest;
    state.nextRest = Math.min(2 * state.nextRest, LONGEST_REST);
  };

  /** Has nft carry out a line; returns whether it printed no error. */
  const run = async (line: string, listing?: Printing): Promise<boolean> => {
    if (state.rest > 0) {
      state.rest--;
      return false;
    }
    state.cancelIdle?.();
    if (!await nft.open()) {
      avoid();
      return false;
    }
    state.cancelIdle = clock.schedule(IDLE_MS, nft.close);
    try {
      const isDone = await nft.carryOut(line, listing);
      state.nextRest = 1;
      return isDone;
    } catch (error) {
      const isExpected = error instanceof LateListingError && listing?.waitMs === LAST_LOOK_MS;
      if (!isExpected) avoid();
      throw error;
    }
  };

  const turns = createTurns();
  const runInTurn = (line: string, listing?: Printing) => turns.take(() => run(line, listing));

  return {
    transact: (statements) => runInTurn(statements.join("; ")),
    async list(command) {
      const listing = newPrinting(() => true, LAST_LINE_MS);
      return await runInTurn(command, listing) ? listing.lines : undefined;
    },
    shows: (command, isShown) => runInTurn(command, newPrinting(isShown, LAST_LOOK_MS)).catch(() => false),
  };
}

/** An interactive nft, which is replaced by another one after many lines. */
function createInteractiveNft({ runner, clock, args = [] }: SessionOptions) {
  const state: { conversation?: Conversation; printing?: Printing; lines: number } = { lines: 0 };

  const close = () => state.conversation?.close();
  const onLine = (line: string) => {
    const { printing } = state;
    if (!printing) return;
    printing.lines.push(line);
    if (line === "}" && printing.isEnough(printing.lines)) printing.isWhole.resolve();
  };
  /** Resolves with nft's errors. An invalid line, which nft repeats in its error, marks the end of the answer. */
  const ask = async (line: string, timeoutMs: number): Promise<string> => {
    const end = `end ${++state.lines}`;
    const output = await state.conversation!.ask(`${line}${end}\n`, end, timeoutMs);
    const ownError = output.lastIndexOf("Error: ");
    if (ownError === -1) throw new Error("nft accepted an invalid line");
    return output.slice(0, ownError);
  };
  /** Waits for the last line of a listing: the standard output may be read after the standard error. */
  const wholeListing = async ({ isWhole, waitMs }: Printing): Promise<void> => {
    const late = () => isWhole.reject(new LateListingError("nft did not print the end of a listing"));
    await isWhole.promise.finally(clock.schedule(waitMs, late));
  };

  return {
    close,
    /** Starts an nft if there is none. Resolves with whether it works. */
    async open(): Promise<boolean> {
      if (state.lines >= LINES_PER_PROCESS) close();
      if (state.conversation?.isOpen()) return true;
      try {
        state.lines = 0;
        state.conversation = runner.converse!({ tool: "nft", args: [...args, "-i"], onLine });
        return !hasError(await ask("", OPENING_TIMEOUT_MS));
      } catch {
        // Without a session, each call has its own process.
        return false;
      }
    },
    /** Has the open nft carry out a line. Resolves with whether it printed no error; rejects as `NftSession` does. */
    async carryOut(line: string, listing: Printing | undefined): Promise<boolean> {
      state.printing = listing;
      try {
        const timeoutMs = listing?.waitMs === LAST_LINE_MS ? LISTING_TIMEOUT_MS : ANSWER_TIMEOUT_MS;
        const isDone = !hasError(await ask(`${line}\n`, timeoutMs));
        if (isDone && listing) await wholeListing(listing);
        return isDone;
      } finally {
        state.printing = undefined;
      }
    },
  };
}

/** Thrown if the end of a listing is not read in time. */
class LateListingError extends Error {
  override readonly name = "LateListingError";
}

function hasError(output: string): boolean {
  return output.includes("Error: ");
}
