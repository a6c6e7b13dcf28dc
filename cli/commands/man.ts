import type { CommandSpec } from "../../config/mod.ts";
import type { Command } from "./command.ts";

/** The page of the manual for these commands. */
export function createManCommand(commands: () => readonly CommandSpec[]): Command {
  return {
    name: "man",
    summary: "Print the page of the manual; install puts it in place.",
    arguments: [],
    flags: [],
    examples: [{ line: "sluice man", does: "for sluice man | man -l -" }],
    async start({ print }) {
      print(await manualText(commands()));
      return 0;
    },
  };
}

/** The page of the manual for these commands, in the man macros. */
export async function manualText(commands: readonly CommandSpec[]): Promise<string> {
  const { manPage } = await import("../manual/mod.ts");
  const { CONFIGURATION, RECORD, UNIT } = await import("../installation/mod.ts");
  return manPage(commands, {
    files: {
      [CONFIGURATION]: "the configuration of the service, a KubeProxyConfiguration",
      [UNIT]: "the service",
      "/run/sluice/control.sock": "where a running proxy is asked by explain, get, render and diff",
      [RECORD]: "what install wrote, so that uninstall can tell what was changed since",
    },
  });
}
