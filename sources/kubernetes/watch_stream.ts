/** One line of a watch, as the API tells it. */
export interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  /** The object, as it is now or was last; with BOOKMARK an object of which only the resourceVersion means something,
   * with ERROR a Status. */
  readonly object: unknown;
}

/** Takes the bytes of a watch as they come and hands on its events. */
export interface WatchDecoder {
  /**
   * Takes the next bytes; every event that ends in them is handed on before it returns, so that what came together
   * is applied together. Throws a SyntaxError at a line that is no event; events before it have been handed on.
   */
  push(chunk: Uint8Array): void;
  /** How many bytes of an unfinished line are held; where the stream ends with some, that event did not arrive. */
  unfinishedBytes(): number;
}

const NEWLINE = 0x0a;
const TYPES: ReadonlySet<string> = new Set<WatchEvent["type"]>(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]);

/** A decoder for a watch's body: JSON objects, one a line. */
export function createWatchDecoder(onEvent: (event: WatchEvent) => void): WatchDecoder {
  const text = new TextDecoder();
  let held = "";
  let heldBytes = 0;
  return {
    push(chunk) {
      let from = 0;
      for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
        const line = held + text.decode(chunk.subarray(from, end));
        held = "";
        heldBytes = 0;
        from = end + 1;
        if (line.trim() !== "") onEvent(eventOfLine(line));
      }
      if (from === chunk.length) return;
      // A line may break inside a character: what is held goes through the decoder's stream mode.
      held += text.decode(chunk.subarray(from), { stream: true });
      heldBytes += chunk.length - from;
    },
    unfinishedBytes: () => heldBytes,
  };
}

function eventOfLine(line: string): WatchEvent {
  const event: unknown = JSON.parse(line);
  if (
    typeof event !== "object" || event === null || !("type" in event) || !("object" in event) ||
    typeof event.type !== "string" || !TYPES.has(event.type)
  ) {
    throw new SyntaxError(`this is no watch event: ${line.slice(0, 120)}`);
  }
  return event as WatchEvent;
}
