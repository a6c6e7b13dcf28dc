/** What `sluice NAME` does, a file for each command; the help lists them in this order. */
import type { Command } from "./command.ts";
import { runCommand } from "./run.ts";

/** Every command there is. */
export const COMMANDS: readonly Command[] = [runCommand];
