/** Splits text that arrives in pieces into lines. */
export interface LineSplitter {
  push(text: string): void;
  /** Emits the last line if it has no newline. */
  end(): void;
}

/** A splitter that calls `onLine` with each line, without its newline. */
export function createLineSplitter(onLine: (line: string) => void): LineSplitter {
  let open = "";
  return {
    push(text) {
      let start = 0;
      for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", start)) {
        onLine(start === 0 ? open + text.slice(0, end) : text.slice(start, end));
        if (start === 0) open = "";
        start = end + 1;
      }
      open += text.slice(start);
    },
    end() {
      if (open !== "") onLine(open);
      open = "";
    },
  };
}

/** Text of limited size. */
export interface BoundedText {
  push(bytes: Uint8Array): void;
  /** The text; if bytes were left out, a line in the middle gives their number. */
  toString(): string;
}

/** Creates a text of limited size that keeps the first and the last half of `limitBytes`. */
export function boundedText(limitBytes: number): BoundedText {
  const half = limitBytes >> 1;
  const head: Uint8Array[] = [];
  let headBytes = 0;
  let tail: Uint8Array[] = [];
  let tailBytes = 0;
  let leftOutBytes = 0;
  const trimTail = () => {
    const all = joined(tail, tailBytes);
    leftOutBytes += all.length - half;
    tail = [all.slice(all.length - half)];
    tailBytes = half;
  };
  return {
    push(bytes) {
      const forHead = bytes.subarray(0, half - headBytes);
      if (forHead.length > 0) head.push(forHead);
      headBytes += forHead.length;
      const rest = bytes.subarray(forHead.length);
      if (rest.length === 0) return;
      tail.push(rest);
      tailBytes += rest.length;
      if (tailBytes > 4 * half) trimTail();
    },
    toString() {
      if (tailBytes > half) trimTail();
      if (leftOutBytes === 0) {
        return new TextDecoder().decode(joined([...head, ...tail], headBytes + tailBytes));
      }
      const text = (parts: Uint8Array[], size: number) => new TextDecoder().decode(joined(parts, size));
      return `${text(head, headBytes)}\n… ${leftOutBytes} bytes left out …\n${text(tail, tailBytes)}`;
    },
  };
}

function joined(parts: readonly Uint8Array[], size: number): Uint8Array {
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
