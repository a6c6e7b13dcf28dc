import type { Clock } from "../../platform/mod.ts";

/** Options of `showProgress`. */
export interface ProgressOptions {
  readonly clock: Clock;
  /** The text at this moment. */
  readonly text: () => string;
  readonly write: (text: string) => void;
  /** Whether the output is a terminal, on which a line can be replaced. Elsewhere one line is printed. */
  readonly isTerminal: boolean;
}

const REFRESH_MS = 1000;

/** Shows the progress of something that takes longer than a second. Returns a function that ends it. */
export function showProgress({ clock, text, write, isTerminal }: ProgressOptions): () => void {
  let isShown = false;
  const show = () => {
    write(isTerminal ? `\r\x1b[K${text()}` : `${text()}\n`);
    isShown = true;
    if (isTerminal) cancel = clock.schedule(REFRESH_MS, show);
  };
  let cancel = clock.schedule(REFRESH_MS, show);
  return () => {
    cancel();
    if (isShown && isTerminal) write("\r\x1b[K");
  };
}
