/** One event of a watch. */
export interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  /** The object's current or last state; with BOOKMARK an object with only a resourceVersion, with ERROR a Status. */
  readonly object: unknown;
}

/** Decodes a watch's body incrementally and emits its events. */
export interface WatchDecoder {
  /**
   * Decodes the next bytes and emits every event that ends in them before it returns, so that events that came together are
   * applied together. Throws a SyntaxError at a line that is not an event, after emitting the events before it.
   */
  push(chunk: Uint8Array): void;
  /** The bytes of an incomplete line; if there are any at the end of the stream, an event was lost. */
  unfinishedBytes(): number;
}

const NEWLINE = 0x0a;
const TYPES: ReadonlySet<string> = new Set<WatchEvent["type"]>(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]);

/** A decoder for a watch's body: one JSON object per line. */
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
      // A chunk may end inside a character, which the decoder's stream mode handles.
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
    throw new SyntaxError(`not a watch event: ${line.slice(0, 120)}`);
  }
  return event as WatchEvent;
}
