/** A terminal that shows a picture instead of lines, for as long as a program wants, and is then as it was. */

/** The size of a terminal. */
export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/** A terminal that has been taken over. */
export interface Screen {
  size(): TerminalSize;
  /** Shows these lines from the top, and nothing else. */
  draw(lines: readonly string[]): void;
  /** Gives the terminal back as it was. */
  leave(): void;
}

/** Who is told what happens at the terminal. */
export interface ScreenListener {
  onKey(key: string): void;
  onResize(): void;
}

const ENTER = "\x1b[?1049h\x1b[?25l", LEAVE = "\x1b[?25h\x1b[?1049l";

/** Whether both ends of this process are a terminal that can show a picture. */
export function canTakeScreen(): boolean {
  return Deno.stdin.isTerminal() && Deno.stdout.isTerminal();
}

/** Takes the terminal over. Keys come one by one, Ctrl-C among them as `\x03`. */
export function takeScreen(print: (text: string) => void, listener: ScreenListener): Screen {
  Deno.stdin.setRaw(true);
  Deno.addSignalListener("SIGWINCH", listener.onResize);
  print(ENTER);
  let left = false;
  const readKeys = async () => {
    const chunk = new Uint8Array(64);
    for (let length; !left && (length = await Deno.stdin.read(chunk)) !== null;) {
      for (const key of new TextDecoder().decode(chunk.subarray(0, length))) listener.onKey(key);
    }
    // Nobody is at the keyboard any more: the terminal was closed.
    if (!left) listener.onKey("\x04");
  };
  readKeys().catch(() => listener.onKey("\x04"));
  return {
    size: () => Deno.consoleSize(),
    draw: (lines) => print(`\x1b[H${lines.map((line) => `${line}\x1b[K`).join("\r\n")}\x1b[J`),
    leave() {
      if (left) return;
      left = true;
      Deno.removeSignalListener("SIGWINCH", listener.onResize);
      print(LEAVE);
      Deno.stdin.setRaw(false);
    },
  };
}
