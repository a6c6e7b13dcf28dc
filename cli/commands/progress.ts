/** Progress of a wait on standard output. */
import type { Invocation } from "./command.ts";
import type { StateWords } from "../../answers/control/mod.ts";
import type { Report } from "./await_order.ts";

/** The progress of a wait. */
export interface Progress {
  /** Shows the thing waited for: on a terminal in one line, with the time so far; elsewhere a line for each change. */
  show(text: string): void;
  /** Removes the line from a terminal. */
  end(): void;
}

/** Creates the progress of a wait that starts now. */
export function createProgress(
  { clock, print }: Pick<Invocation, "clock" | "print">,
  isTerminal = Deno.stdout.isTerminal(),
): Progress {
  const startMs = clock.monotonic();
  let shown = "";
  return {
    show(text) {
      const seconds = Math.floor((clock.monotonic() - startMs) / 1000);
      const line = isTerminal ? `${seconds} s  ${text}` : text;
      if (line === shown) return;
      shown = line;
      print(isTerminal ? `\r\x1b[K${line}` : `waiting: ${line}\n`);
    },
    end() {
      if (isTerminal && shown !== "") print("\r\x1b[K");
    },
  };
}

/** The first thing that is not in effect; `found` is a report, or why no proxy answered. */
export async function waitingFor(found: Report | string): Promise<string> {
  if (typeof found === "string") return found;
  const { stateOfFamily, stateOfLink, stateOfProxy } = await import("../../answers/control/mod.ts");
  const { status } = found;
  const link = status.link?.state === "connected" ? undefined : stateOfLink(status);
  if (link !== undefined) return sentence({ ...link, words: `API server or relay: ${link.words}` });
  const state = stateOfProxy(status);
  const family = status.families.find(({ family }) => state.words.startsWith(`${family}: `));
  return sentence({ ...state, reason: family === undefined ? state.reason : stateOfFamily(family, status).reason });
}

function sentence({ words, reason }: Pick<StateWords, "words" | "reason">): string {
  return reason === undefined ? words : `${words} (${reason})`;
}
