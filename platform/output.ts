/** Standard output and standard error, and full-screen terminal output. */

const encoder = new TextEncoder();

/** Writes to standard error synchronously, so that nothing is lost when the process exits. */
export function writeToStderr(text: string): void {
  try {
    writeAll(Deno.stderr, text);
  } catch {
    // A write error (closed pipe, full disk) must not stop the proxy.
  }
}

/**
 * Writes to standard output synchronously; false if nobody reads it any more (`| head`), which discards the text. Throws an Error if
 * it cannot be written otherwise, to a full disk for example: part of an answer must not pass for all of it.
 */
export function writeToStdout(text: string): boolean {
  try {
    writeAll(Deno.stdout, text);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) return false;
    throw new Error("cannot write to standard output", { cause: error });
  }
}

function writeAll(stream: { writeSync(bytes: Uint8Array): number }, text: string): void {
  const bytes = encoder.encode(text);
  for (let written = 0; written < bytes.length;) written += stream.writeSync(bytes.subarray(written));
}

interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/** A terminal in full-screen mode. */
interface Screen {
  size(): TerminalSize;
  /** Replaces the content of the screen with these lines. */
  draw(lines: readonly string[]): void;
  leave(): void;
}

/** Callbacks for terminal events. */
interface ScreenListener {
  /** A character, or the sequence of a key that has none (`\x1b[A` for ↑). */
  onKey(key: string): void;
  onResize(): void;
}

// deno-lint-ignore no-control-regex -- keys without a character send an escape sequence
const KEY = /\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|[^]/gu;
const ENTER = "\x1b[?1049h\x1b[?25l", LEAVE = "\x1b[?25h\x1b[?1049l";

/** Whether standard input and output are both a terminal. */
export function isInteractive(): boolean {
  return Deno.stdin.isTerminal() && Deno.stdout.isTerminal();
}

/** Switches the terminal to full-screen mode. Keys arrive one at a time, including Ctrl-C (`\x03`). */
export function openScreen(print: (text: string) => void, listener: ScreenListener): Screen {
  const show = (text: string) => {
    try {
      print(text);
    } catch {
      // The terminal was closed, which `readKeys` notices.
    }
  };
  Deno.stdin.setRaw(true);
  Deno.addSignalListener("SIGWINCH", listener.onResize);
  show(ENTER);
  let left = false;
  const readKeys = async () => {
    const chunk = new Uint8Array(64);
    for (let length; !left && (length = await Deno.stdin.read(chunk)) !== null;) {
      for (const [key] of new TextDecoder().decode(chunk.subarray(0, length)).matchAll(KEY)) listener.onKey(key);
    }
    // The terminal was closed.
    if (!left) listener.onKey("\x04");
  };
  readKeys().catch(() => listener.onKey("\x04"));
  return {
    size: () => Deno.consoleSize(),
    draw: (lines) => show(`\x1b[H${lines.map((line) => `${line}\x1b[K`).join("\r\n")}\x1b[J`),
    leave() {
      if (left) return;
      left = true;
      Deno.removeSignalListener("SIGWINCH", listener.onResize);
      show(LEAVE);
      Deno.stdin.setRaw(false);
    },
  };
}
