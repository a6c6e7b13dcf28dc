import { type Command, jsonText } from "./command.ts";
import { outputFlags, outputOf } from "./output.ts";

const OUTPUT = outputFlags(["text", "json"]);

/** `sluice version`: versions of this program and its parts. */
export const versionCommand: Command = {
  name: "version",
  summary: "Show the version, the commit, the runtime and the bundled packages.",
  arguments: [],
  flags: OUTPUT.flags,
  withoutSource: true,
  examples: [{ line: "sluice version -o json", does: "for a bug report or an inventory" }],
  async start(invocation) {
    const { readBuild } = await import("../../platform/mod.ts");
    const build = readBuild();
    if (outputOf(invocation, OUTPUT) === "json") {
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
