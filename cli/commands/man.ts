import type { CommandSpec } from "../../config/mod.ts";
import type { Command } from "./command.ts";

/** Creates `sluice man` for these commands. */
export function createManCommand(commands: () => readonly CommandSpec[]): Command {
  return {
    name: "man",
    summary: "Print the man page; sluice install installs it.",
    arguments: [],
    flags: [],
    withoutSource: true,
    examples: [{ line: "sluice man", does: "read it with sluice man | man -l -" }],
    async start({ print }) {
      print(await manualText(commands()));
      return 0;
    },
  };
}

/** Returns the man page for these commands. */
export async function manualText(commands: readonly CommandSpec[]): Promise<string> {
  const { manPage } = await import("../manual/mod.ts");
  const { CONFIGURATION, RECORD, SCRIPT, UNIT } = await import("../installation/mod.ts");
  return manPage(commands, {
    files: {
      [CONFIGURATION]: "configuration of the service (KubeProxyConfiguration)",
      [UNIT]: "systemd unit",
      [SCRIPT]: "OpenRC script, on systems without systemd",
      "/run/sluice/control.sock": "control socket of the running proxy, used by explain, get, render, diff and top",
      [RECORD]: "record of the installed files, used by uninstall",
    },
    environment: {
      OTEL_EXPORTER_OTLP_ENDPOINT: "run and serve send metrics, and run a trace of each sync, to this OpenTelemetry " +
        "collector; the other variables of OpenTelemetry's exporters apply (docs/operate.md)",
      OTEL_SDK_DISABLED: "true: nothing is sent",
    },
  });
}
