import type { CommandSpec } from "../../config/mod.ts";
import { PROCESS_FEATURES } from "../../features/mod.ts";
import type { Shell } from "../manual/mod.ts";
import { type Command, printAs, TEXT_OR_JSON } from "./command.ts";

/** `sluice version`: versions of this program and its parts. */
export const versionCommand: Command = {
  name: "version",
  summary: "Show the version, the commit, the runtime and the bundled packages.",
  flags: TEXT_OR_JSON,
  withoutSource: true,
  examples: { "sluice version -o json": "for a bug report or an inventory" },
  async start(invocation) {
    const { readBuild } = await import("../../platform/mod.ts");
    const build = readBuild();
    const { version, kubernetes, commit, deno, v8, dependencies } = build;
    const packages = Object.entries(dependencies).map(([name, version]) => `${name} ${version}`);
    printAs(
      invocation,
      build,
      () =>
        `Sluice ${version} (behaves as kube-proxy ${kubernetes})\ncommit ${commit}\nDeno ${deno}, V8 ${v8}\n` +
        `${packages.join(", ")}\n`,
    );
    return 0;
  },
};

const SHELLS: readonly Shell[] = ["bash", "zsh", "fish"];

/** `sluice completion`. */
export const completionCommand: Command = {
  name: "completion",
  summary: "Print the completion script of a shell; sluice install installs it.",
  arguments: [{ name: SHELLS.join("|"), description: "the shell", required: true, values: SHELLS }],
  flags: [],
  withoutSource: true,
  examples: {
    "sluice completion bash": "load it in ~/.bashrc with source <(sluice completion bash)",
    "sluice completion fish": "load it in config.fish with sluice completion fish | source",
  },
  async start({ commands, arguments: [shell], print }) {
    const { completionScript } = await import("../manual/mod.ts");
    print(completionScript(shell as Shell, commands));
    return 0;
  },
};

/** `sluice man`. */
export const manCommand: Command = {
  name: "man",
  summary: "Print the man page; sluice install installs it.",
  flags: [],
  withoutSource: true,
  examples: { "sluice man": "read it with sluice man | man -l -" },
  async start({ commands, print }) {
    print(await manualText(commands));
    return 0;
  },
};

/** Returns the man page for these commands. */
export async function manualText(commands: readonly CommandSpec[]): Promise<string> {
  const { manPage } = await import("../manual/mod.ts");
  const { CONFIGURATION, RECORD, SCRIPT, UNIT } = await import("../installation/mod.ts");
  const files = {
    [CONFIGURATION]: "configuration of the service (KubeProxyConfiguration)",
    [UNIT]: "systemd unit",
    [SCRIPT]: "OpenRC script, on systems without systemd",
    "/run/sluice/control.sock": "control socket of the running proxy, used by explain, get, render, diff and top",
    [RECORD]: "record of the installed files, used by uninstall",
  };
  return manPage(commands, files, Object.assign({}, ...PROCESS_FEATURES.map(({ environment }) => environment)));
}
