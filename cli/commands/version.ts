import { choice } from "../../config/mod.ts";
import { chosen, jsonText } from "./asking.ts";
import type { Command } from "./command.ts";

const OUTPUT = choice("output", ["text", "json"], "How it is written.", "o");

/** What this program was made of. */
export const versionCommand: Command = {
  name: "version",
  summary: "Show the version, the commit, the runtime and the packages inside.",
  arguments: [],
  flags: [OUTPUT],
  examples: [{ line: "sluice version -o json", does: "for a report, or an inventory" }],
  async start(invocation) {
    const { readBuild } = await import("../../platform/mod.ts");
    const build = readBuild();
    if (chosen(invocation, OUTPUT) === "json") {
      invocation.print(jsonText(build));
      return 0;
    }
    const { version, kubernetes, commit, deno, v8, dependencies } = build;
    const packages = Object.entries(dependencies).map(([name, version]) => `${name} ${version}`);
    invocation.print(
      `Sluice ${version} (behaves as kube-proxy ${kubernetes})\ncommit ${commit}\nDeno ${deno}, V8 ${v8}\n` +
        `${packages.join(", ")}\n`,
    );
    return 0;
  },
};
